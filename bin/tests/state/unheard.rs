//! A gateway that nobody listens to: what it says is lost, and nothing else.

use reqwest::StatusCode;

use super::place::Place;

#[tokio::test]
async fn a_gateway_whose_log_cannot_be_written_loses_no_turn_and_no_reload() {
    let place = Place::new().await;
    let (one, two, three) = (
        place.configuration("one", 1),
        place.configuration("two", 2),
        place.configuration("one", 3),
    );
    place.write(&one);
    let mut command = place.command(&["serve"]);
    command.env("RUST_LOG", "debug");
    let gateway = place.start_unheard(command);
    gateway.serves(&place, &one, "one").await;
    let put = gateway.put(&two).await.expect("no panic").expect("answered");
    assert_eq!((put.0, &put.1["applied"]), (StatusCode::OK, &true.into()), "{put:?}");
    gateway.serves(&place, &two, "two").await;
    let reloaded = gateway.reload("stage").await.expect("no panic");
    assert_eq!(reloaded, Some(StatusCode::OK));
    let before = gateway.serving().await;
    place.write(&three);
    gateway.hang_up();
    while gateway.serving().await == before {}
    gateway.serves(&place, &three, "one").await;
    gateway.end();
}
