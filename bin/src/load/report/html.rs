//! The report as one page: style and plots stand in it, and it asks nobody for anything.

use std::fmt::Write;

use super::Report;
use super::plot::{Line, plot};
use super::text::{counts, in_mib, in_ms, number, ordered};
use super::timeline::Timeline;
use crate::load::figures::Figures;

const STYLE: &str = include_str!("page.css");

pub(super) fn of(report: &Report) -> String {
    let title = escaped(&report.scenario);
    let (class, verdict) = match (report.stopped, report.holds) {
        (true, _) => ("bad", "stopped"),
        (false, true) => ("good", "holds"),
        (false, false) => ("bad", "broken"),
    };
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}: {verdict}</title>\n<style>\n{STYLE}</style></head>\n<body>\n\
         <header><h1>{title}</h1><b class=\"{class}\">{verdict}</b></header>\n<p>{}</p>\n",
        escaped(&report.about)
    );
    for caveat in report.caveats() {
        // writing to a string cannot fail
        let _ = writeln!(page, "<p class=\"bad\">{}</p>", escaped(&caveat));
    }
    page.push_str(&expectations(report));
    page.push_str(&figures(report));
    page.push_str("<main>\n");
    page.push_str(&plots(&report.timelines));
    page + "</main>\n</body></html>\n"
}

fn expectations(report: &Report) -> String {
    let row = |it: &super::Outcome| {
        let (class, word) = if it.holds { ("good", "holds") } else { ("bad", "broken") };
        let value = it.value.map_or_else(|| "unknown".to_owned(), number);
        let limit = number(it.limit);
        format!(
            "<tr><th>{}</th><td>{limit}</td><td>{value}</td><td class=\"{class}\">{word}</td></tr>\n",
            it.name
        )
    };
    if report.expectations.is_empty() {
        return String::new();
    }
    let rows: String = report.expectations.iter().map(row).collect();
    format!("<table><tr><th>expected</th><td>limit</td><td>found</td><td></td></tr>\n{rows}</table>\n")
}

/// A column for each gateway, and one for their ratio.
fn figures(report: &Report) -> String {
    type Cell = fn(&Figures) -> String;
    let rows: [(&str, Cell); 15] = [
        ("", |it| format!("{}<br><small>{}</small>", it.name, escaped(&it.url))),
        ("turns", |it| it.turns.to_string()),
        ("whole", |it| it.whole.to_string()),
        ("goodput", |it| format!("{:.1}/s", it.goodput)),
        ("failed over", |it| it.failed_over.to_string()),
        ("errors", |it| counts(it.errors_in_all(), &it.errors)),
        ("lost", |it| counts(it.lost_in_all(), &it.lost)),
        ("left by their clients", |it| it.left.to_string()),
        ("refused after", |it| quantiles(&it.refused_ms)),
        ("turn", |it| quantiles(&it.turn_ms)),
        ("first word", |it| quantiles(&it.first_ms)),
        ("a failover adds", |it| quantiles(&it.failover_ms)),
        ("begun late by", |it| quantiles(&it.late_ms)),
        ("CPU per turn", |it| {
            it.cpu_ms_per_turn.map_or_else(|| "unknown".to_owned(), in_ms)
        }),
        ("memory", |it| {
            it.rss_bytes
                .map_or_else(|| "unknown".to_owned(), |rss| format!("{:.1} MiB", in_mib(rss)))
        }),
    ];
    let mut table = "<table>\n".to_owned();
    for (name, cell) in rows {
        let cells: String = report
            .gateways
            .iter()
            .map(|it| format!("<td>{}</td>", cell(it)))
            .collect();
        // writing to a string cannot fail
        let _ = writeln!(table, "<tr><th>{name}</th>{cells}</tr>");
    }
    for (name, ratio) in report.ratios.iter().flat_map(|ratios| ratios.named()) {
        let _ = writeln!(
            table,
            "<tr><th>{name}, ratio</th><td colspan=\"2\">{ratio:.2} ×</td></tr>"
        );
    }
    table + "</table>\n"
}

fn quantiles(quantiles: &crate::load::figures::Quantiles) -> String {
    let cells = ordered(quantiles).map(|(name, value)| format!("<span><small>{name}</small> {}</span>", in_ms(value)));
    cells.collect::<Vec<_>>().join(" ")
}

fn plots(timelines: &[Timeline]) -> String {
    let mut all = String::new();
    for line in timelines {
        let name = line.gateway;
        let of = |name: &str, colour, values| Line {
            name: name.to_owned(),
            colour,
            values,
        };
        all.push_str(&plot(
            &format!("{name}: turns a second"),
            &line.at,
            &[
                of("begun", 3, &line.begun),
                of("whole", 0, &line.whole),
                of("errors", 1, &line.errors),
                of("lost", 2, &line.lost),
            ],
        ));
        let latency = [of("p99", 1, &line.p99_ms), of("p50", 0, &line.p50_ms)];
        all.push_str(&plot(&format!("{name}: latency in ms"), &line.at, &latency));
        all.push_str(&plot(
            &format!("{name}: busy cores"),
            &line.at,
            &[of("CPU", 0, &line.cpu)],
        ));
        all.push_str(&plot(
            &format!("{name}: memory in MiB"),
            &line.at,
            &[of("RSS", 0, &line.rss_mib)],
        ));
    }
    all
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}
