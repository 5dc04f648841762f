//! What to do about a failed attempt.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use understudy_actors::provider::{Situation, next_step};
use understudy_messages::answer::Progress;
use understudy_messages::failure::{Cut, Failure, Reason};
use understudy_messages::settings::RetrySettings;

const CUTS: [Cut; 5] = [
    Cut::Answered,
    Cut::Refused,
    Cut::Lost,
    Cut::CleanEnd,
    Cut::FirstContentLimit,
];
const DELIVERED: [Progress; 2] = [Progress::Nothing, Progress::Content];

pub fn bench(criterion: &mut Criterion) {
    let retry = RetrySettings::default();
    let usual = (Failure::observed(Reason::Overloaded, Cut::Answered), moving_on(&retry));
    let all = representative(&retry);
    let mut group = criterion.benchmark_group("failover decision");
    group.bench_function("overloaded, somebody else could answer", |bencher| {
        bencher.iter(|| next_step(black_box(&usual.0), black_box(&usual.1)));
    });
    group.throughput(Throughput::Elements(all.len() as u64));
    group.bench_function("every reason in many situations, each", |bencher| {
        bencher.iter(|| {
            for (failure, situation) in &all {
                let _step = black_box(next_step(black_box(failure), black_box(situation)));
            }
        });
    });
    group.finish();
}

/// Every reason, however the exchange ended, before and after content, for the first and the second time, with and without
/// somebody else, with one credential and with more.
fn representative(retry: &RetrySettings) -> Vec<(Failure, Situation<'_>)> {
    let mut all = Vec::new();
    for (reason, cut) in Reason::ALL.into_iter().flat_map(|reason| CUTS.map(|cut| (reason, cut))) {
        for delivered in DELIVERED {
            for retries in [0, 1] {
                for (successor, other_credential) in [(Some(1), false), (None, false), (None, true)] {
                    let situation = Situation {
                        delivered,
                        retries,
                        successor,
                        other_credential,
                        attempts: retries + 1,
                        ..moving_on(retry)
                    };
                    all.push((Failure::observed(reason, cut), situation));
                }
            }
        }
    }
    all
}

fn moving_on(retry: &RetrySettings) -> Situation<'_> {
    Situation {
        delivered: Progress::Nothing,
        continuable: false,
        going_on: false,
        prefilled: false,
        replay_safe: true,
        successor: Some(1),
        same_again: true,
        took: Duration::from_millis(300),
        retries: 0,
        other_credential: false,
        rotations: 0,
        attempts: 1,
        max_attempts: 6,
        remaining: Duration::from_secs(600),
        jitter: 1.0,
        retry,
        on_broken_stream: Default::default(),
        on_content_filter: Default::default(),
        on_status: false,
    }
}
