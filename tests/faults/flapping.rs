//! A lead that is down for a minute and comes back (design §6, "Bound to meet"), for clients of every format.

use std::time::Duration;

use understudy_messages::request::Endpoint;
use understudy_messages::settings::Api;

use crate::Client;
use crate::http::Stage;
use crate::scenario::{Act, Instead, Refusal, Scenario};
use crate::turns::Turn;

const OUTAGE: Duration = Duration::from_secs(60);
/// How often a client comes.
const EVERY: Duration = Duration::from_secs(3);

/// Plays an outage; every client comes every three seconds.
async fn outage(down: Act) {
    let says = |says| Act {
        says: Some(says),
        ..Act::default()
    };
    let scenario = Scenario::of(vec![vec![down, says([0, 20])], vec![says([40, 60])]]);
    let speakers = [
        (Endpoint::Chat, Api::AnthropicMessages),
        (Endpoint::Responses, Api::OpenaiChat),
        (Endpoint::Messages, Api::OpenaiResponses),
        (Endpoint::Messages, Api::Gemini),
    ];
    let turn = |(number, (endpoint, lead))| Turn {
        number,
        client: Client { endpoint, stream: true },
        apis: vec![lead, endpoint.api()],
    };
    let turns: Vec<Turn> = (0..).zip(speakers).map(turn).collect();
    let stage = Stage::set_recovering(&scenario, &turns, OUTAGE).await;
    stage.clock.hold();
    let began = stage.began;
    let mut back: Vec<Option<Duration>> = vec![None; turns.len()];
    let mut asked_down: Vec<u64> = vec![0; turns.len()];
    for round in 0.. {
        let due = began + EVERY * round;
        stage.clock.advance(due.saturating_duration_since(stage.clock.now()));
        let since = stage.clock.now() - began;
        if since > OUTAGE + Duration::from_secs(30) {
            break;
        }
        for (at, turn) in turns.iter().enumerate() {
            let heard = stage.ask(turn, &scenario).await;
            assert_eq!(heard.status, 200, "{turn:?} after {since:?}");
            if since < OUTAGE {
                assert_eq!(heard.served_by, Some(1), "{turn:?} after {since:?}");
                asked_down[at] = heard.attempts[0];
            } else if heard.served_by == Some(0) {
                back[at].get_or_insert(since - OUTAGE);
            }
        }
    }
    for ((turn, asked), back) in turns.iter().zip(asked_down).zip(back) {
        assert!(asked <= 6, "{asked} attempts at a lead that is down: {turn:?}");
        let back = back.unwrap_or_else(|| panic!("the lead never answers again: {turn:?}"));
        assert!(
            back <= Duration::from_secs(25),
            "the lead is back after {back:?}: {turn:?}"
        );
    }
}

#[actix::test]
async fn a_minute_without_capacity_costs_few_attempts_and_the_lead_is_back_soon() {
    let refuses = Some(Refusal::Overloaded);
    outage(Act {
        refuses,
        ..Act::default()
    })
    .await;
}

#[actix::test]
async fn a_minute_of_broken_connections_costs_few_attempts_and_the_lead_is_back_soon() {
    let instead = Some(Instead::Reset);
    outage(Act {
        instead,
        ..Act::default()
    })
    .await;
}

#[actix::test]
async fn a_minute_of_server_errors_costs_few_attempts_and_the_lead_is_back_soon() {
    let refuses = Some(Refusal::ServerError);
    outage(Act {
        refuses,
        ..Act::default()
    })
    .await;
}
