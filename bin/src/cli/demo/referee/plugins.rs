//! What plugins saw and did, as clients, the event tap, Prometheus, the simulator's log and the plugins know it.

use understudy_actors::telemetry::{self, HookOutcome};
use understudy_messages::events::{Decision, Event};
use understudy_messages::hooks::Hook;
use understudy_messages::ids::ModelRef;
use understudy_messages::registry::{ReloadOutcome, Trigger};
use understudy_messages::tools::ToolOutcome;

use super::super::driver::{Got, Receipt};
use super::super::props::{CANON, GUARD};
use super::super::reloads::TIMES;
use super::super::scenes::{GUARDED, KEPT, SCENES, scene};
use super::super::stage::{Stage, target};
use super::super::{SharedEvent, Told};
use super::{Check, decided};
use crate::scrape::Scrape;

/// What plugins saw and did.
#[derive(Clone, Debug)]
pub(in super::super) struct PluginPart {
    /// Requests to the fallback of the agent with a canon, and how many of them carried it.
    pub(in super::super) to_fallback: u64,
    pub(in super::super) with_canon: u64,
    /// Calls of tools that the guarded lead wanted to make, and how many of them a plugin blocked.
    pub(in super::super) proposed: u64,
    pub(in super::super) blocked: u64,
    /// Turns without an answer that a plugin was told of.
    pub(in super::super) terminal: u64,
    /// How often plugins were replaced meanwhile.
    pub(in super::super) reloads: u64,
    /// Turns whose hooks saw one instance.
    pub(in super::super) one_instance: u64,
    pub(super) checks: Vec<Check>,
}

/// Compares every source with every other.
pub(super) async fn judge(stage: &Stage, receipts: &[Receipt], told: &Told, scrape: &Scrape) -> PluginPart {
    let count = |what: fn(&Event) -> bool| told.events.iter().filter(|event| what(event)).count() as u64;
    let failed = count(|event| matches!(event, Event::TerminalFailure(_)));
    let dropped = [("hook", Hook::ModelFailureTerminal.as_label())];
    let dropped = scrape.count(telemetry::HOOK_DROPPED.name, &dropped);
    let terminal = stage.witness.heard(failed.saturating_sub(dropped)).await;
    let refused = receipts.iter().filter(|receipt| receipt.got == Got::Refusal).count() as u64;
    let clients = |right| Check {
        what: "turns without an answer".to_owned(),
        left: ("clients", refused),
        right,
    };
    let mut checks = vec![
        clients(("event tap", failed)),
        clients(("Prometheus", scrape.count(telemetry::TERMINAL.name, &[]))),
        clients(("a plugin, told and dropped", terminal + dropped)),
    ];
    let kept = Kept::new(stage, told);
    checks.extend(kept.checks(receipts, scrape));
    let [_, (with_canon, to_fallback)] = kept.logged;
    let [proposed, blocked] = guarded(stage, told, scrape, &mut checks);
    checks.extend(replaced(stage, receipts, told, scrape));
    PluginPart {
        reloads: reloaded(scrape),
        one_instance: stage.witness.seen_by_one(),
        to_fallback,
        with_canon,
        proposed,
        blocked,
        terminal,
        checks,
    }
}

fn reloaded(scrape: &Scrape) -> u64 {
    // the start is counted as well, with a trigger of its own
    let applied = [
        ("outcome", ReloadOutcome::Applied.as_label()),
        ("trigger", Trigger::Api.as_label()),
    ];
    scrape.count(telemetry::RELOADS.name, &applied)
}

/// All reloads were applied, each with a generation and an instance of its own, and no turn saw two instances.
fn replaced(stage: &Stage, receipts: &[Receipt], told: &Told, scrape: &Scrape) -> Vec<Check> {
    let is_end = |event: &&SharedEvent| matches!(&***event, Event::ReloadProgress(it) if it.outcome == Some(ReloadOutcome::Applied));
    let is_change = |event: &&SharedEvent| matches!(&***event, Event::PluginsChanged { .. });
    let ends = told.events.iter().filter(is_end).count() as u64;
    let changes = told.events.iter().filter(is_change).count() as u64;
    let check = |what: &str, left, right| Check {
        what: what.to_owned(),
        left,
        right,
    };
    let asked = |right| check("reloads", ("asked for", TIMES), right);
    let first = |what, right| check(what, ("reloads and the start", TIMES + 1), right);
    let generation = scrape.count(telemetry::GENERATION.name, &[]);
    let by_one = ("a plugin", stage.witness.seen_by_one());
    vec![
        asked(("Prometheus, applied", reloaded(scrape))),
        asked(("event tap, applied", ends)),
        asked(("event tap, plugins changed", changes)),
        first("the serving generation", ("Prometheus", generation)),
        first("instances of the witness", ("a plugin", stage.witness.instances())),
        check(
            "turns whose hooks saw one instance",
            ("clients", receipts.len() as u64),
            by_one,
        ),
    ]
}

/// Calls of tools that the guarded lead wanted to make, and those that the guard blocked.
fn guarded(stage: &Stage, told: &Told, scrape: &Scrape, checks: &mut Vec<Check>) -> [u64; 2] {
    let Some(scene) = scene(GUARDED) else {
        return [0; 2];
    };
    let lead = target(scene.chain[0]);
    let proposed = stage.simulator.journal().read(|entries| entries.calls(&lead));
    let hook = Hook::BeforeToolCall.as_label();
    let labels = [
        ("hook", hook),
        ("plugin", GUARD),
        ("outcome", HookOutcome::Blocked.as_label()),
    ];
    let blocked = scrape.count(telemetry::HOOK_CALLS.name, &labels);
    let removed = told.events.iter().map(|event| match &**event {
        Event::TurnEnded(ended) => ended.removed_calls.len() as u64,
        Event::FailoverDecided(_)
        | Event::StreamContinued(_)
        | Event::CandidateSkipped(_)
        | Event::WindowOpened { .. }
        | Event::Probed { .. }
        | Event::TerminalFailure(_)
        | Event::ContextFitted { .. }
        | Event::TranscriptCut { .. }
        | Event::SessionFault { .. }
        | Event::GenerationPublished { .. }
        | Event::PluginsChanged { .. }
        | Event::ReloadProgress(_) => 0,
    });
    let kept_back = [("outcome", ToolOutcome::Blocked.as_label())];
    for right in [
        (GUARD, blocked),
        ("event tap", removed.sum()),
        ("Prometheus", scrape.count(telemetry::TOOL_CALLS.name, &kept_back)),
    ] {
        checks.push(Check {
            what: "calls of tools that were blocked".to_owned(),
            left: ("simulator, proposed", proposed),
            right,
        });
    }
    [proposed, blocked]
}

/// The agent with a canon.
struct Kept {
    lead: ModelRef,
    /// Requests to the fallback.
    calls: u64,
    /// Of lead and fallback: logged requests that carry the canon, and all logged ones.
    logged: [(u64, u64); 2],
    /// As the tap told them: how often the lead failed and was left for the next, and how often it was passed over.
    moved_on: u64,
    skipped: u64,
}

impl Kept {
    fn new(stage: &Stage, told: &Told) -> Self {
        let [lead, fallback] = scene(KEPT).map_or(["", ""], |scene| scene.chain).map(target);
        let is_lead = |event: &&SharedEvent, left: bool| match &***event {
            Event::FailoverDecided(it) => left && it.from == lead && it.decision == Decision::FallbackModel,
            Event::CandidateSkipped(it) => !left && it.model == lead,
            Event::StreamContinued(_)
            | Event::WindowOpened { .. }
            | Event::Probed { .. }
            | Event::TerminalFailure(_)
            | Event::TurnEnded(_)
            | Event::ContextFitted { .. }
            | Event::TranscriptCut { .. }
            | Event::SessionFault { .. }
            | Event::GenerationPublished { .. }
            | Event::PluginsChanged { .. }
            | Event::ReloadProgress(_) => false,
        };
        let count = |left| told.events.iter().filter(|event| is_lead(event, left)).count() as u64;
        let (calls, logged) = stage.simulator.journal().read(|entries| {
            let logged = [&lead, &fallback].map(|target| {
                let carries = |body: &[u8]| String::from_utf8_lossy(body).contains(CANON);
                let carrying = entries.records_of(target).filter(|record| carries(&record.body));
                (carrying.count() as u64, entries.records_of(target).count() as u64)
            });
            (entries.calls(&fallback), logged)
        });
        Self {
            calls,
            logged,
            moved_on: count(true),
            skipped: count(false),
            lead,
        }
    }

    fn checks(&self, receipts: &[Receipt], scrape: &Scrape) -> Vec<Check> {
        let turns = receipts.iter().filter(|receipt| SCENES[receipt.scene].model == KEPT);
        let labels = [("provider", &*self.lead.provider), ("model", &*self.lead.model)];
        let skipped = scrape.count(telemetry::SKIPPED.name, &labels);
        let moved_on = decided(scrape, &self.lead, Some(Decision::FallbackModel));
        let check = |what: &str, left, right| Check {
            what: what.to_owned(),
            left,
            right,
        };
        let failovers = |right| check("failovers of kept", ("simulator", self.calls), right);
        let carried =
            |what, (carrying, all)| check(what, ("with the canon", carrying), ("in the simulator's log", all));
        let prompts = turns.count() as u64 + self.moved_on;
        vec![
            failovers(("Prometheus", moved_on + skipped)),
            failovers(("event tap", self.moved_on + self.skipped)),
            carried("requests to the lead of kept", self.logged[0]),
            carried("requests to the fallback of kept", self.logged[1]),
            check(
                "prompts with the canon",
                ("the canon", scrape.count(telemetry::CANON_INJECTIONS.name, &[])),
                ("clients and event tap", prompts),
            ),
        ]
    }
}
