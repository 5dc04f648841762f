//! `session_transcript`: what sessions have kept of who said what.

use std::collections::BTreeMap;

use super::Complaints;
use crate::seen::Seen;

pub(super) fn check(expected: Option<&BTreeMap<String, Vec<String>>>, seen: &Seen, complaints: &mut Complaints) {
    for (session, expected) in expected.into_iter().flatten() {
        let kept = seen.transcripts.get(session);
        let check = format!("session_transcript.{session}");
        complaints.unless(kept == Some(expected), check, expected, &kept);
    }
}
