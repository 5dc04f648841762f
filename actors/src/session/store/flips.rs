//! Bits of the file that are not what was written: wherever they stand, what is read is right, or said to be damaged.

use std::fs;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use redb::ReadTransaction;
use understudy_messages::session::SessionFault;

use super::stored::tests::{House, Place, keyed};
use super::{SessionStore, StoredSession, tables};
use crate::state::{State, StateError};

const SESSIONS: usize = 300;

/// How many bits; more where somebody has the time.
fn flips() -> usize {
    std::env::var("UNDERSTUDY_FLIPS").map_or(8, |flips| flips.parse().expect("a number"))
}

fn words(number: usize) -> [String; 2] {
    [
        format!("hello {number} {}", "x".repeat(number % 200)),
        format!("again {number}"),
    ]
}

/// A file with many sessions, closed in order.
async fn filled(place: &Place) -> Vec<u8> {
    let house = House::of(place.open(), Some(std::time::Duration::from_secs(1)), &[]);
    for number in 0..SESSIONS {
        let [first, second] = words(number);
        house.spoken(&number.to_string(), &[&first, &second]).await;
    }
    house.state.close();
    drop(house);
    fs::read(place.file()).expect("there")
}

impl Place {
    fn file(&self) -> std::path::PathBuf {
        self.0.join("state.redb")
    }
}

/// What a look at all sessions finds.
#[derive(Debug, Default)]
struct Found {
    damaged: usize,
    unreadable: usize,
    missing: usize,
}

fn said(session: &StoredSession) -> Vec<String> {
    session.turns.iter().flatten().map(ToString::to_string).collect()
}

/// Looks at every session; what can be read is what was said.
fn look(read: &ReadTransaction) -> Found {
    let mut found = Found::default();
    for number in 0..SESSIONS {
        let key = [&[0][..], number.to_string().as_bytes()].concat();
        match catch_unwind(AssertUnwindSafe(|| tables::session(read, &key))) {
            Ok(Ok(Some(session))) => {
                assert_eq!(said(&session), words(number), "a wrong transcript");
            }
            Ok(Ok(None)) => found.missing += 1,
            Ok(Err(super::stored::ReadError::Unreadable(_))) => found.damaged += 1,
            Ok(Err(super::stored::ReadError::Store(_))) | Err(_) => found.unreadable += 1,
        }
    }
    found
}

/// Where bits are changed: some at the beginning, where the file says what it is, the others wherever something is written.
fn places(whole: &[u8], count: usize) -> Vec<(usize, u8)> {
    let seed = std::env::var("UNDERSTUDY_SEED").map_or(7, |seed| seed.parse().expect("a number"));
    let mut random = fastrand::Rng::with_seed(seed);
    let written: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != 0).collect();
    let place = |number| {
        let at = match number % 4 {
            0 => random.usize(..320),
            _ => written[random.usize(..written.len())],
        };
        (at, 1 << random.u8(..8))
    };
    (0..count).map(place).collect()
}

#[tokio::test]
async fn a_bit_that_was_changed_anywhere_in_the_file_is_harmless_or_named_at_the_start_and_nothing_is_changed() {
    let place = Place::new("flips");
    let whole = filled(&place).await;
    let (mut refused, mut opened) = (0, 0);
    for (at, bit) in places(&whole, flips()) {
        let mut bytes = whole.clone();
        bytes[at] ^= bit;
        fs::write(place.file(), &bytes).expect("written");
        let state = match State::open(&place.0, &understudy_messages::clock::Clock::real()) {
            Ok(state) => state,
            Err(error) => {
                assert!(
                    matches!(error, StateError::Damaged { .. } | StateError::Newer { .. }),
                    "{at}: {error}"
                );
                assert!(error.to_string().contains("state.redb"), "{at}: {error}");
                assert!(fs::read(place.file()).expect("there") == bytes, "{at}: it was changed");
                refused += 1;
                continue;
            }
        };
        let house = House::of(state, None, &[]);
        let read = house.state.file().read().expect("readable");
        let found = look(&read);
        assert_eq!(
            (found.missing, found.unreadable, found.damaged),
            (0, 0, 0),
            "{at} {bit}: {found:?}"
        );
        opened += 1;
    }
    println!("{refused} refused, {opened} harmless");
    assert!(refused > 0 && opened > 0);
}

#[tokio::test]
async fn a_bit_that_is_changed_under_a_gateway_makes_no_wrong_transcript_and_ends_nothing() {
    let place = Place::new("flips-beneath");
    filled(&place).await;
    let open = || House::of(State::uncached(&place.0).expect("whole"), None, &[]);
    let mut house = open();
    let whole_now = fs::read(place.file()).expect("there");
    let file = fs::OpenOptions::new().write(true).open(place.file()).expect("there");
    let (mut damaged, mut unreadable, mut missing, mut told) = (0, 0, 0, 0);
    for (at, bit) in places(&whole_now, flips() * 3) {
        file.write_all_at(&[whole_now[at] ^ bit], at as u64).expect("written");
        let found = house.state.file().read().map(|read| look(&read)).unwrap_or_default();
        // as the gateway asks: it is answered, or told why not
        for number in [0, SESSIONS / 2, SESSIONS - 1] {
            match house.store.load(&keyed(&number.to_string())).await {
                Ok(Some(session)) => assert_eq!(said(&session), words(number), "a wrong transcript"),
                Ok(None) => missing += 1,
                Err(fault) => {
                    assert!(
                        matches!(fault, SessionFault::Damaged(_) | SessionFault::Store(_)),
                        "{fault}"
                    );
                    told += 1;
                }
            }
        }
        file.write_all_at(&[whole_now[at]], at as u64).expect("written");
        if found.unreadable > 0 {
            house.state.close();
            fs::write(place.file(), &whole_now).expect("written");
            house = open();
        }
        damaged += found.damaged;
        unreadable += found.unreadable;
        missing += found.missing;
    }
    println!("{damaged} damaged, {unreadable} unreadable, {missing} missing; {told} loads said so");
    assert_eq!(missing, 0, "a session that is there is never said to be none");
}
