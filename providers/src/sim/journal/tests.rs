use bytes::Bytes;

use super::super::headers::RequestHeaders;
use super::*;

fn journal(records: usize, body_bytes: usize) -> Journal {
    let limits = JournalLimits { records, body_bytes };
    Journal::new(limits, Clock::real())
}

fn target() -> ModelRef {
    ModelRef::new("a", "m")
}

fn request(body: &'static str) -> Request {
    let key = ("authorization".to_owned(), "Bearer sk-secret-key-0042".to_owned());
    Request {
        method: "POST".into(),
        path: "/a/v1/chat/completions".into(),
        headers: RequestHeaders::from_iter([key]),
        body: Bytes::from_static(body.as_bytes()),
        keep_alive: true,
    }
}

fn begin(journal: &Journal, number: u64, body: &'static str) -> OpenCall {
    journal.begin(target(), number, &request(body), Then::Close)
}

fn numbers(journal: &Journal) -> Vec<u64> {
    journal.read(|it| it.records().map(|record| record.number).collect())
}

#[test]
fn records_are_forgotten_and_counts_are_not() {
    let journal = journal(2, 1000);
    for number in 1..=5 {
        let mut call = begin(&journal, number, "");
        call.wrote(Some(200), 10);
        call.ended(Played::Whole);
    }
    assert_eq!(numbers(&journal), [4, 5]);
    let tally = journal.read(|it| it.tallies().get(&target()).cloned());
    let tally = tally.expect("was asked");
    assert_eq!((tally.calls, tally.played), (5, 5));
    assert_eq!(tally.statuses, [(200, 5)].into());
}

#[test]
fn bodies_are_bounded_together_and_the_newest_is_kept() {
    let journal = journal(100, 8);
    let calls = ["12345", "123", "1234", "123456789"].map(|body| begin(&journal, body.len() as u64, body));
    assert_eq!(numbers(&journal), [9]);
    drop(calls);
}

#[test]
fn a_call_forgotten_while_it_is_played_still_counts_at_its_end() {
    let journal = journal(1, 1000);
    let mut old = begin(&journal, 1, "");
    let new = begin(&journal, 2, "");
    old.wrote(Some(503), 7);
    old.ended(Played::PeerLeft);
    let (record, tally) = journal.read(|it| {
        let record = it.records().next().cloned().expect("is there");
        (record, it.tallies()[&target()].clone())
    });
    assert_eq!((record.number, record.status, record.end), (2, None, None));
    assert_eq!((tally.left, tally.statuses), (1, [(503, 1)].into()));
    drop(new);
}

#[test]
fn a_dropped_call_counts_as_stopped() {
    let journal = journal(10, 10);
    drop(begin(&journal, 1, ""));
    let by = journal.read(|it| it.records().next().and_then(|it| it.end).map(|end| end.by));
    assert_eq!(by, Some(EndedBy::Stop));
}

#[test]
fn a_connection_counts_for_the_target_it_asked_last_until_it_is_dropped() {
    let journal = journal(10, 10);
    let other = ModelRef::new("b", "m");
    let open = |target: &ModelRef| journal.read(|it| it.tallies().get(target).map_or(0, |it| it.open_connections));
    let mut connection = journal.connection();
    connection.asks(&target());
    assert_eq!((open(&target()), open(&other)), (1, 0));
    connection.asks(&other);
    assert_eq!((open(&target()), open(&other)), (0, 1));
    drop(connection);
    assert_eq!((open(&target()), open(&other)), (0, 0));
    assert_eq!(journal.read(|it| it.open_connections()), 0);
}

#[test]
fn a_record_prints_without_its_key_and_still_knows_it() {
    let journal = journal(10, 10);
    let call = begin(&journal, 1, "hello");
    let record = journal.read(|it| it.records().next().cloned()).expect("is there");
    let json = serde_json::to_string(&record).expect("prints");
    for printed in [json, format!("{record:?} {journal:?}")] {
        assert!(!printed.contains("secret") && printed.contains("0042"), "{printed}");
    }
    let credential = record.credential.expect("came");
    assert!(credential.is("sk-secret-key-0042") && !credential.is("sk-secret-key-0043"));
    drop(call);
}

#[tokio::test]
async fn who_waits_is_woken_when_it_has_come_true() {
    let journal = journal(10, 10);
    let waiting = journal.wait_until(|it| it.calls(&target()) == 2);
    let calling = async { [begin(&journal, 1, ""), begin(&journal, 2, "")] };
    tokio::join!(waiting, calling);
}
