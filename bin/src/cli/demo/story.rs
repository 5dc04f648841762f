//! The demo, told to people.

use std::fmt::Write;

use super::Args;
use super::referee::{PluginPart, Verdict};
use super::reloads::targets;
use super::scenes::{GUARDED, KEPT, SCENES, scene};
use super::script::TOOL;
use super::stage::Stage;

/// How many complaints are shown.
const SHOWN: usize = 10;

pub(super) fn opening(stage: &Stage, args: &Args) -> String {
    let (api, admin) = (stage.app.api(), stage.app.admin());
    format!(
        "Four simulated providers: aurora is having a bad day, cassini's first key is dead, doria is busy, borealis stands by.\n\
         The gateway listens on http://{api}/v1, its metrics are at http://{admin}/metrics.\n\
         {} sessions take {} turns each, half of them streaming, all at the same time; those of the flapping lead take their\n\
         time, so that it can come back.\n",
        args.sessions, args.turns
    )
}

pub(super) fn ending(verdict: &Verdict) -> String {
    let mut text = table(verdict);
    text.push_str(&plugins(verdict));
    let agree = verdict.checks.iter().filter(|check| check.holds()).count();
    // writing to a string cannot fail
    let _ = writeln!(
        text,
        "{} turns, {} rescued by the understudy, {} lost. {agree} of {} numbers agree between clients, event tap, \
         Prometheus, the simulator's log and plugins.",
        verdict.turns,
        verdict.rescued,
        verdict.lost,
        verdict.checks.len()
    );
    for check in verdict.checks.iter().filter(|check| !check.holds()) {
        let ((left, ours), (right, theirs)) = (check.left, check.right);
        let _ = writeln!(text, "  DIFFERS  {}: {left} {ours}, {right} {theirs}", check.what);
    }
    for complaint in verdict.complaints.iter().take(SHOWN) {
        let _ = writeln!(text, "  WRONG    {complaint}");
    }
    text.push_str(if verdict.sound() {
        "The referee is content."
    } else {
        "The referee objects."
    });
    text
}

/// The verdict, and where the gateway listens: with `--keep` it goes on serving there.
pub(super) fn for_programs(stage: &Stage, verdict: &Verdict) -> serde_json::Value {
    let (api, admin) = (stage.app.api(), stage.app.admin());
    let mut json = verdict.as_json();
    json["api"] = format!("http://{api}/v1").into();
    json["admin"] = format!("http://{admin}").into();
    json
}

fn table(verdict: &Verdict) -> String {
    let mut text = String::new();
    // writing to a string cannot fail
    let _ = writeln!(
        text,
        "{:<9} {:<38} {:>5} {:>5} {:>10} {:>6} | {:>5} {:>7} {:>7} {:>8} {:>7} {:>6}",
        "model",
        "what happens to the lead",
        "turns",
        "lead",
        "understudy",
        "errors",
        "calls",
        "retried",
        "rotated",
        "moved on",
        "skipped",
        "probes"
    );
    for row in &verdict.rows {
        let scene = SCENES[row.scene];
        let _ = writeln!(
            text,
            "{:<9} {:<38} {:>5} {:>5} {:>10} {:>6} | {:>5} {:>7} {:>7} {:>8} {:>7} {:>6}",
            scene.model,
            scene.about,
            row.turns,
            row.by_lead,
            row.by_understudy,
            row.errors,
            row.attempts,
            row.retried,
            row.rotated,
            row.moved_on,
            row.skipped,
            row.probes
        );
    }
    text.push_str("(left of the bar: what clients got; right of it: what Prometheus counted of the lead)\n");
    text
}

fn plugins(verdict: &Verdict) -> String {
    let PluginPart {
        to_fallback,
        with_canon,
        proposed,
        blocked,
        terminal,
        reloads,
        one_instance,
        ..
    } = verdict.plugins;
    format!(
        "\nPlugins: {with_canon} of {to_fallback} requests to the understudy of {KEPT} carried the canon, {blocked} of {proposed} calls \
         that {GUARDED}\nproposed were blocked, {terminal} turns without an answer were told of. Meanwhile {} were replaced {reloads} times:\n\
         {one_instance} of {} turns saw one instance from beginning to end.\n",
        targets().join(" and "),
        verdict.turns,
    )
}

pub(super) fn encore(stage: &Stage) -> String {
    let (api, admin) = (stage.app.api(), stage.app.admin());
    let ask = |model: &str, stream: bool, more: &str| {
        format!(
            "  curl -sN http://{api}/v1/chat/completions -d '{{\"model\":\"{model}\",\"stream\":{stream},{more}\
             \"messages\":[{{\"role\":\"user\",\"content\":\"hello\"}}]}}'"
        )
    };
    let tools = format!("\"tools\":[{{\"type\":\"function\",\"function\":{{\"name\":\"{TOOL}\"}}}}],");
    let guarded = scene(GUARDED).map(|_| format!("{} -H 'x-understudy-agent: {GUARDED}'", ask(GUARDED, false, &tools)));
    let asks = [
        ask("steady", false, ""),
        ask("crowded", true, ""),
        ask("torn", true, ""),
    ];
    let asks: Vec<String> = asks.into_iter().chain(guarded).collect();
    format!(
        "\nStill serving. Try:\n{}\n  curl -s http://{admin}/metrics | grep understudy_failover_total\nCtrl-C ends it.",
        asks.join("\n"),
    )
}
