//! The gate of a generation, under the orders in which three threads can touch it.
//!
//! The gate's own source is compiled here with loom's atomics in place of the standard library's. Loom runs each body
//! once for each interleaving, stale relaxed reads included, so one failing order fails the test.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64 as Work, AtomicUsize};
use loom::thread;

use gate::Gate;
use sync::Ordering::{Acquire, Relaxed, Release};

#[path = "../../actors/src/registry/gate.rs"]
mod gate;

/// The atomics of the gate.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicU64, Ordering};
}

/// Runs `body` in every order with at most three forced switches between threads. Without that bound the tests pass as
/// well, and take a minute.
fn explore(body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(body);
}

/// What a turn saw: whether it came in, and whether it left the closed gate empty.
#[derive(Default)]
struct Turn {
    entered: bool,
    emptied: bool,
}

fn turn(gate: &Gate) -> Turn {
    let entered = gate.enter();
    Turn {
        entered,
        emptied: entered && gate.leave(),
    }
}

#[test]
fn either_close_finds_the_gate_empty_or_exactly_one_turn_reports_it() {
    explore(|| {
        let gate = Arc::new(Gate::open());
        let turns = [gate.clone(), gate.clone()].map(|gate| thread::spawn(move || turn(&gate)));
        let inside = gate.close();
        assert!(!gate.enter(), "nobody enters a closed gate");
        let reports = turns
            .map(|turn| turn.join().unwrap())
            .iter()
            .filter(|turn| turn.emptied)
            .count();
        assert_eq!(reports, usize::from(inside > 0), "{inside} were inside");
        assert_eq!(gate.holders(), 0);
    });
}

#[test]
fn whoever_knows_that_the_gate_was_closed_stays_out() {
    explore(|| {
        let (gate, closed) = (Arc::new(Gate::open()), Arc::new(AtomicBool::new(false)));
        let turns = [(); 2].map(|()| {
            let (gate, closed) = (gate.clone(), closed.clone());
            thread::spawn(move || {
                let late = closed.load(Acquire);
                let turn = turn(&gate);
                assert!(!(late && turn.entered), "entered after close had returned");
            })
        });
        gate.close();
        closed.store(true, Release);
        for turn in turns {
            turn.join().unwrap();
        }
    });
}

#[test]
fn holders_that_leave_while_the_gate_closes_report_it_once() {
    explore(|| {
        let gate = Arc::new(Gate::open());
        assert!(gate.enter() && gate.enter());
        let leavers = [gate.clone(), gate.clone()].map(|gate| thread::spawn(move || gate.leave()));
        let inside = gate.close();
        let reports = leavers.map(|leaver| leaver.join().unwrap());
        let reports = reports.into_iter().filter(|emptied| *emptied).count();
        assert_eq!(reports, usize::from(inside > 0), "{inside} were inside");
        assert_eq!(gate.holders(), 0);
    });
}

#[test]
fn who_learns_that_the_gate_is_empty_sees_all_that_was_done_inside() {
    explore(|| {
        let (gate, work) = (Arc::new(Gate::open()), Arc::new(Work::new(0)));
        let holders = [(); 2].map(|()| {
            assert!(gate.enter());
            let (gate, work) = (gate.clone(), work.clone());
            thread::spawn(move || {
                work.fetch_add(1, Relaxed);
                let emptied = gate.leave();
                assert!(!emptied || work.load(Relaxed) == 2, "saw half of the work");
            })
        });
        if gate.close() == 0 {
            assert_eq!(work.load(Relaxed), 2, "saw half of the work");
        }
        for holder in holders {
            holder.join().unwrap();
        }
    });
}

#[test]
fn a_gate_that_opens_again_counts_everyone_and_lets_everyone_in() {
    explore(|| {
        let gate = Arc::new(Gate::open());
        assert!(gate.enter());
        assert_eq!(gate.close(), 1);
        let leaver = {
            let gate = gate.clone();
            thread::spawn(move || gate.leave())
        };
        let comer = {
            let gate = gate.clone();
            thread::spawn(move || turn(&gate))
        };
        gate.reopen();
        assert!(gate.enter(), "the gate is open again");
        let comer = comer.join().unwrap();
        leaver.join().unwrap();
        assert!(!comer.emptied, "the gate was open when it entered");
        assert_eq!(gate.holders(), 1);
        assert!(!gate.leave(), "an open gate is not reported");
    });
}

/// What a turn waits for comes in beside it: whoever closed the gate waits for both, and is told once.
#[test]
fn who_comes_in_beside_somebody_is_waited_for_as_well() {
    explore(|| {
        let gate = Arc::new(Gate::open());
        assert!(gate.enter());
        let parent = {
            let gate = gate.clone();
            thread::spawn(move || {
                gate.enter_beside();
                let child = {
                    let gate = gate.clone();
                    thread::spawn(move || gate.leave())
                };
                let emptied = gate.leave();
                usize::from(emptied) + usize::from(child.join().unwrap())
            })
        };
        let inside = gate.close();
        assert!(!gate.enter(), "nobody else enters a closed gate");
        let reports = parent.join().unwrap();
        assert_eq!(reports, usize::from(inside > 0), "{inside} were inside");
        assert_eq!(gate.holders(), 0);
    });
}

/// A reload of a plugin that only one agent has: one gate closes, the other stays open.
#[test]
fn a_gate_that_closes_for_one_agent_neither_holds_nor_waits_for_the_other() {
    explore(|| {
        let gates = Arc::new([Gate::open(), Gate::open()]);
        let turns = [0, 1].map(|agent| {
            let gates = gates.clone();
            thread::spawn(move || turn(&gates[agent]))
        });
        let inside = gates[0].close();
        let [concerned, other] = turns.map(|turn| turn.join().unwrap());
        assert!(other.entered && !other.emptied, "the other agent's turn was concerned");
        assert_eq!(concerned.emptied, inside > 0, "{inside} were inside");
        assert_eq!((gates[0].holders(), gates[1].holders()), (0, 0));
        assert!(!gates[0].enter(), "nobody enters a closed gate");
        gates.iter().for_each(Gate::reopen);
        assert!(gates.iter().all(Gate::enter), "both are open again");
    });
}

/// What the registry does when it publishes: the new generation is there before the old one's gates are closed.
#[test]
fn a_turn_that_finds_the_old_gate_closed_finds_the_new_one_open() {
    explore(|| {
        let gates = Arc::new([[Gate::open(), Gate::open()], [Gate::open(), Gate::open()]]);
        let serving = Arc::new(AtomicUsize::new(0));
        let turns = [0, 1].map(|agent| {
            let (gates, serving) = (gates.clone(), serving.clone());
            thread::spawn(move || {
                let seen = serving.load(Acquire);
                let entered = gates[seen][agent].enter();
                let again = entered || gates[serving.load(Acquire)][agent].enter();
                assert!(again, "neither generation let the turn in");
                usize::from(!entered || seen == 1)
            })
        });
        serving.store(1, Release);
        let old: u64 = gates[0].iter().map(Gate::close).sum();
        let inside = turns.map(|turn| turn.join().unwrap());
        let new = inside.iter().filter(|generation| **generation == 1).count() as u64;
        assert_eq!(
            old + new,
            2,
            "each turn is in one generation, and the old one knows its own"
        );
        assert!(gates[0].iter().all(|gate| !gate.enter()), "nobody enters the old one");
    });
}
