//! What is kept is seen through, and a fault of the store says of what it is.

use futures::poll;
use redb::{ReadableTable, TableDefinition};
use understudy_actors::session::store::StateSessionsOptions;
use understudy_actors::state::State;
use understudy_actors::tap::EventTap;
use understudy_actors::telemetry::Telemetry;

use super::*;

struct House {
    state: State,
    telemetry: Arc<Telemetry>,
    tasks: Tasks,
    responses: Responses,
}

impl House {
    /// In which one response is kept at a time.
    fn new() -> Self {
        let (state, telemetry) = (State::in_memory().expect("state"), Telemetry::new().expect("sound"));
        let options = StateSessionsOptions {
            state: state.clone(),
            clock: Clock::movable(),
            telemetry: telemetry.clone(),
            tap: EventTap::default(),
            interval: None,
            ttl: Duration::from_secs(3600),
            most: 1,
            disk: u64::MAX,
        };
        let store = StateSessions::open(options, []).expect("opened");
        let tasks = Tasks::new();
        Self {
            state,
            telemetry,
            responses: Responses::stored(Arc::new(store), tasks.clone()),
            tasks,
        }
    }
}

fn transcript() -> Transcript {
    let response = r#"[{"id":"item"}]"#;
    Transcript {
        parent: None,
        input: "{}".into(),
        response: response.into(),
        output: 1..response.len() - 1,
        items: vec![("item".into(), 0..response.len() - 2)],
    }
}

#[actix_web::test]
async fn a_response_whose_client_leaves_while_it_is_kept_is_kept_and_what_went_for_it_is_counted() {
    let house = House::new();
    house.responses.keep(None, "one", transcript()).await.expect("kept");
    {
        let keep = std::pin::pin!(house.responses.keep(None, "two", transcript()));
        assert!(poll!(keep).is_pending(), "and nobody waits for it any longer");
    }
    house.tasks.stop().await;
    assert!(house.responses.find(None, "two").await.expect("sound").is_some());
    assert!(house.responses.find(None, "one").await.expect("sound").is_none());
    let scrape = house.telemetry.render();
    assert!(
        scrape.contains("understudy_session_events_total{event=\"displaced\"} 1"),
        "{scrape}"
    );
}

#[actix_web::test]
async fn whoever_names_an_item_of_a_damaged_response_is_told_that_it_is_about_an_item() {
    let house = House::new();
    house.responses.keep(None, "one", transcript()).await.expect("kept");
    let damaged = house.state.file().write_now(|write| {
        let mut texts = write.open_table(TableDefinition::<u64, &[u8]>::new("response_texts"))?;
        let (number, record) = texts
            .first()?
            .map(|(number, record)| (number.value(), record.value().to_vec()))
            .expect("one");
        let cut = &record[..record.len() - 1];
        texts.insert(number, cut)?;
        Ok(())
    });
    damaged.expect("written");
    let failure = house
        .responses
        .find_items(None, ["item".into()].into(), 99)
        .await
        .expect_err("damaged");
    assert!(
        failure.client_message().contains("of an item that it names, or"),
        "{}",
        failure.client_message()
    );
    let failure = house.responses.find(None, "one").await.expect_err("damaged");
    assert!(
        failure.client_message().contains("of the response `one`, or"),
        "{}",
        failure.client_message()
    );
}
