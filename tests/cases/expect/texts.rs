//! `never`, `never_delivered`, `never_anywhere`, `logs_contain`: texts that must not, or must, be found.

use super::{Complaints, Expect};
use crate::seen::Seen;

pub(super) fn check(expect: &Expect, seen: &Seen, complaints: &mut Complaints) {
    for (id, reply) in &seen.replies {
        let (transcript, body) = (reply.transcript(), reply.text());
        refuse(
            "never",
            &expect.never,
            &format!("response {id}"),
            &transcript,
            complaints,
        );
        refuse(
            "never_delivered",
            &expect.never_delivered,
            &format!("response {id}"),
            &body,
            complaints,
        );
        refuse(
            "never_anywhere",
            &expect.never_anywhere,
            &format!("response {id}"),
            &transcript,
            complaints,
        );
    }
    if !expect.never_anywhere.is_empty() {
        let places = [
            ("metrics page", &seen.after.text),
            ("events", &seen.event_texts),
            ("configuration's Debug", &seen.config_debug),
        ];
        for (place, text) in places {
            refuse("never_anywhere", &expect.never_anywhere, place, text, complaints);
        }
        complaints.unless(seen.log.is_whole(), "never_anywhere", &"the whole log", &"a part of it");
    }
    for text in &expect.never_anywhere {
        complaints.unless(!seen.log.mentions(text), "never_anywhere", text, &"the log has it");
    }
    for text in &expect.logs_contain {
        complaints.unless(seen.log.mentions(text), "logs_contain", text, &"no such line");
    }
}

fn refuse(check: &str, texts: &[String], place: &str, haystack: &str, complaints: &mut Complaints) {
    for text in texts.iter().filter(|text| haystack.contains(&***text)) {
        complaints.add(check, text, &format!("{place} has it"));
    }
}
