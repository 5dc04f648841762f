//! The failover engine over real sessions and conductors, on virtual time.

use std::cell::Cell;
use std::time::Duration;

use understudy_messages::events::{Decision, Event, TerminalKind};
use understudy_messages::failure::{Cut, ErrorCode, Failure, Nuance, ProviderWords, Reason};
use understudy_messages::terminal::TurnFailure;

use crate::house::{Asked, Call, Ending, House, Play};

const TWO: &str = "
providers:
  a: { api: openai-chat, base_url: \"http://127.0.0.1:1\", models: [x, w], api_keys: [k0, k1] }
  b: { api: openai-chat, base_url: \"http://127.0.0.1:1\", models: [z] }
models:
  main: { chain: [a/x, b/z] }
  alone: { chain: [b/z] }
  siblings: { chain: [a/x, a/w, b/z] }
";

fn with(lines: &str) -> String {
    format!("{TWO}{lines}")
}

/// `a` fails like this, everybody else answers.
fn a_fails(failure: Failure) -> impl Fn(&Asked<'_>) -> Play {
    move |asked| match asked.target.starts_with("a/") {
        true => Play::fail(failure.clone()),
        false => Play::answer(),
    }
}

fn everybody_fails(failure: Failure) -> impl Fn(&Asked<'_>) -> Play {
    move |_| Play::fail(failure.clone())
}

fn answered(reason: Reason, status: u16) -> Failure {
    Failure {
        status: Some(status),
        ..Failure::observed(reason, Cut::Answered)
    }
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn by(model: &str) -> Ending {
    Ok(model.to_owned())
}

fn refusal(ending: Ending) -> TurnFailure {
    ending.expect_err("nobody answers")
}

async fn ask(house: &House, model: &str) -> Ending {
    let body = format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"hi"}}]}}"#);
    house.turn(&body).await
}

/// The decisions since the last look, with what they led to.
fn decisions(house: &House) -> Vec<(Decision, Reason, Option<String>)> {
    let decided = |event: &understudy_messages::events::SharedEvent| match &**event {
        Event::FailoverDecided(it) => Some((it.decision, it.reason, it.to.as_ref().map(ToString::to_string))),
        _ => None,
    };
    house.events().iter().filter_map(decided).collect()
}

#[actix::test]
async fn whatever_the_first_error_the_second_candidate_answers_case_35() {
    for failure in [
        answered(Reason::Auth, 401),
        answered(Reason::Billing, 402),
        answered(Reason::RateLimit, 429),
        answered(Reason::Overloaded, 503),
        Failure::observed(Reason::Timeout, Cut::Refused),
        Failure::observed(Reason::Unknown, Cut::Answered),
    ] {
        let config = TWO.replace(", api_keys: [k0, k1]", "");
        let house = House::open(&config, a_fails(failure.clone())).await;
        assert_eq!(house.ask().await, by("b/z"), "{failure}");
        assert_eq!(house.targets(), ["a/x", "b/z"], "{failure}");
        assert_eq!(
            decisions(&house),
            [(Decision::FallbackModel, failure.reason, Some("b/z".into()))]
        );
    }
}

#[actix::test]
async fn an_attempts_own_limit_moves_on_and_the_run_budget_ends_the_turn_case_36() {
    let stalled = Failure::observed(Reason::Timeout, Cut::FirstContentLimit);
    let house = House::open(TWO, a_fails(stalled)).await;
    assert_eq!(house.ask().await, by("b/z"));

    let config = with("defaults: { timeouts: { turn: 10s } }\n");
    let hangs = |_: &Asked<'_>| Play {
        takes: secs(11),
        failure: None,
    };
    let house = House::open(&config, hangs).await;
    let failure = refusal(house.ask().await);
    assert_eq!((failure.status, failure.cause), (504, Some(Reason::Timeout)));
    assert_eq!(house.targets(), ["a/x"], "no second call");
}

#[actix::test]
async fn the_summary_counts_the_candidates_and_names_each_with_its_reason_case_41() {
    let config = TWO.replace(", api_keys: [k0, k1]", "");
    let house = House::open(&config, |asked| match &*asked.target {
        "a/x" => Play::refuse(Reason::Auth),
        _ => Play::refuse(Reason::Unknown),
    })
    .await;
    let failure = refusal(house.ask().await);
    assert!(
        failure
            .sentence
            .starts_with("2 models could not answer: a/x (auth), b/z (unknown)"),
        "{}",
        failure.sentence
    );
    assert_eq!((failure.status, failure.reason_label()), (503, Some("mixed")));

    let house = House::open(TWO, everybody_fails(answered(Reason::ModelNotFound, 404))).await;
    let failure = refusal(ask(&house, "alone").await);
    assert_eq!(
        (failure.status, failure.cause),
        (404, Some(Reason::ModelNotFound)),
        "a single one speaks for itself"
    );
}

#[actix::test]
async fn a_certificate_that_cannot_be_trusted_drops_the_provider_for_the_turn_case_44() {
    let untrusted = Failure::observed(Reason::TlsCertificate, Cut::Refused);
    let house = House::open(TWO, a_fails(untrusted)).await;
    assert_eq!(ask(&house, "siblings").await, by("b/z"));
    assert_eq!(house.targets(), ["a/x", "b/z"]);
    assert_eq!(house.skipped(), [("a/w".to_owned(), Reason::TlsCertificate)]);
    assert_eq!(ask(&house, "siblings").await, by("b/z"));
    assert_eq!(house.targets().len(), 4, "the next turn asks it again: no mark");
}

#[actix::test]
async fn a_minute_of_outage_costs_six_attempts_and_the_lead_answers_within_25_s_of_its_return() {
    for takes in [Duration::ZERO, secs(5)] {
        let config = TWO.replace(", api_keys: [k0, k1]", "");
        let house = House::open(&config, move |asked| match &*asked.target {
            "a/x" if asked.since < secs(60) => Play {
                takes,
                ..Play::refuse(Reason::ServerError)
            },
            _ => Play::answer(),
        })
        .await;
        let mut back = None;
        let turns: Vec<_> = (0..40)
            .map(|request| {
                let house = &house;
                async move {
                    house.clock.sleep_until(house.started + secs(3 * request)).await;
                    (
                        house.ask().await.expect("somebody answers"),
                        house.clock.now() - house.started,
                    )
                }
            })
            .collect();
        for (served_by, at) in futures::future::join_all(turns).await {
            if served_by == "a/x" && back.is_none() {
                back = Some(at);
            }
        }
        let lead = house.calls().into_iter().filter(|call| call.target == "a/x");
        let during = lead.filter(|call| call.since < secs(60)).count();
        assert!(during <= 6, "{during} attempts during the outage");
        assert!(back.expect("it comes back") <= secs(60 + 25), "{back:?}");
    }
}

#[actix::test]
async fn refused_credentials_rotate_and_the_second_answers() {
    let house = House::open(TWO, |asked| match (&*asked.target, asked.attempt.credential) {
        ("a/x", 0) => Play::refuse(Reason::Auth),
        _ => Play::answer(),
    })
    .await;
    assert_eq!(house.ask().await, by("a/x"));
    assert_eq!(
        decisions(&house),
        [(Decision::RotateCredential, Reason::Auth, Some("a/x".into()))]
    );
    assert_eq!(house.ask().await, by("a/x"));
    let credentials: Vec<usize> = house.calls().iter().map(|call| call.credential).collect();
    assert_eq!(credentials, [0, 1, 1], "the refused one rests");
}

#[actix::test]
async fn on_the_last_candidate_waits_double_and_follow_what_the_provider_asks() {
    let asks = Cell::new(0);
    let house = House::open(&with("defaults: { retry: { max_per_target: 3 } }\n"), move |_| {
        asks.set(asks.get() + 1);
        match asks.get() {
            call @ 1..=3 => Play::fail(Failure {
                retry_after: Some(secs([1, 3, 6][call - 1])),
                ..answered(Reason::RateLimit, 429)
            }),
            _ => Play::answer(),
        }
    })
    .await;
    assert_eq!(ask(&house, "alone").await, by("b/z"));
    let at: Vec<u64> = house.calls().iter().map(|call| call.since.as_secs()).collect();
    assert_eq!(at, [0, 1, 4, 10]);
}

#[actix::test]
async fn a_wait_that_is_too_long_is_told_and_the_window_keeps_everybody_away() {
    let limited = Failure {
        retry_after: Some(secs(40)),
        ..answered(Reason::RateLimit, 429)
    };
    let house = House::open(TWO, everybody_fails(limited)).await;
    let failure = refusal(ask(&house, "alone").await);
    assert_eq!((failure.status, failure.retry_after), (429, Some(40)));
    house.clock.sleep(secs(10)).await;
    let failure = refusal(ask(&house, "alone").await);
    assert_eq!(
        (failure.status, failure.retry_after, failure.attempts),
        (429, Some(30), 0)
    );
    assert_eq!(house.targets(), ["b/z"], "no upstream is touched meanwhile");
}

#[actix::test]
async fn a_guessed_rest_is_asked_once_when_nothing_else_is_left() {
    let house = House::open(TWO, everybody_fails(answered(Reason::RateLimit, 429))).await;
    refusal(ask(&house, "alone").await);
    let before = house.calls().len();
    let failure = refusal(ask(&house, "alone").await);
    assert_eq!(house.calls().len() - before, 1, "asked once, without a retry");
    assert_eq!(failure.status, 429);
    let failure = refusal(ask(&house, "alone").await);
    assert_eq!(
        (failure.status, failure.attempts),
        (429, 0),
        "and not again before the rest is over"
    );
}

#[actix::test]
async fn a_billing_window_is_not_guessed_and_nobody_is_asked() {
    let house = House::open(TWO, everybody_fails(answered(Reason::Billing, 402))).await;
    assert_eq!(refusal(ask(&house, "alone").await).status, 402);
    let failure = refusal(ask(&house, "alone").await);
    assert_eq!(
        (failure.status, failure.cause, failure.attempts),
        (503, Some(Reason::Billing), 0)
    );
    assert_eq!(failure.retry_after, Some(600));
    assert_eq!(house.calls().len(), 1);
}

#[actix::test]
async fn a_content_filter_asks_one_other_provider_where_that_is_wanted_and_the_first_word_stands() {
    let filtered = |code: &str| Failure {
        nuance: Some(Nuance::ContentFilter),
        code: ErrorCode::new("content_filter"),
        words: Some(ProviderWords::new(code)),
        ..answered(Reason::Format, 400)
    };
    let script = move |asked: &Asked<'_>| Play::fail(filtered(&format!("said {}", asked.target)));
    let house = House::open(TWO, script).await;
    let failure = refusal(ask(&house, "siblings").await);
    assert_eq!(
        (failure.status, &*failure.code, failure.client_message()),
        (400, "content_filter", "said a/x")
    );
    assert_eq!(house.targets(), ["a/x"]);

    let agents = "agents: { bold: { model: { primary: a/x, fallbacks: [a/w, b/z] }, on_content_filter: next } }\n";
    let house = House::open(&with(agents), script).await;
    let failure = refusal(ask(&house, "bold").await);
    assert_eq!(house.targets(), ["a/x", "b/z"], "another provider, once");
    assert_eq!(failure.client_message(), "said a/x");
}

#[actix::test]
async fn a_listed_status_moves_on_whatever_its_reason() {
    let agents = "agents: { bold: { model: { primary: a/x, fallbacks: [b/z] }, failover: { on_status: [422] } } }\n";
    let house = House::open(&with(agents), a_fails(answered(Reason::Format, 422))).await;
    assert_eq!(ask(&house, "bold").await, by("b/z"));
    let house = House::open(&with(agents), a_fails(answered(Reason::Format, 400))).await;
    assert_eq!(refusal(ask(&house, "bold").await).status, 400);
    assert_eq!(house.targets(), ["a/x"]);
}

#[actix::test]
async fn after_an_unsafe_side_effect_only_the_same_model_is_asked_again() {
    let house = House::open(TWO, |asked| {
        asked.attempt.turn.effects.note_unsafe();
        Play::refuse(Reason::RateLimit)
    })
    .await;
    assert_eq!(refusal(house.ask().await).status, 429);
    assert_eq!(house.targets(), ["a/x"; 3]);
}

#[actix::test]
async fn a_turn_makes_no_more_attempts_than_configured() {
    let config = with("defaults: { retry: { max_total: 3, max_per_target: 5 } }\n");
    let house = House::open(&config, everybody_fails(answered(Reason::ServerError, 500))).await;
    refusal(house.ask().await);
    assert_eq!(house.calls().len(), 3);
}

#[actix::test]
async fn the_bodys_own_fallbacks_replace_the_chain() {
    let house = House::open(TWO, everybody_fails(answered(Reason::Overloaded, 503))).await;
    let strict = r#"{"model":"main","fallbacks":[],"messages":[{"role":"user","content":"hi"}]}"#;
    refusal(house.turn(strict).await);
    assert!(
        house.targets().iter().all(|target| target == "a/x"),
        "{:?}",
        house.targets()
    );
    let house = House::open(TWO, a_fails(answered(Reason::Overloaded, 503))).await;
    let listed = r#"{"model":"a/x","fallbacks":["alone"],"messages":[{"role":"user","content":"hi"}]}"#;
    assert_eq!(house.turn(listed).await, by("b/z"));
}

#[actix::test]
async fn a_conversation_that_cannot_fit_is_passed_over() {
    let config = TWO.replace("  siblings", "  a/x: { context: 1 }\n  siblings");
    let house = House::open(&config, |_| Play::answer()).await;
    let long = "x".repeat(17);
    let body = format!(r#"{{"model":"main","messages":[{{"role":"user","content":"{long}"}}]}}"#);
    assert_eq!(house.turn(&body).await, by("b/z"));
    assert_eq!(house.skipped(), [("a/x".to_owned(), Reason::ContextOverflow)]);
}

#[actix::test]
async fn a_conversation_that_fits_nowhere_is_the_clients_to_shorten() {
    let config = TWO.replace("  siblings", "  a/x: { context: 1 }\n  b/z: { context: 1 }\n  siblings");
    let house = House::open(&config, |_| Play::answer()).await;
    let long = "x".repeat(17);
    let body = format!(r#"{{"model":"main","messages":[{{"role":"user","content":"{long}"}}]}}"#);
    let failure = refusal(house.turn(&body).await);
    assert_eq!((failure.status, &*failure.code), (400, "context_length_exceeded"));
    assert_eq!(failure.cause, Some(Reason::ContextOverflow));
    assert_eq!((failure.retry_after, failure.attempts), (None, 0));
    assert!(house.targets().is_empty());
}

#[actix::test]
async fn every_failed_turn_has_one_terminal_event_with_what_the_client_was_told() {
    let house = House::open(TWO, everybody_fails(answered(Reason::RateLimit, 429))).await;
    let failure = refusal(house.ask().await);
    let events = house.events();
    let terminal: Vec<_> = events
        .iter()
        .filter_map(|event| match &**event {
            Event::TerminalFailure(terminal) => Some(terminal),
            _ => None,
        })
        .collect();
    let [only] = terminal[..] else {
        panic!("{terminal:?}");
    };
    assert_eq!(
        (only.kind, only.reason),
        (TerminalKind::AllModelsFailed, Some(Reason::RateLimit))
    );
    assert_eq!(only.final_message, failure.sentence);
    assert_eq!(only.attempts.len(), failure.attempts as usize);
}

#[actix::test]
async fn each_decision_names_the_place_of_who_failed() {
    let config = TWO.replace(", api_keys: [k0, k1]", "");
    let house = House::open(&config, everybody_fails(answered(Reason::Auth, 401))).await;
    refusal(ask(&house, "siblings").await);
    let place = |event: &understudy_messages::events::SharedEvent| match &**event {
        Event::FailoverDecided(it) => Some((it.from.to_string(), it.position, it.candidates)),
        _ => None,
    };
    let places: Vec<_> = house.events().iter().filter_map(place).collect();
    assert_eq!(
        places,
        [("a/x".to_owned(), 0, 3), ("b/z".to_owned(), 2, 3)],
        "a's only credential rests"
    );
}

#[actix::test]
async fn a_lost_connection_is_retried_at_once_and_a_broken_server_after_a_moment() {
    for (failure, after) in [
        (
            Failure::observed(Reason::Timeout, Cut::LostBeforeFirstByte),
            Duration::ZERO,
        ),
        (answered(Reason::ServerError, 500), Duration::from_millis(250)),
    ] {
        let config = TWO.replace(", api_keys: [k0, k1]", "");
        let house = House::open(&config, a_fails(failure)).await;
        assert_eq!(house.ask().await, by("b/z"));
        let calls: Vec<Call> = house.calls();
        assert_eq!(calls.len(), 3, "{calls:?}");
        let gap = calls[1].since - calls[0].since;
        assert!(gap >= after && gap < after + Duration::from_millis(10), "{gap:?}");
    }
}
