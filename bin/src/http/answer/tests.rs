//! When the end of an answer is said.

use actix_web::body::to_bytes;
use futures::FutureExt;
use understudy_messages::cancel::TurnCancel;
use understudy_messages::client::ClientChannel;
use understudy_messages::failure::CancelCause;
use understudy_messages::ids::{ModelRef, TurnId};
use understudy_providers::wire::scan;

use super::*;

fn keyed() -> SessionKey {
    SessionKey::Keyed {
        owner: None,
        key: "s".into(),
    }
}

fn turn(session: SessionKey) -> (ClientChannel, Frames) {
    let body = Bytes::from(r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#);
    let (client, frames) = ClientChannel::open();
    let request = TurnRequest {
        id: TurnId::new(),
        request_id: "r".into(),
        session,
        agent: None,
        endpoint: Endpoint::Chat,
        facts: scan(Endpoint::Chat, &body).expect("a request"),
        body,
        headers: Vec::new(),
    };
    let frames = Frames {
        request: Arc::new(request),
        clock: Clock::real(),
        frames,
        keeping: client.keeping(),
        memory: None,
        client_left: TurnCancel::new().on_drop(CancelCause::Client),
    };
    (client, frames)
}

/// All of an answer but what comes after its end.
async fn answer(client: &ClientChannel, streaming: bool) {
    let head = AnswerHead {
        served_by: ModelRef::new("a", "m"),
        attempts: 1,
        streaming,
        headers: Vec::new(),
        dropped: Vec::new(),
    };
    let data = Bytes::from(if streaming {
        "data: {\"choices\":[]}\n\n"
    } else {
        "{\"choices\":[]}"
    });
    for frame in [
        ClientFrame::Head(head),
        ClientFrame::Data(data),
        ClientFrame::End { last: None },
    ] {
        client.send(frame).await.expect("room");
    }
}

async fn read(response: HttpResponse) -> (u16, String) {
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body()).await.expect("a body");
    (status, String::from_utf8(body.to_vec()).expect("text"))
}

#[actix_web::test]
async fn the_end_is_said_when_the_session_has_kept_the_turn_and_not_before() {
    for streaming in [true, false] {
        let (client, frames) = turn(keyed());
        answer(&client, streaming).await;
        let mut reading = Box::pin(async { read(respond(frames).await).await });
        assert!((&mut reading).now_or_never().is_none(), "it is not kept yet");
        client.note_kept();
        assert!((&mut reading).now_or_never().is_none(), "the turn is not over yet");
        drop(client);
        let (status, body) = reading.await;
        assert_eq!((status, body.contains("[DONE]")), (200, streaming), "{body}");
        assert!(!body.contains("error"), "{body}");
    }
}

#[actix_web::test]
async fn a_turn_that_could_not_be_kept_ends_as_an_error_in_the_place_of_its_end() {
    for streaming in [true, false] {
        let (client, frames) = turn(keyed());
        answer(&client, streaming).await;
        let failure = TurnFailure::ours(503, "session_store_failed", "The disk is full.");
        client.send(ClientFrame::Failed(failure)).await.expect("room");
        drop(client);
        let (status, body) = read(respond(frames).await).await;
        assert_eq!(status, if streaming { 200 } else { 503 });
        assert!(
            body.contains("session_store_failed") && !body.contains("[DONE]"),
            "{body}"
        );
    }
}

#[actix_web::test]
async fn a_turn_that_was_lost_before_it_was_kept_is_not_said_to_have_ended() {
    for streaming in [true, false] {
        let (client, frames) = turn(keyed());
        answer(&client, streaming).await;
        drop(client);
        let (status, body) = read(respond(frames).await).await;
        assert_eq!(status, if streaming { 200 } else { 500 });
        assert!(body.contains("turn_lost") && !body.contains("[DONE]"), "{body}");
    }
}

#[actix_web::test]
async fn the_end_of_a_turn_without_a_session_waits_for_nothing() {
    for streaming in [true, false] {
        let (client, frames) = turn(SessionKey::Ephemeral);
        answer(&client, streaming).await;
        let answered = async { read(respond(frames).await).await };
        let (status, body) = answered.now_or_never().expect("at once");
        assert_eq!((status, body.contains("[DONE]")), (200, streaming), "{body}");
        drop(client);
    }
}
