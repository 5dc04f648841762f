use std::time::Duration;

use super::{Outcome, Tried, TurnFailure, conclude};
use crate::failure::{Cut, ErrorCode, Failure, ProviderWords, Reason};
use crate::ids::ModelRef;

/// The end after one model for each reason: `a/m0`, `b/m1` and so on, all of them asked.
fn failed(reasons: &[Reason], soonest: Option<u64>) -> TurnFailure {
    let failures: Vec<Failure> = reasons
        .iter()
        .map(|reason| Failure::observed(*reason, Cut::Answered))
        .collect();
    let outcomes: Vec<Outcome<'_>> = failures.iter().map(Outcome::Failed).collect();
    end(&outcomes, soonest)
}

fn resting(reasons: &[Reason], soonest: Option<u64>) -> TurnFailure {
    let outcomes: Vec<Outcome<'_>> = reasons.iter().copied().map(Outcome::Resting).collect();
    end(&outcomes, soonest)
}

fn end(outcomes: &[Outcome<'_>], soonest_ms: Option<u64>) -> TurnFailure {
    let models: Vec<ModelRef> = (0..outcomes.len())
        .map(|at| ModelRef::new(format!("p{at}"), format!("m{at}")))
        .collect();
    let tried: Vec<Tried<'_>> = models
        .iter()
        .zip(outcomes)
        .map(|(model, outcome)| Tried {
            model,
            outcome: *outcome,
        })
        .collect();
    conclude(&tried, soonest_ms.map(Duration::from_millis))
}

#[test]
fn one_cause_has_its_own_status() {
    for (reason, status) in [
        (Reason::RateLimit, 429),
        (Reason::Billing, 402),
        (Reason::Overloaded, 503),
        (Reason::ServerError, 502),
        (Reason::Timeout, 504),
        (Reason::Auth, 502),
        (Reason::AuthPermanent, 502),
        (Reason::ModelNotFound, 404),
        (Reason::ContextOverflow, 400),
        (Reason::Format, 400),
        (Reason::SessionExpired, 410),
        (Reason::TlsCertificate, 502),
        (Reason::EmptyResponse, 502),
        (Reason::NoErrorDetails, 502),
        (Reason::Unclassified, 502),
        (Reason::Unknown, 502),
    ] {
        for chain in [&[reason][..], &[reason, reason]] {
            let terminal = failed(chain, None);
            assert_eq!((terminal.cause, terminal.status), (Some(reason), status));
            assert_eq!(terminal.reason_label(), Some(reason.as_label()));
            assert!(!terminal.sentence.is_empty());
        }
    }
}

#[test]
fn several_causes_are_mixed_and_listed() {
    let terminal = failed(&[Reason::Timeout, Reason::Auth], None);
    assert_eq!(
        (terminal.cause, terminal.status, terminal.reason_label()),
        (None, 503, Some("mixed"))
    );
    assert_eq!(
        terminal.sentence,
        "2 models could not answer: p0/m0 (timeout), p1/m1 (auth). Try again in a moment."
    );
}

#[test]
fn any_unpaid_bill_gives_the_text_and_names_the_account() {
    for chain in [
        &[Reason::Timeout, Reason::Billing][..],
        &[Reason::RateLimit, Reason::Billing],
    ] {
        let terminal = failed(chain, None);
        assert_eq!((terminal.cause, terminal.status), (None, 503));
        assert!(terminal.sentence.contains("p1 (m1)"), "{}", terminal.sentence);
    }
}

#[test]
fn limits_and_load_together_read_as_a_limit() {
    let terminal = failed(&[Reason::RateLimit, Reason::Overloaded], None);
    assert_eq!(terminal.status, 503);
    assert_eq!(
        terminal.sentence,
        "All 2 models are rate-limited or overloaded. Try again in a few minutes."
    );
}

#[test]
fn a_known_end_is_told_in_seconds_up_to_a_minute_then_in_minutes() {
    for (soonest, told, header) in [
        (1, "1 s", 1),
        (24_050, "24 s", 24),
        (24_101, "25 s", 25),
        (60_000, "60 s", 60),
        (60_101, "2 min", 61),
    ] {
        let terminal = failed(&[Reason::RateLimit], Some(soonest));
        assert_eq!(
            terminal.sentence,
            format!("p0/m0 is rate-limited. Try again in about {told}.")
        );
        assert_eq!(terminal.retry_after, Some(header));
    }
}

#[test]
fn a_chain_that_was_not_touched_is_429_only_when_all_are_limits() {
    assert_eq!(resting(&[Reason::RateLimit, Reason::RateLimit], Some(0)).status, 429);
    for chain in [
        &[Reason::Billing][..],
        &[Reason::RateLimit, Reason::Timeout],
        &[Reason::Overloaded],
    ] {
        let terminal = resting(chain, Some(0));
        assert_eq!((terminal.status, terminal.retry_after), (503, Some(1)));
    }
}

#[test]
fn a_verdict_on_the_request_is_the_cause_whatever_came_before() {
    for last in [Reason::Format, Reason::ContextOverflow] {
        let terminal = failed(&[Reason::RateLimit, last], Some(5000));
        assert_eq!(
            (terminal.cause, terminal.status, terminal.retry_after),
            (Some(last), 400, None)
        );
    }
    assert_eq!(failed(&[Reason::Format, Reason::RateLimit], None).cause, None);
}

#[test]
fn a_refused_request_keeps_the_providers_code_and_words() {
    let mut failure = Failure::observed(Reason::Format, Cut::Answered);
    failure.code = ErrorCode::new("content_filter");
    failure.words = Some(ProviderWords::new("the prompt was filtered"));
    let terminal = end(&[Outcome::Failed(&failure)], None);
    assert_eq!(terminal.code, "content_filter");
    assert_eq!(terminal.client_message(), "the prompt was filtered");
    assert!(!format!("{terminal:?}").contains("filtered"));
}

#[test]
fn words_about_one_missing_model_do_not_speak_for_several() {
    let mut failure = Failure::observed(Reason::ModelNotFound, Cut::Answered);
    failure.words = Some(ProviderWords::new("did you mean m2?"));
    let missing = Outcome::Failed(&failure);
    assert_eq!(end(&[missing], None).client_message(), "did you mean m2?");
    let several = end(&[missing, missing], None);
    assert_eq!(several.client_message(), several.sentence);
}

#[test]
fn an_overflow_has_the_code_that_clients_look_for() {
    let mut failure = Failure::observed(Reason::ContextOverflow, Cut::Answered);
    failure.code = ErrorCode::new("invalid_request_error");
    assert_eq!(end(&[Outcome::Failed(&failure)], None).code, "context_length_exceeded");
}

#[test]
fn both_kinds_of_refused_credentials_are_one_cause() {
    assert_eq!(
        failed(&[Reason::AuthPermanent, Reason::Auth], None).cause,
        Some(Reason::Auth)
    );
}

#[test]
fn a_model_asked_twice_is_told_once() {
    let model = ModelRef::new("p", "m\u{7}");
    let tried = [Reason::Timeout, Reason::RateLimit].map(|reason| Tried {
        model: &model,
        outcome: Outcome::Resting(reason),
    });
    let terminal = conclude(&tried, None);
    assert_eq!(
        terminal.sentence,
        "1 model could not answer: p/m (rate_limit). Try again in a moment."
    );
}

#[test]
fn an_empty_chain_is_said_to_be_empty() {
    let terminal = conclude(&[], None);
    assert_eq!((terminal.cause, terminal.status), (None, 503));
    assert_eq!(terminal.sentence, "There was no model to ask.");
}

#[test]
fn where_no_connection_could_be_made_nobody_is_said_to_have_been_slow() {
    let cut = |cut| Failure::observed(Reason::Timeout, cut);
    let (refused, silent) = (cut(Cut::Refused), cut(Cut::FirstContentLimit));
    let (unreached, slow) = (Outcome::Failed(&refused), Outcome::Failed(&silent));
    let resting = Outcome::Resting(Reason::Timeout);
    for (outcomes, connection, time) in [
        (&[unreached][..], true, false),
        (&[unreached, unreached], true, false),
        (&[slow], false, true),
        (&[unreached, slow], false, true),
        (&[resting], false, true),
    ] {
        let told = end(outcomes, None);
        let says = |words: &str| told.sentence.contains(words);
        assert_eq!(
            (says("No connection"), says("in time")),
            (connection, time),
            "{}",
            told.sentence
        );
    }
    for unsure in [&[unreached, slow][..], &[resting], &[unreached, resting]] {
        assert!(end(unsure, None).sentence.contains("could not be reached, or"));
    }
}
