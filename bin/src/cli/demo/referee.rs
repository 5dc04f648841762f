//! The referee: what clients got, what the event tap told, what Prometheus counted and what the simulator logged must be
//! one and the same story.

mod plugins;

use std::collections::HashMap;

use serde_json::{Value, json};
use understudy_actors::telemetry;
use understudy_messages::events::{Decision, Event};
use understudy_messages::ids::ModelRef;
use understudy_messages::turn::TurnOutcome;
use understudy_providers::sim::entries::Tally;

pub(super) use self::plugins::PluginPart;
use super::Told;
use super::driver::{Got, Receipt};
use super::scenes::SCENES;
use super::stage::{Stage, target};
use crate::scrape::Scrape;

/// One number as two sources know it.
#[derive(Clone, Debug)]
pub(super) struct Check {
    pub(super) what: String,
    pub(super) left: (&'static str, u64),
    pub(super) right: (&'static str, u64),
}

impl Check {
    pub(super) fn holds(&self) -> bool {
        self.left.1 == self.right.1
    }
}

/// One row of the table: a scene and what Prometheus counted of it.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) scene: usize,
    pub(super) turns: usize,
    pub(super) by_lead: usize,
    pub(super) by_understudy: usize,
    pub(super) errors: usize,
    /// Of the lead, as Prometheus counted them.
    pub(super) attempts: u64,
    pub(super) retried: u64,
    pub(super) rotated: u64,
    pub(super) moved_on: u64,
    pub(super) skipped: u64,
    pub(super) probes: u64,
}

/// The referee's verdict.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub(super) turns: usize,
    pub(super) lost: u64,
    pub(super) rescued: u64,
    pub(super) rows: Vec<Row>,
    pub(super) plugins: PluginPart,
    pub(super) checks: Vec<Check>,
    pub(super) complaints: Vec<String>,
}

/// Compares every source with every other.
pub(super) async fn judge(stage: &Stage, receipts: &[Receipt], told: &Told, scrape: &Scrape) -> Verdict {
    let mut checks = ends(receipts, told, scrape);
    checks.extend(attempts(stage, scrape));
    checks.extend(failovers(stage, told, scrape));
    checks.push(came_back(receipts));
    let plugins = plugins::judge(stage, receipts, told, scrape).await;
    checks.extend(plugins.checks.iter().cloned());
    Verdict {
        turns: receipts.len(),
        lost: lost(receipts, told),
        rescued: scrape.count(telemetry::TURNS.name, &[("outcome", "ok"), ("served_by", "fallback")]),
        rows: (0..SCENES.len()).map(|scene| row(scene, receipts, scrape)).collect(),
        plugins,
        checks,
        complaints: receipts
            .iter()
            .filter_map(|receipt| receipt.complaint.clone())
            .collect(),
    }
}

/// Turns without exactly one end event, and clients without an ending that their protocol knows.
fn lost(receipts: &[Receipt], told: &Told) -> u64 {
    let mut ends: HashMap<_, u64> = HashMap::new();
    for event in &told.events {
        if let Event::TurnEnded(ended) = &**event {
            *ends.entry(ended.turn).or_default() += 1;
        }
    }
    let twice = ends.values().filter(|count| **count != 1).count() as u64;
    let never = (receipts.len() as u64).abs_diff(ends.len() as u64);
    let broken = receipts.iter().filter(|receipt| receipt.got == Got::Broken).count() as u64;
    twice + never + broken
}

fn row(scene: usize, receipts: &[Receipt], scrape: &Scrape) -> Row {
    let of = |wanted: &[Got]| {
        let matches = |receipt: &&Receipt| receipt.scene == scene && wanted.contains(&receipt.got);
        receipts.iter().filter(matches).count()
    };
    let lead = target(SCENES[scene].chain[0]);
    let labels = [("provider", &*lead.provider), ("model", &*lead.model)];
    Row {
        scene,
        turns: receipts.iter().filter(|receipt| receipt.scene == scene).count(),
        by_lead: of(&[Got::Lead, Got::Guarded]),
        by_understudy: of(&[Got::Understudy, Got::Continued]),
        errors: of(&[Got::ErrorEvent, Got::Refusal]),
        attempts: scrape.count(telemetry::ATTEMPTS_TOTAL.name, &labels),
        retried: decided(scrape, &lead, Some(Decision::RetrySame)),
        rotated: decided(scrape, &lead, Some(Decision::RotateCredential)),
        moved_on: decided(scrape, &lead, Some(Decision::FallbackModel)),
        skipped: scrape.count(telemetry::SKIPPED.name, &labels),
        probes: scrape.count(telemetry::PROBES.name, &labels),
    }
}

/// What was decided about failures of `from`, or all of it.
fn decided(scrape: &Scrape, from: &ModelRef, decision: Option<Decision>) -> u64 {
    let from = [("from_provider", &*from.provider), ("from_model", &*from.model)];
    let decision = decision.map(|decision| ("decision", decision.as_label()));
    let labels: Vec<(&str, &str)> = from.into_iter().chain(decision).collect();
    scrape.count(telemetry::FAILOVER.name, &labels)
}

fn attempts_at(scrape: &Scrape, provider: &str, model: &str) -> u64 {
    scrape.count(
        telemetry::ATTEMPTS_TOTAL.name,
        &[("provider", provider), ("model", model)],
    )
}

/// How turns ended: as clients saw it, as the tap told it, as Prometheus counted it.
fn ends(receipts: &[Receipt], told: &Told, scrape: &Scrape) -> Vec<Check> {
    let clients = |whole: bool| {
        let is_whole = |receipt: &&Receipt| {
            matches!(receipt.got, Got::Lead | Got::Understudy | Got::Continued | Got::Guarded) == whole
        };
        receipts.iter().filter(is_whole).count() as u64
    };
    let tap = |whole: bool| {
        let matches = |event: &&super::SharedEvent| match &***event {
            Event::TurnEnded(ended) => matches!(ended.outcome, TurnOutcome::Completed) == whole,
            _ => false,
        };
        told.events.iter().filter(matches).count() as u64
    };
    let scraped = |outcome: &str| scrape.count(telemetry::TURNS.name, &[("outcome", outcome)]);
    let streams = receipts.iter().filter(|receipt| receipt.got == Got::ErrorEvent).count() as u64;
    let check = |what: &str, left, right| Check {
        what: what.to_owned(),
        left,
        right,
    };
    vec![
        check("whole answers", ("clients", clients(true)), ("event tap", tap(true))),
        check(
            "whole answers",
            ("clients", clients(true)),
            ("Prometheus", scraped("ok")),
        ),
        check("failed turns", ("clients", clients(false)), ("event tap", tap(false))),
        check(
            "failed turns",
            ("clients", clients(false)),
            ("Prometheus", scraped("error")),
        ),
        check(
            "requests",
            ("clients", receipts.len() as u64),
            (
                "Prometheus",
                scrape.count(telemetry::HTTP_REQUESTS.name, &[("route", "/v1/chat/completions")]),
            ),
        ),
        check(
            "streams cut after content",
            ("clients", streams),
            (
                "Prometheus",
                scrape.count(telemetry::STREAMS.name, &[("end", "truncated")]),
            ),
        ),
        check(
            "turns in flight",
            ("expected", 0),
            ("Prometheus", scrape.count(telemetry::TURNS_IN_FLIGHT.name, &[])),
        ),
        check("events missed", ("expected", 0), ("event tap", told.missed)),
    ]
}

/// Upstream calls, target by target.
fn attempts(stage: &Stage, scrape: &Scrape) -> Vec<Check> {
    stage.simulator.journal().read(|entries| {
        let tallies = entries.tallies().iter();
        let check = |(target, tally): (&ModelRef, &Tally)| Check {
            what: format!("attempts at {target}"),
            left: ("simulator", tally.calls),
            right: ("Prometheus", attempts_at(scrape, &target.provider, &target.model)),
        };
        tallies.map(check).collect()
    })
}

/// Decisions: one for every call that the simulator made fail.
fn failovers(stage: &Stage, told: &Told, scrape: &Scrape) -> Vec<Check> {
    let mut checks: Vec<Check> = stage.simulator.journal().read(|entries| {
        let tallies = entries.tallies().iter();
        let check = |(target, tally): (&ModelRef, &Tally)| Check {
            what: format!("failures of {target}"),
            left: ("simulator", failures(target, tally)),
            right: ("Prometheus", decided(scrape, target, None)),
        };
        tallies.map(check).collect()
    });
    let steps = |event: &&super::SharedEvent| matches!(&***event, Event::FailoverDecided(_));
    checks.push(Check {
        what: "decisions in all".to_owned(),
        left: ("event tap", told.events.iter().filter(steps).count() as u64),
        right: ("Prometheus", scrape.count(telemetry::FAILOVER.name, &[])),
    });
    checks
}

/// Once it is well, the flapping lead answers the last turn of every one of its sessions.
fn came_back(receipts: &[Receipt]) -> Check {
    let last = |receipt: &&Receipt| receipt.last && SCENES[receipt.scene].model == "flapping";
    let by_lead = |receipt: &&Receipt| last(receipt) && receipt.got == Got::Lead;
    Check {
        what: "last turns of the flapping lead".to_owned(),
        left: ("sessions", receipts.iter().filter(last).count() as u64),
        right: ("answered by it", receipts.iter().filter(by_lead).count() as u64),
    }
}

/// The calls that the simulator made fail: refused, broken before a byte, or torn in mid-answer.
fn failures(target: &ModelRef, tally: &Tally) -> u64 {
    let refused: u64 = tally
        .statuses
        .iter()
        .filter(|(status, _)| **status >= 400)
        .map(|(_, count)| count)
        .sum();
    let torn = if &*target.model == "torn" { tally.calls } else { 0 };
    refused + tally.unanswered + torn
}

impl Verdict {
    /// Whether nothing was lost and every number agrees.
    pub(super) fn sound(&self) -> bool {
        self.lost == 0 && self.complaints.is_empty() && self.checks.iter().all(Check::holds)
    }

    /// The verdict for programs.
    pub(super) fn as_json(&self) -> Value {
        let checks = self.checks.iter().map(|check| {
            let (left, right) = (
                json!({ check.left.0: check.left.1 }),
                json!({ check.right.0: check.right.1 }),
            );
            json!({ "what": check.what, "left": left, "right": right, "holds": check.holds() })
        });
        let rows = self.rows.iter().map(|row| {
            json!({ "model": SCENES[row.scene].model, "about": SCENES[row.scene].about, "turns": row.turns,
                "by_lead": row.by_lead, "by_understudy": row.by_understudy, "errors": row.errors,
                "lead": { "attempts": row.attempts, "retried": row.retried, "rotated": row.rotated,
                    "moved_on": row.moved_on, "skipped": row.skipped, "probes": row.probes } })
        });
        let plugins = json!({ "to_fallback": self.plugins.to_fallback, "with_canon": self.plugins.with_canon, "proposed": self.plugins.proposed, "blocked": self.plugins.blocked,
            "terminal": self.plugins.terminal, "reloads": self.plugins.reloads, "one_instance": self.plugins.one_instance });
        json!({ "sound": self.sound(), "turns": self.turns, "lost": self.lost, "rescued": self.rescued,
            "scenes": rows.collect::<Vec<_>>(), "plugins": plugins, "checks": checks.collect::<Vec<_>>(), "complaints": self.complaints })
    }
}
