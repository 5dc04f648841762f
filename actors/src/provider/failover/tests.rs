use proptest::prelude::*;

use super::*;

const RETRY: RetrySettings = RetrySettings {
    short_wait: Duration::from_secs(3),
    max_wait: Duration::from_secs(10),
    backoff: Duration::from_millis(500),
    max_per_target: None,
    max_total: None,
};
const SURFACE: Step = Step::Surface { retry_after: None };
const ONWARD: Step = Step::FallbackModel { to: 1 };

fn at<'a>(successor: Option<usize>) -> Situation<'a> {
    Situation {
        delivered: Progress::Nothing,
        continuable: true,
        going_on: false,
        prefilled: false,
        replay_safe: true,
        successor,
        same_again: true,
        took: Duration::ZERO,
        retries: 0,
        other_credential: false,
        rotations: 0,
        attempts: 1,
        max_attempts: 6,
        remaining: Duration::from_secs(600),
        jitter: 1.0,
        retry: &RETRY,
        on_broken_stream: BrokenStream::Error,
        on_content_filter: ContentFilter::Surface,
        on_status: false,
    }
}

fn failure(reason: Reason, cut: Cut) -> Failure {
    Failure::observed(reason, cut)
}

fn answered(reason: Reason) -> Failure {
    failure(reason, Cut::Answered)
}

fn asking(reason: Reason, wait: u64) -> Failure {
    Failure {
        retry_after: Some(Duration::from_secs(wait)),
        ..answered(reason)
    }
}

fn retry(millis: u64) -> Step {
    Step::RetrySame {
        after: Duration::from_millis(millis),
    }
}

#[test]
fn while_somebody_else_could_answer_only_a_broken_server_is_asked_once_more() {
    for (failure, expected) in [
        (answered(Reason::ServerError), retry(250)),
        (failure(Reason::Timeout, Cut::LostBeforeFirstByte), retry(0)),
        (failure(Reason::Timeout, Cut::Lost), retry(250)),
        (failure(Reason::Timeout, Cut::Refused), ONWARD),
        (failure(Reason::Timeout, Cut::FirstContentLimit), ONWARD),
        (failure(Reason::EmptyResponse, Cut::CleanEnd), ONWARD),
        (answered(Reason::Overloaded), ONWARD),
        (answered(Reason::RateLimit), ONWARD),
        (asking(Reason::RateLimit, 3), retry(3000)),
        (asking(Reason::RateLimit, 4), ONWARD),
        (answered(Reason::Billing), ONWARD),
        (answered(Reason::Auth), ONWARD),
        (answered(Reason::ModelNotFound), ONWARD),
        (answered(Reason::Unclassified), ONWARD),
    ] {
        assert_eq!(next_step(&failure, &at(Some(1))), expected, "{failure:?}");
        let once = Situation {
            retries: 1,
            ..at(Some(1))
        };
        assert_eq!(next_step(&failure, &once), ONWARD, "{failure:?} a second time");
    }
}

#[test]
fn a_failure_that_was_slow_to_show_is_not_tried_again_while_somebody_else_could_answer() {
    let slow = |successor| Situation {
        took: Duration::from_secs(5),
        ..at(successor)
    };
    assert_eq!(next_step(&answered(Reason::ServerError), &slow(Some(1))), ONWARD);
    assert_eq!(next_step(&answered(Reason::ServerError), &slow(None)), retry(500));
}

#[test]
fn on_the_last_usable_candidate_two_more_with_doubling_backoff() {
    for reason in [
        Reason::RateLimit,
        Reason::Overloaded,
        Reason::ServerError,
        Reason::Timeout,
        Reason::EmptyResponse,
    ] {
        let failure = failure(reason, Cut::Lost);
        let steps = [0, 1, 2].map(|retries| next_step(&failure, &Situation { retries, ..at(None) }));
        assert_eq!(steps, [retry(500), retry(1000), SURFACE], "{reason}");
    }
    for reason in [
        Reason::Auth,
        Reason::Billing,
        Reason::ModelNotFound,
        Reason::Unknown,
        Reason::SessionExpired,
    ] {
        assert_eq!(next_step(&answered(reason), &at(None)), SURFACE, "{reason}");
    }
}

#[test]
fn what_the_provider_asks_for_is_the_floor_of_a_backoff() {
    assert_eq!(next_step(&asking(Reason::RateLimit, 7), &at(None)), retry(7000));
}

#[test]
fn a_wait_longer_than_the_longest_is_told_to_the_client_and_not_begun() {
    let step = next_step(&asking(Reason::RateLimit, 11), &at(None));
    assert_eq!(
        step,
        Step::Surface {
            retry_after: Some(Duration::from_secs(11))
        }
    );
    let hasty = Situation {
        remaining: Duration::from_secs(2),
        ..at(None)
    };
    let step = next_step(&asking(Reason::RateLimit, 5), &hasty);
    assert_eq!(
        step,
        Step::Surface {
            retry_after: Some(Duration::from_secs(5))
        }
    );
}

#[test]
fn a_limit_over_a_day_or_more_is_not_waited_out_case_34() {
    let mut failure = answered(Reason::RateLimit);
    failure.nuance = Some(Nuance::LongWindow);
    assert_eq!(next_step(&failure, &at(None)), SURFACE);
    assert_eq!(next_step(&failure, &at(Some(1))), ONWARD);
}

#[test]
fn a_time_limit_is_never_retried_on_itself_whatever_is_configured() {
    let configured = RetrySettings {
        max_per_target: Some(5),
        ..RETRY
    };
    for cut in [Cut::FirstContentLimit, Cut::IdleLimit, Cut::WholeLimit] {
        let situation = Situation {
            retry: &configured,
            ..at(None)
        };
        assert_eq!(
            next_step(&failure(Reason::Timeout, cut), &situation),
            SURFACE,
            "{cut:?}"
        );
    }
}

#[test]
fn a_configured_number_of_tries_holds_for_every_candidate() {
    let configured = RetrySettings {
        max_per_target: Some(2),
        ..RETRY
    };
    for successor in [Some(1), None] {
        let at = |retries| Situation {
            retries,
            retry: &configured,
            ..at(successor)
        };
        let steps = [0, 1].map(|retries| next_step(&answered(Reason::Overloaded), &at(retries)));
        assert_eq!(steps, [retry(500), retry(1000)]);
        let last = next_step(&answered(Reason::Overloaded), &at(2));
        assert_eq!(last, successor.map_or(SURFACE, |to| Step::FallbackModel { to }));
    }
}

#[test]
fn a_probe_and_an_open_breaker_allow_no_retry() {
    let situation = Situation {
        same_again: false,
        ..at(None)
    };
    assert_eq!(next_step(&answered(Reason::ServerError), &situation), SURFACE);
}

#[test]
fn refused_credentials_give_way_to_another_one() {
    let situation = Situation {
        other_credential: true,
        ..at(Some(1))
    };
    for reason in [
        Reason::Auth,
        Reason::AuthPermanent,
        Reason::Billing,
        Reason::RateLimit,
        Reason::Overloaded,
    ] {
        assert_eq!(
            next_step(&answered(reason), &situation),
            Step::RotateCredential,
            "{reason}"
        );
    }
    let once = Situation {
        rotations: 1,
        ..situation
    };
    assert_eq!(
        next_step(&answered(Reason::RateLimit), &once),
        ONWARD,
        "a rate limit rotates once"
    );
    assert_eq!(next_step(&answered(Reason::Auth), &once), Step::RotateCredential);
    for reason in [Reason::Format, Reason::ContextOverflow, Reason::TlsCertificate] {
        assert_ne!(
            next_step(&answered(reason), &situation),
            Step::RotateCredential,
            "{reason}"
        );
    }
}

#[test]
fn a_fault_of_the_request_surfaces_at_once() {
    assert_eq!(next_step(&answered(Reason::Format), &at(Some(1))), SURFACE);
    let listed = Situation {
        on_status: true,
        ..at(Some(1))
    };
    assert_eq!(
        next_step(&answered(Reason::Format), &listed),
        ONWARD,
        "unless its status is listed"
    );
}

#[test]
fn a_content_filter_is_about_the_prompt() {
    let mut filtered = answered(Reason::Format);
    filtered.nuance = Some(Nuance::ContentFilter);
    assert_eq!(next_step(&filtered, &at(Some(1))), SURFACE);
    let next = Situation {
        on_content_filter: ContentFilter::Next,
        ..at(Some(1))
    };
    assert_eq!(next_step(&filtered, &next), ONWARD);
}

#[test]
fn a_request_size_ceiling_tries_the_next_candidate_case_33() {
    let mut ceiling = answered(Reason::ContextOverflow);
    ceiling.nuance = Some(Nuance::RequestSizeCeiling);
    assert_eq!(next_step(&ceiling, &at(Some(1))), ONWARD);
    assert_eq!(next_step(&ceiling, &at(None)), SURFACE);
}

/// After content, under the policy to go on.
fn in_mid_answer<'a>(successor: Option<usize>) -> Situation<'a> {
    Situation {
        delivered: Progress::Content,
        on_broken_stream: BrokenStream::Continue,
        other_credential: true,
        ..at(successor)
    }
}

#[test]
fn after_content_somebody_else_goes_on_and_never_the_same_model() {
    for failure in [
        failure(Reason::Timeout, Cut::Lost),
        failure(Reason::Timeout, Cut::IdleLimit),
        answered(Reason::Overloaded),
        answered(Reason::RateLimit),
        answered(Reason::ServerError),
        answered(Reason::Format),
    ] {
        assert_eq!(next_step(&failure, &in_mid_answer(Some(1))), ONWARD, "{failure:?}");
        assert_eq!(next_step(&failure, &in_mid_answer(None)), SURFACE, "{failure:?}");
    }
}

#[test]
fn what_cannot_be_gone_on_with_ends() {
    let failure = failure(Reason::Timeout, Cut::Lost);
    let base = in_mid_answer(Some(1));
    let mut filtered = answered(Reason::Format);
    filtered.nuance = Some(Nuance::ContentFilter);
    assert_eq!(next_step(&filtered, &base), SURFACE, "a filter is about what is said");
    for (what, situation) in [
        (
            "not plain text",
            Situation {
                continuable: false,
                ..base
            },
        ),
        (
            "an effect that may not be had twice",
            Situation {
                replay_safe: false,
                ..base
            },
        ),
        ("all attempts made", Situation { attempts: 6, ..base }),
        (
            "policy error",
            Situation {
                on_broken_stream: BrokenStream::Error,
                ..base
            },
        ),
        (
            "policy hold, and more than is held",
            Situation {
                on_broken_stream: BrokenStream::Hold,
                ..base
            },
        ),
    ] {
        assert_eq!(next_step(&failure, &situation), SURFACE, "{what}");
    }
}

#[test]
fn who_was_to_go_on_and_said_nothing_new_is_like_any_other() {
    let going_on = |successor| Situation {
        delivered: Progress::Nothing,
        going_on: true,
        other_credential: false,
        ..in_mid_answer(successor)
    };
    assert_eq!(
        next_step(&answered(Reason::ServerError), &going_on(Some(1))),
        retry(250)
    );
    assert_eq!(next_step(&answered(Reason::Overloaded), &going_on(Some(1))), ONWARD);
    assert_eq!(next_step(&answered(Reason::Overloaded), &going_on(None)), retry(500));
    assert_eq!(
        next_step(&answered(Reason::Format), &going_on(Some(1))),
        ONWARD,
        "its request was ours"
    );
}

#[test]
fn who_takes_no_prefill_is_asked_at_once_in_the_other_manner() {
    let mut refused = answered(Reason::Format);
    refused.nuance = Some(Nuance::PrefillRefused);
    let prefilled = |prefilled| Situation {
        delivered: Progress::Nothing,
        going_on: true,
        same_again: false,
        prefilled,
        ..in_mid_answer(Some(1))
    };
    assert_eq!(next_step(&refused, &prefilled(true)), retry(0));
    assert_eq!(next_step(&refused, &prefilled(false)), ONWARD, "once");
    assert_eq!(
        next_step(&refused, &at(Some(1))),
        SURFACE,
        "the client's own request ended so"
    );
}

fn any_failure() -> impl Strategy<Value = Failure> {
    let cuts = [
        Cut::Refused,
        Cut::LostBeforeFirstByte,
        Cut::Lost,
        Cut::CleanEnd,
        Cut::Answered,
        Cut::FirstContentLimit,
        Cut::IdleLimit,
        Cut::WholeLimit,
        Cut::TooLarge,
    ];
    let nuances = [
        None,
        Some(Nuance::LongWindow),
        Some(Nuance::RequestSizeCeiling),
        Some(Nuance::ContentFilter),
        Some(Nuance::PrefillRefused),
    ];
    let parts = (
        proptest::sample::select(Reason::ALL.to_vec()),
        proptest::sample::select(cuts.to_vec()),
        proptest::sample::select(nuances.to_vec()),
        proptest::option::of(0_u64..100_000),
    );
    parts.prop_map(|(reason, cut, nuance, wait)| Failure {
        nuance,
        retry_after: wait.map(Duration::from_millis),
        ..failure(reason, cut)
    })
}

#[test]
fn after_an_unsafe_effect_only_the_same_model_is_asked_again_case_55() {
    let base = Situation {
        replay_safe: false,
        other_credential: true,
        ..at(Some(1))
    };
    assert_eq!(next_step(&answered(Reason::RateLimit), &base), retry(500));
    assert_eq!(next_step(&answered(Reason::ModelNotFound), &base), SURFACE);
    assert_eq!(next_step(&answered(Reason::Auth), &base), SURFACE);
    let twice = Situation { retries: 2, ..base };
    assert!(matches!(
        next_step(&answered(Reason::RateLimit), &twice),
        Step::Surface { .. }
    ));
}

proptest! {
    #[test]
    fn after_an_answer_nobody_is_asked_but_to_go_on_with_it(failure in any_failure(), other in any::<bool>(), on_status in any::<bool>(), continuable in any::<bool>()) {
        let base = Situation { other_credential: other, on_status, continuable, ..in_mid_answer(Some(1)) };
        let step = next_step(&failure, &base);
        prop_assert!(matches!(step, Step::Surface { .. }) || continuable && step == ONWARD, "{:?}", step);
    }

    #[test]
    fn nothing_is_tried_again_after_an_answer_and_nobody_else_after_an_unsafe_effect_case_54(failure in any_failure(), other in any::<bool>(), on_status in any::<bool>()) {
        let base = Situation { other_credential: other, on_status, ..at(Some(1)) };
        for delivered in [Progress::Content, Progress::ToolCall] {
            let surfaced = matches!(next_step(&failure, &Situation { delivered, ..base }), Step::Surface { .. });
            prop_assert!(surfaced);
        }
        let step = next_step(&failure, &Situation { replay_safe: false, ..base });
        prop_assert!(matches!(step, Step::Surface { .. } | Step::RetrySame { .. }), "{:?}", step);
        let step = next_step(&failure, &Situation { replay_safe: false, delivered: Progress::Content, ..base });
        prop_assert!(matches!(step, Step::Surface { .. }), "{:?}", step);
    }

    #[test]
    fn no_sequence_of_steps_exceeds_the_bound_or_is_undecided(
        failures in proptest::collection::vec(any_failure(), 64),
        candidates in 1_usize..6,
        keys in 1_u32..4,
        max_per_target in proptest::option::of(0_u32..21),
        jitter in 0.0_f64..3.0,
    ) {
        let retry = RetrySettings { max_per_target, ..RETRY };
        let max_attempts = u32::try_from(2 * candidates + 2).expect("small");
        let (mut position, mut attempts, mut retries, mut rotations) = (0, 0_u32, 0, 0);
        let mut waited = Duration::ZERO;
        for failure in &failures {
            attempts += 1;
            let situation = Situation {
                successor: (position + 1 < candidates).then_some(position + 1),
                retries,
                rotations,
                other_credential: rotations + 1 < keys,
                attempts,
                max_attempts,
                jitter,
                retry: &retry,
                ..at(None)
            };
            match next_step(failure, &situation) {
                Step::RetrySame { after } => {
                    prop_assert!(after <= retry.max_wait);
                    waited += after;
                    retries += 1;
                }
                Step::RotateCredential => rotations += 1,
                Step::FallbackModel { to } => {
                    prop_assert_eq!(to, position + 1);
                    (position, retries, rotations) = (to, 0, 0);
                }
                Step::Surface { .. } => break,
            }
        }
        prop_assert!(attempts <= max_attempts, "{} attempts of {}", attempts, max_attempts);
        prop_assert!(waited <= retry.max_wait * max_attempts);
    }
}
