//! A medium that is full, writes half, does not sync or loses its power: what was acknowledged stays.

use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redb::StorageBackend;

use super::super::file::{builder, say_format};
use super::*;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A write takes half of what it is given.
    Short,
    /// It does not grow.
    Full,
    /// A sync fails, and nobody knows what of it is there.
    Sync,
}

#[derive(Debug)]
enum Op {
    Length(usize),
    Write(usize, Vec<u8>),
}

impl Op {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Length(length) => bytes.resize(*length, 0),
            Self::Write(at, data) => {
                let end = (at + data.len()).max(bytes.len());
                bytes.resize(end, 0);
                bytes[*at..at + data.len()].copy_from_slice(data);
            }
        }
    }
}

#[derive(Debug, Default)]
struct Content {
    /// What a process reads.
    seen: Vec<u8>,
    /// What was synced.
    durable: Vec<u8>,
    /// What was done since.
    pending: Vec<Op>,
    fault: Option<Fault>,
    /// How many operations of its kind pass before the fault.
    passes: u32,
}

impl Content {
    fn fails(&mut self, fault: Fault) -> bool {
        if self.fault != Some(fault) {
            return false;
        }
        self.passes = self.passes.saturating_sub(1);
        self.passes == 0
    }

    fn done(&mut self, op: Op) {
        op.apply(&mut self.seen);
        self.pending.push(op);
    }
}

/// A medium that outlives the databases over it.
#[derive(Clone, Debug, Default)]
struct Medium(Arc<Mutex<Content>>);

impl Medium {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// With a file on it.
    fn made() -> Self {
        let medium = Self::default();
        let database = builder().create_with_backend(medium.clone()).expect("made");
        say_format(&database).expect("said");
        drop(database);
        medium
    }

    fn open(&self, clock: &Clock) -> State {
        let medium = self.clone();
        let open = move || {
            let mut builder = builder();
            let opened = builder
                .set_check_integrity_on_open(true)
                .create_with_backend(medium.clone());
            opened.map_err(|error| StateError::Storage(Arc::new(error.into())))
        };
        let file = StateFile::opened(Box::new(open), clock).expect("opened");
        State::of(file, None).expect("state")
    }

    fn set(&self, fault: Option<Fault>, passes: u32) {
        let mut content = self.content();
        (content.fault, content.passes) = (fault, passes);
    }

    /// What is there when the power comes back: of what was not synced some sectors were written, in whatever order.
    fn after_a_power_cut(&self, random: &mut fastrand::Rng) -> Self {
        const SECTOR: usize = 512;
        let content = self.content();
        let mut seen = content.durable.clone();
        for op in &content.pending {
            match op {
                Op::Length(length) if *length < seen.len() => {}
                Op::Length(_) => op.apply(&mut seen),
                Op::Write(at, data) => {
                    for (number, sector) in data.chunks(SECTOR).enumerate() {
                        if random.bool() {
                            Op::Write(at + number * SECTOR, sector.to_vec()).apply(&mut seen);
                        }
                    }
                }
            }
        }
        let content = Content {
            durable: seen.clone(),
            seen,
            ..Content::default()
        };
        Self(Arc::new(Mutex::new(content)))
    }
}

impl StorageBackend for Medium {
    fn len(&self) -> io::Result<u64> {
        Ok(self.content().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let content = self.content();
        let range = range(offset, out.len());
        let bytes = content.seen.get(range).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let (mut content, len) = (self.content(), usize::try_from(len).expect("small"));
        if len > content.seen.len() && content.fails(Fault::Full) {
            content.passes = 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        content.done(Op::Length(len));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut content = self.content();
        if content.fails(Fault::Sync) {
            content.passes = 1;
            return Err(io::Error::other("the sync failed"));
        }
        content.durable = content.seen.clone();
        content.pending.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut content = self.content();
        let at = range(offset, data.len()).start;
        if content.fails(Fault::Short) {
            content.passes = 1;
            content.done(Op::Write(at, data[..data.len() / 2].to_vec()));
            return Err(io::ErrorKind::WriteZero.into());
        }
        content.done(Op::Write(at, data.to_vec()));
        Ok(())
    }
}

fn range(offset: u64, length: usize) -> Range<usize> {
    let start = usize::try_from(offset).expect("small");
    start..start + length
}

const BLOBS: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("blobs");

/// More than fits beside what is there.
async fn keep(state: &State, number: u64) -> Result<(), StateError> {
    let change = move |write: &redb::WriteTransaction| {
        let text = vec![u8::try_from(number % 251).unwrap_or_default(); 20_000];
        write.open_table(BLOBS)?.insert(number, &*text)?;
        Ok(())
    };
    state.file().write(20_000, change).await
}

fn kept(state: &State) -> Vec<u64> {
    let read = state.file().read().expect("readable");
    let Ok(table) = read.open_table(BLOBS) else {
        return Vec::new();
    };
    let all = redb::ReadableTable::iter(&table).expect("readable");
    all.map(|entry| entry.expect("readable").0.value()).collect()
}

/// Writes until it fails; what was acknowledged.
async fn until_it_fails(state: &State) -> Vec<u64> {
    let mut acknowledged = Vec::new();
    for number in 0..500 {
        match keep(state, number).await {
            Ok(()) => acknowledged.push(number),
            Err(_) => return acknowledged,
        }
    }
    panic!("nothing failed");
}

fn has_all(kept: &[u64], acknowledged: &[u64]) {
    let lost: Vec<&u64> = acknowledged.iter().filter(|number| !kept.contains(number)).collect();
    assert_eq!(lost, Vec::<&u64>::new(), "of {acknowledged:?}");
    assert!(kept.len() <= acknowledged.len() + 1, "one more at most: {kept:?}");
}

#[tokio::test]
async fn after_a_fault_of_the_medium_what_was_acknowledged_is_there_and_more_is_kept_without_a_restart() {
    for fault in [Fault::Short, Fault::Full, Fault::Sync] {
        // it grows seldom
        let most = if fault == Fault::Full { 4 } else { 12 };
        for passes in 1..most {
            let (medium, clock) = (Medium::made(), Clock::movable());
            let state = medium.open(&clock);
            medium.set(Some(fault), passes);
            let acknowledged = until_it_fails(&state).await;
            assert!(state.file().is_failing(), "{fault:?} {passes}");
            medium.set(None, 0);
            // not at once: opening it again takes its time
            clock.advance(Duration::from_secs(1));
            state.file().probe().await.expect("there is room");
            assert!(!state.file().is_failing());
            has_all(&kept(&state), &acknowledged);
            keep(&state, 1_000).await.expect("there is room");
            drop(state);
            assert!(kept(&medium.open(&clock)).contains(&1_000), "{fault:?} {passes}");
        }
    }
}

#[tokio::test]
async fn while_it_is_full_nothing_is_acknowledged_and_the_probe_says_so() {
    let (medium, clock) = (Medium::made(), Clock::movable());
    let state = medium.open(&clock);
    medium.set(Some(Fault::Full), 1);
    let acknowledged = until_it_fails(&state).await;
    for _ in 0..3 {
        clock.advance(Duration::from_secs(1));
        let probed = state.file().probe().await;
        assert_eq!(state.file().is_failing(), probed.is_err());
    }
    medium.set(None, 0);
    clock.advance(Duration::from_secs(1));
    state.file().probe().await.expect("there is room");
    has_all(&kept(&state), &acknowledged);
}

#[tokio::test]
async fn when_the_power_goes_in_the_middle_of_a_write_what_was_acknowledged_is_there() {
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..60 {
        let (medium, clock) = (Medium::made(), Clock::movable());
        let state = medium.open(&clock);
        medium.set(Some(Fault::Sync), 1 + round % 9);
        let acknowledged = until_it_fails(&state).await;
        let found = medium.after_a_power_cut(&mut random);
        drop(state);
        has_all(&kept(&found.open(&clock)), &acknowledged);
    }
}

/// As [`keep`], but nobody waits for the disk.
async fn keep_soon(state: &State, number: u64, bytes: usize) -> Result<(), StateError> {
    let change = move |write: &redb::WriteTransaction| {
        let text = vec![u8::try_from(number % 251).unwrap_or_default(); 100];
        write.open_table(BLOBS)?.insert(number, &*text)?;
        Ok(())
    };
    state.file().write_soon(bytes, change).await
}

/// Puts on the disk what nobody has waited for.
async fn flush(state: &State) -> Result<(), StateError> {
    state.file().write(0, |_| Ok(())).await
}

#[tokio::test]
async fn what_was_visible_when_the_medium_failed_is_kept_and_is_on_it_when_it_is_well_again() {
    for fault in [Fault::Short, Fault::Sync] {
        for passes in 1..4 {
            let (medium, clock) = (Medium::made(), Clock::movable());
            let state = medium.open(&clock);
            for number in 0..20 {
                keep_soon(&state, number, 100).await.expect("visible");
            }
            assert_eq!(state.file().owed(), 20);
            medium.set(Some(fault), passes);
            // some of its operations pass
            while flush(&state).await.is_ok() {
                let _visible = keep_soon(&state, 20, 100).await;
            }
            assert!(
                state.file().is_failing() && state.file().owed() > 0,
                "{fault:?} {passes}"
            );
            clock.advance(Duration::from_secs(1));
            assert!(
                flush(&state).await.is_err() && state.file().owed() > 0,
                "it is no better"
            );
            medium.set(None, 0);
            clock.advance(Duration::from_secs(1));
            state.file().probe().await.expect("there is room");
            assert_eq!((state.file().owed(), state.file().is_failing()), (0, false));
            let expected: Vec<u64> = (0..20).collect();
            assert!(kept(&state).starts_with(&expected), "{fault:?} {passes}");
            let found = medium.after_a_power_cut(&mut fastrand::Rng::with_seed(7));
            drop(state);
            assert!(kept(&found.open(&clock)).starts_with(&expected), "it is on the disk");
        }
    }
}

#[tokio::test]
async fn what_cannot_be_put_on_the_disk_at_the_end_is_not_told_as_kept() {
    for (fault, lost) in [(Some(Fault::Sync), 3), (None, 0)] {
        let (medium, clock) = (Medium::made(), Clock::movable());
        let state = medium.open(&clock);
        for number in 0..3 {
            keep_soon(&state, number, 100).await.expect("visible");
        }
        medium.set(fault, 1);
        state.close();
        assert_eq!(state.file().owed(), lost);
    }
}

#[tokio::test]
async fn no_more_waits_for_the_disk_than_the_bound() {
    let (medium, clock) = (Medium::made(), Clock::movable());
    let state = medium.open(&clock);
    let mut most = 0;
    for number in 0..100 {
        keep_soon(&state, number, 1 << 20).await.expect("visible");
        most = most.max(state.file().owed());
    }
    assert!((1..=16).contains(&most), "{most} of 1 MiB each");
    flush(&state).await.expect("written");
    assert_eq!(state.file().owed(), 0);
}

#[tokio::test]
async fn a_change_that_panics_is_not_made_and_the_next_one_is() {
    let (medium, clock) = (Medium::made(), Clock::movable());
    let state = medium.open(&clock);
    keep_soon(&state, 1, 100).await.expect("visible");
    let panicked = state.file().write(0, |_| panic!("a bad page")).await;
    assert!(panicked.is_err());
    clock.advance(Duration::from_secs(1));
    keep(&state, 2).await.expect("written");
    assert_eq!(kept(&state), [1, 2]);
}
