//! What clients are told when nothing can be read or kept of their session.

use understudy_messages::ids::SessionKey;
use understudy_messages::session::SessionFault;
use understudy_messages::terminal::TurnFailure;

use super::memory::NoRoom;

/// A fault of a session, as its client is told.
pub fn failure(fault: &SessionFault, session: &SessionKey) -> TurnFailure {
    let name = session.key().map_or("", |key| &**key);
    match fault {
        SessionFault::Damaged(_) => TurnFailure::ours(
            500,
            "session_damaged",
            &format!(
                "What the gateway keeps of the session `{name}` is damaged; no other session is. Delete it (DELETE \
                 /v1/sessions/{{id}}) and begin anew, or have its operator put back a copy of the state."
            ),
        ),
        SessionFault::Store(_) => TurnFailure::ours(
            503,
            "session_store_failed",
            "The gateway cannot read or write its sessions. Its operator finds the reason in its log: look at the disk of \
             `state.dir`.",
        ),
        SessionFault::Full => TurnFailure::ours(
            503,
            "sessions_full",
            "Sessions and responses take as much on disk as they may (session.disk), and none that nobody works on is left \
             to make room. Delete some, or wait until some have ended.",
        ),
        SessionFault::Busy => TurnFailure::ours(
            409,
            "session_busy",
            "A turn of this session is running or waits. Try again when all have ended.",
        ),
        SessionFault::Changed => TurnFailure::ours(
            409,
            "session_changed",
            "The session was changed elsewhere meanwhile, and nothing of this was kept. Ask again.",
        ),
    }
}

/// What there is no room for, as its client is told.
pub(super) fn no_room(room: NoRoom) -> TurnFailure {
    match room {
        NoRoom::Session => TurnFailure::ours(
            413,
            "input_too_large",
            "This is more than the 4 MiB that a session may remember.",
        ),
        NoRoom::Process => TurnFailure::ours(
            503,
            "sessions_full",
            "The sessions at work have as much in memory as they may (session.resident). Wait until some have ended.",
        ),
        NoRoom::Sessions => TurnFailure::ours(
            503,
            "too_many_sessions",
            "There are as many sessions as there may be (session.most). Delete some, or wait until old ones are forgotten.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_told_what_to_do_and_nothing_of_the_gateway_s_own_files() {
        let session = SessionKey::Keyed {
            owner: None,
            key: "s1".into(),
        };
        let told = |fault| failure(&fault, &session);
        let damaged = told(SessionFault::Damaged("/var/lib/state".into()));
        assert!(damaged.sentence.contains("`s1`") && damaged.sentence.contains("DELETE"));
        let store = told(SessionFault::Store("/var/lib/state: no space left".into()));
        for failure in [&damaged, &store, &told(SessionFault::Changed)] {
            assert!(!failure.sentence.contains("/var"), "{}", failure.sentence);
        }
        assert_eq!((damaged.status, store.status), (500, 503));
    }
}
