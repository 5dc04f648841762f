//! `tools_executed`: calls of tools that reached somebody who runs them.

use super::Complaints;
use crate::seen::Seen;

/// A client runs what it is given, but for calls that were cut off: their arguments are no object, or the model had no room
/// left to end them.
pub(super) fn check(expected: Option<u64>, seen: &Seen, complaints: &mut Complaints) {
    let Some(expected) = expected else { return };
    let answers = seen.replies.values().map(|reply| reply.answer());
    let given = answers.filter(|answer| answer.finish_reason.as_deref() != Some("length"));
    let executed: Vec<_> = given
        .flat_map(|answer| answer.tool_calls)
        .filter(|call| call["arguments"].is_object())
        .collect();
    complaints.unless(
        executed.len() as u64 == expected,
        "tools_executed",
        &expected,
        &executed,
    );
}
