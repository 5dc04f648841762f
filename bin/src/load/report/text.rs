//! The report as text.

use std::fmt::Write;

use super::Report;
use crate::load::figures::{Figures, Quantiles};

/// How many refused reloads are told.
const TOLD: usize = 3;

pub(super) fn of(report: &Report) -> String {
    let mut text = format!("{}\n", report.scenario);
    if !report.about.is_empty() {
        text = format!("{}: {}\n", report.scenario, report.about);
    }
    for figures in &report.gateways {
        gateway(&mut text, figures);
    }
    // writing to a string cannot fail
    if let Some(ratios) = &report.ratios {
        let ratios = ratios.named().map(|(name, ratio)| format!("{name} {ratio:.2} ×"));
        let _ = writeln!(text, "\nAgainst the other: {}", ratios.collect::<Vec<_>>().join(", "));
    }
    for caveat in report.caveats() {
        let _ = writeln!(text, "\n{caveat}");
    }
    expectations(&mut text, report);
    text.trim_end().to_owned()
}

fn gateway(text: &mut String, it: &Figures) {
    let noun = if it.rounds == 1 { "round" } else { "rounds" };
    // writing to a string cannot fail
    let _ = writeln!(
        text,
        "\n{} {} ({} {noun}, {:.1} s)",
        it.name, it.url, it.rounds, it.seconds
    );
    turns(text, it);
    for (name, quantiles) in [
        ("turn", &it.turn_ms),
        ("first", &it.first_ms),
        ("failover", &it.failover_ms),
        ("late", &it.late_ms),
    ] {
        if !quantiles.is_empty() {
            let _ = writeln!(text, "  {name:<8} {}", in_line(quantiles));
        }
    }
    if it.steps.len() > 1 {
        let steps: Vec<String> = it.steps.iter().map(|goodput| format!("{goodput:.1}/s")).collect();
        let _ = writeln!(text, "  steps    {}", steps.join(", "));
    }
    costs(text, it);
}

fn turns(text: &mut String, it: &Figures) {
    // writing to a string cannot fail
    let _ = writeln!(
        text,
        "  turns    {} begun, {} whole ({:.1}/s), {} failed over",
        it.turns, it.whole, it.goodput, it.failed_over
    );
    let _ = writeln!(text, "  errors   {}", counts(it.errors_in_all(), &it.errors));
    let _ = writeln!(text, "  lost     {}", counts(it.lost_in_all(), &it.lost));
    if it.left > 0 {
        let _ = writeln!(text, "  left     {} by clients that did not wait", it.left);
    }
    if it.refused > 0 {
        let (times, without) = (in_line(&it.refused_ms), it.refused_without_retry_after);
        let _ = writeln!(
            text,
            "  refused  {} times, {without} without Retry-After, after {times}",
            it.refused
        );
    }
    if it.not_begun > 0 {
        let _ = writeln!(
            text,
            "  waiting  {} were due and not begun: nobody answered fast enough",
            it.not_begun
        );
    }
}

/// What it took: of the gateway, for reloads, of the driver.
fn costs(text: &mut String, it: &Figures) {
    let cpu = it.cpu_ms_per_turn.map(|cpu| format!("{cpu:.3} ms CPU per turn"));
    let rss = it.rss_bytes.map(|rss| format!("{:.1} MiB at most", in_mib(rss)));
    let used: Vec<String> = cpu.into_iter().chain(rss).collect();
    // writing to a string cannot fail
    if !used.is_empty() {
        let _ = writeln!(text, "  gateway  {}", used.join(", "));
    }
    if let Some(reloads) = &it.reloads {
        let (applied, refused, longest) = (reloads.applied, reloads.refused, reloads.longest_ms);
        let _ = writeln!(
            text,
            "  reloads  {applied} applied, {refused} refused, the longest {longest:.0} ms"
        );
        for why in reloads.why.iter().take(TOLD) {
            let _ = writeln!(text, "           {why}");
        }
    }
    let (share, cpu) = (it.driver.cpu_share * 100.0, it.driver.cpu_us_per_turn);
    let lag = it.driver.lag_ms.get("p99").copied().unwrap_or_default();
    let _ = writeln!(
        text,
        "  driver   {share:.0} % of a core, {cpu:.0} µs CPU per turn, wakes {lag:.1} ms late (p99)"
    );
}

fn expectations(text: &mut String, report: &Report) {
    text.push('\n');
    // writing to a string cannot fail
    for outcome in &report.expectations {
        let word = if outcome.holds { "holds " } else { "BROKEN" };
        let value = outcome.value.map_or_else(|| "unknown".to_owned(), number);
        let _ = writeln!(text, "{word} {} {}: {value}", outcome.name, number(outcome.limit));
    }
    text.push_str(match (report.stopped, report.holds) {
        (true, _) => "It was stopped before its end.",
        (false, true) if report.expectations.is_empty() => "Nothing was expected.",
        (false, true) => "Everything holds.",
        (false, false) => "Not everything holds.",
    });
}

/// A sum and what it is made of.
pub(super) fn counts<K: AsRef<str>>(sum: u64, kinds: &std::collections::BTreeMap<K, u64>) -> String {
    let kinds: Vec<String> = kinds
        .iter()
        .map(|(kind, count)| format!("{}: {count}", kind.as_ref()))
        .collect();
    match kinds.is_empty() {
        true => sum.to_string(),
        false => format!("{sum} ({})", kinds.join(", ")),
    }
}

fn in_line(quantiles: &Quantiles) -> String {
    let named = ordered(quantiles).map(|(name, value)| format!("{name} {}", in_ms(value)));
    named.collect::<Vec<_>>().join("  ")
}

/// By rank, not by name.
pub(super) fn ordered(quantiles: &Quantiles) -> impl Iterator<Item = (&'static str, f64)> {
    let names = ["p50", "p90", "p95", "p99", "p99.9", "max"];
    names.into_iter().filter_map(|name| Some((name, *quantiles.get(name)?)))
}

/// With as many digits as mean something.
pub(super) fn in_ms(value: f64) -> String {
    match value {
        value if value < 0.0005 => "0 ms".to_owned(),
        value if value < 1.0 => format!("{value:.3} ms"),
        value if value < 100.0 => format!("{value:.1} ms"),
        value => format!("{value:.0} ms"),
    }
}

/// A figure of an expectation: whole where it is.
pub(super) fn number(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
    }
}

/// Bytes as people count them.
pub(super) fn in_mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
