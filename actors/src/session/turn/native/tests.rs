//! Who speaks in a session, and what is kept of a turn.

use understudy_messages::conversation::{Message, Part, Speaker};
use understudy_messages::failure::{CancelCause, Reason};
use understudy_messages::ids::{SessionKey, TurnId};

use super::*;
use crate::registry::testing::settings;
use crate::session::memory::NoRoom;

fn request(agent: Option<&str>, model: &str) -> TurnRequest {
    let body = (format!(r#"{{"model":"{model}","input":[{{"role":"user","content":"hi"}}]}}"#)).into();
    TurnRequest {
        id: TurnId::new(),
        request_id: "r".into(),
        session: SessionKey::Ephemeral,
        agent: agent.map(Name::from),
        endpoint: Endpoint::Native,
        facts: wire::scan(Endpoint::Native, &body).expect("good"),
        body,
        headers: Vec::new(),
    }
}

fn recalled(pinned: Option<&str>, agent: Option<&str>) -> Recalled {
    Recalled {
        pinned: pinned.map(Name::from),
        agent: agent.map(Name::from),
        ..Recalled::default()
    }
}

/// Agent, model and whether nobody else is asked.
fn cast(request: &TurnRequest, names_model: bool, recalled: &Recalled) -> (Option<String>, Option<String>, bool) {
    let settings = settings();
    let casting = casting(request, names_model, recalled, &Roster::new(settings.into()));
    let text = |name: Option<Name>| name.map(|name| name.to_string());
    (text(casting.agent), text(casting.model), casting.strict)
}

fn known_agent() -> String {
    let settings = settings();
    settings.agents.first().expect("an agent").name.to_string()
}

#[test]
fn the_agent_that_spoke_last_goes_on_unless_another_one_is_named() {
    let known = known_agent();
    let spoke = recalled(None, Some(&known));
    let goes_on = (Some(known.clone()), Some(known.clone()), false);
    assert_eq!(cast(&request(None, "default"), false, &spoke), goes_on);
    let other = (Some("other".to_owned()), Some("other".to_owned()), false);
    assert_eq!(cast(&request(Some("other"), "other"), false, &spoke), other);
    let own_model = (Some(known.clone()), None, false);
    assert_eq!(cast(&request(None, "a/m"), true, &spoke), own_model);
    let by_its_name = (None, None, false);
    assert_eq!(cast(&request(None, &known), true, &spoke), by_its_name);
    let gone = (None, None, false);
    assert_eq!(
        cast(&request(None, "default"), false, &recalled(None, Some("gone"))),
        gone
    );
}

#[test]
fn a_chosen_model_stands_in_for_one_that_is_not_named_and_is_strict() {
    let chosen = recalled(Some("b/m"), None);
    assert_eq!(
        cast(&request(None, "default"), false, &chosen),
        (None, Some("b/m".to_owned()), true)
    );
    assert_eq!(cast(&request(None, "a/m"), true, &chosen), (None, None, false));
}

#[test]
fn what_the_user_said_is_kept_once_and_an_answer_only_where_it_is_whole() {
    let performance = |outcome| Performance {
        said: vec![Message {
            speaker: Speaker::Assistant,
            parts: vec![Part::Text("hello".to_owned())],
        }],
        ..Performance::nothing(outcome, None)
    };
    let failed = TurnOutcome::Failed {
        reason: Reason::Timeout,
        after_content: true,
    };
    let cancelled = TurnOutcome::Cancelled {
        cause: CancelCause::Client,
    };
    for (outcome, items) in [
        (TurnOutcome::Completed, 2),
        (failed, 1),
        (cancelled, 1),
        (TurnOutcome::Blocked, 0),
    ] {
        assert_eq!(
            kept(vec!["asked".to_owned()], &performance(outcome)).len(),
            items,
            "{outcome:?}"
        );
    }
}

#[test]
fn an_input_without_room_is_told_from_a_process_without() {
    let told = |no_room| {
        let failure = Refusal::Room(no_room).failure();
        (failure.status, failure.code.to_string(), failure.retry_after)
    };
    assert_eq!(told(NoRoom::Session), (413, "input_too_large".to_owned(), None));
    assert_eq!(told(NoRoom::Process), (503, "sessions_full".to_owned(), Some(1)));
}
