//! How a turn is booked that ended before anybody was asked.

use understudy_messages::ids::ModelRef;

use super::*;

#[test]
fn what_is_the_gateways_own_fault_is_an_error_and_what_its_caller_got_wrong_is_rejected() {
    let absent = ModelRef {
        provider: "a".into(),
        model: "m".into(),
    };
    for (refusal, status, result) in [
        (Refusal::Room(NoRoom::Process), 503, TurnResult::Error),
        (Refusal::Room(NoRoom::Sessions), 503, TurnResult::Error),
        (Refusal::Room(NoRoom::Session), 413, TurnResult::Rejected),
        (Refusal::Unreadable(RequestError::NotAnObject), 500, TurnResult::Error),
        (Refusal::Cast(CastError::NotServing(absent)), 503, TurnResult::Error),
        (Refusal::Cast(CastError::UnknownModel), 404, TurnResult::Rejected),
        (Refusal::Cast(CastError::UnknownAgent), 404, TurnResult::Rejected),
        (Refusal::SessionBusy, 429, TurnResult::Rejected),
    ] {
        assert_eq!((refusal.failure().status, refusal.result()), (status, result));
    }
}

#[test]
fn what_was_shed_or_refused_at_the_gate_is_counted_there_and_not_as_an_error_too() {
    for refusal in [
        Refusal::AgentBusy(Shed::QueueFull),
        Refusal::Admission(AdmitError::HeldTooLong),
        Refusal::Admission(AdmitError::NestedTooDeep),
    ] {
        assert_eq!(refusal.result(), TurnResult::Rejected);
    }
}
