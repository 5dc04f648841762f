//! Plugins of every host replaced under load: whether a turn is lost, how long turns take meanwhile, and what is left of memory
//! after hundreds of reloads.
//!
//!     cargo bench -p understudy-tests --bench recast [-- sessions seconds reloads]
//!
//! Sessions stream turns of 200 ms with rests between them, so that the machine is not busy. Phases in which nothing is replaced
//! and phases in which the next reload begins a second after the last has ended take turns; only the ratio of their latencies
//! within one run means anything. Clients, model and gateway share one process. It fails when a turn is lost.

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use understudy_messages::clock::Instant;
use understudy_tests::bench::{is_asked_for, machine, percentile};
use understudy_tests::recast::{EXCLUSIVE, JS, NATIVE, PROCESS, SHARED, Stage, Turn};

/// So many turns are asked for in a second, whatever the number of sessions.
const RATE: u32 = 60;
/// How often each kind of phase comes.
const ROUNDS: u32 = 4;
/// What memory is compared with.
const WARM: usize = 50;

/// What is replaced in a phase.
#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Steady,
    Shared,
    Exclusive,
}

const PHASES: [(Phase, &str); 3] = [
    (Phase::Steady, "nothing"),
    (Phase::Shared, "shared"),
    (Phase::Exclusive, "exclusive"),
];

fn main() -> ExitCode {
    if !is_asked_for() {
        return ExitCode::SUCCESS;
    }
    let numbers: Vec<u32> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let [sessions, seconds, reloads] = [(0, 1_000), (1, 60), (2, 500)].map(|(place, usual)| {
        let given = numbers.get(place).copied();
        given.unwrap_or(usual)
    });
    println!("{}", machine::describe());
    let lost = actix_web::rt::System::new().block_on(async {
        let lost = under_load(sessions, Duration::from_secs(seconds.into())).await;
        back_to_back(reloads as usize).await;
        lost
    });
    ExitCode::from(u8::from(lost > 0))
}

/// How many turns were lost.
async fn under_load(sessions: u32, whole: Duration) -> usize {
    let stage = Stage::set().await;
    let phase = whole / (ROUNDS * 3);
    let mut began: Vec<(Phase, Instant)> = Vec::new();
    let mut reloads = Vec::new();
    let script = async {
        stage.pause(Duration::from_secs(1)).await;
        for (kind, _) in (0..ROUNDS).flat_map(|_| PHASES) {
            began.push((kind, stage.now()));
            reloads.push((kind, play(&stage, kind, phase).await));
        }
    };
    let rest = Duration::from_secs(1) * sessions / RATE;
    let (turns, ()) = stage.crowd(sessions as usize, rest, script).await;
    let lost: Vec<&String> = turns.iter().filter_map(|turn| turn.seen.as_ref().err()).collect();
    for why in lost.iter().take(3) {
        println!("lost: {why}");
    }
    println!("{sessions} sessions, {} turns, {} lost", turns.len(), lost.len());
    let steady = latencies(&turns, &began, Phase::Steady);
    for (kind, name) in PHASES {
        let these = latencies(&turns, &began, kind);
        let of_kind = reloads.iter().filter(|(it, _)| *it == kind);
        let (count, longest) = of_kind.fold((0, Duration::ZERO), |(count, longest), (_, took)| {
            (count + took.len(), took.iter().copied().fold(longest, Duration::max))
        });
        let ratio = percentile(&these, 99).as_secs_f64() / percentile(&steady, 99).as_secs_f64();
        println!(
            "{name:>9}: {count} reloads, the longest {longest:.0?}; {} turns, p50 {:.0?}, p99 {:.0?}, {ratio:.2} × steady",
            these.len(),
            percentile(&these, 50),
            percentile(&these, 99)
        );
    }
    lost.len()
}

/// One phase; how long each reload took.
async fn play(stage: &Stage, kind: Phase, length: Duration) -> Vec<Duration> {
    let end = stage.now() + length;
    let plugins: &[&str] = match kind {
        Phase::Steady => &[],
        Phase::Shared => &SHARED,
        Phase::Exclusive => &[EXCLUSIVE],
    };
    let mut took = Vec::new();
    let mut next = plugins.iter().cycle();
    while let Some(plugin) = next.next().filter(|_| stage.now() < end) {
        took.extend(stage.reload_all([*plugin], Duration::from_secs(1)).await);
    }
    stage.pause(end.saturating_duration_since(stage.now())).await;
    took
}

/// How long the turns that began in phases of one kind took, the shortest first.
fn latencies(turns: &[Turn], began: &[(Phase, Instant)], kind: Phase) -> Vec<Duration> {
    let phase_of = |turn: &&Turn| {
        let phase = began.iter().rev().find(|(_, from)| *from <= turn.began);
        phase.is_some_and(|(phase, _)| *phase == kind)
    };
    let mut took: Vec<Duration> = turns.iter().filter(phase_of).map(|turn| turn.took).collect();
    took.sort_unstable();
    took
}

/// Memory after many reloads, against that after few.
async fn back_to_back(reloads: usize) {
    let stage = Stage::set().await;
    for plugin in [JS, NATIVE, PROCESS] {
        let mut warm = 0;
        for done in 1..=reloads.max(WARM) {
            stage.reload_all([plugin], Duration::ZERO).await;
            if done == WARM {
                warm = resident();
            }
        }
        let ratio = resident() as f64 / warm as f64;
        println!(
            "{plugin}: memory after {reloads} reloads {ratio:.3} × that after {WARM} ({} MiB)",
            warm >> 20
        );
    }
}

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.expect("a number") << 10
}
