//! The store of sessions: a turn, many turns in one group, and a session that comes back into memory.

use criterion::{Criterion, Throughput};
use futures::future::join_all;
use tokio::runtime::{Builder, Runtime};
use understudy_actors::session::store::Header;
use understudy_tests::bench::sessions::Sessions;

/// Turns that come at once, each of another session.
const AT_ONCE: u64 = 64;
/// Sessions that are only loaded, and the turns in them.
const LOADED: [(u64, u64, &str); 2] = [(1_000, 1, "load, 1 turn"), (1_001, 64, "load, 64 turns")];

pub fn bench(criterion: &mut Criterion) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    for (name, sessions) in [
        ("store in memory", Sessions::in_memory()),
        ("store on disk, each turn durable", Sessions::on_disk("core", None)),
    ] {
        measure(criterion, name, &runtime, &sessions);
    }
}

fn measure(criterion: &mut Criterion, name: &str, runtime: &Runtime, sessions: &Sessions) {
    let mut group = criterion.benchmark_group(name);
    let mut known: Vec<Header> = runtime.block_on(join_all((0..AT_ONCE).map(|session| sessions.load(session))));
    let commit = |known: &mut [Header]| {
        let turns = (0..).zip(known.iter());
        let committed = join_all(turns.map(|(session, before)| sessions.commit(session, before.clone())));
        known.clone_from_slice(&runtime.block_on(committed));
    };
    group.bench_function("commit of a turn", |bencher| bencher.iter(|| commit(&mut known[..1])));
    group.throughput(Throughput::Elements(AT_ONCE));
    group.bench_function("commit of 64 turns at once, each", |bencher| {
        bencher.iter(|| commit(&mut known));
    });
    group.throughput(Throughput::Elements(1));
    for (session, turns, name) in LOADED {
        runtime.block_on(async {
            for _ in 0..turns {
                sessions.turn(session).await;
            }
        });
        group.bench_function(name, |bencher| {
            bencher.iter(|| assert_eq!(runtime.block_on(sessions.load(session)).turns, turns));
        });
    }
    group.finish();
}
