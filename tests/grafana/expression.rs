//! Whether an expression names only what there is, and makes sense of it.

use promql_parser::parser::{self, Call, Expr};

use crate::catalog::{Catalog, Use};
use crate::labels::{self, Labels};
use crate::selectors;

/// What an expression yields, and what is wrong with it.
pub(crate) struct Checked {
    /// The labels of its series.
    pub(crate) labels: Labels,
    pub(crate) faults: Vec<String>,
    /// What was parsed; `None` where it could not be.
    pub(crate) expr: Option<Expr>,
}

/// Parses an expression, and looks up each name and label in it.
pub(crate) fn check(text: &str, catalog: &Catalog) -> Checked {
    let mut faults = Vec::new();
    let mut labels = Labels::new();
    let parsed = parser::parse(text);
    match &parsed {
        Ok(expr) => {
            labels = labels::of(expr, catalog, &mut faults);
            functions(expr, catalog, &mut faults);
        }
        Err(why) => faults.push(format!("does not parse: {why}: {text}")),
    }
    let expr = parsed.ok();
    Checked { labels, faults, expr }
}

/// Functions that only some series bear.
fn functions(expr: &Expr, catalog: &Catalog, faults: &mut Vec<String>) {
    if let Expr::Call(call) = expr {
        let named = uses(call, catalog);
        let name = call.func.name;
        let suits = |usage: &Use| match name {
            "rate" | "increase" | "irate" | "resets" => *usage != Use::Gauge,
            "deriv" | "delta" | "predict_linear" => *usage == Use::Gauge,
            "histogram_quantile" => *usage == Use::Bucket,
            _ => true,
        };
        let unsuited = named.iter().filter(|(_, usage)| !suits(usage));
        faults.extend(unsuited.map(|(series, usage)| format!("{name} over {series}, which is a {usage:?}")));
    }
    selectors::children(expr).for_each(|child| functions(child, catalog, faults));
}

fn uses(call: &Call, catalog: &Catalog) -> Vec<(String, Use)> {
    let mut named = Vec::new();
    for argument in &call.args.args {
        named.extend(selectors::of(argument));
    }
    let known = named.into_iter().filter_map(|selector| {
        let name = selector.name.clone()?;
        Some((name.clone(), catalog.find(&name)?.usage))
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Vec<String> {
        check(text, &Catalog::new()).faults
    }

    #[test]
    fn what_there_is_passes() {
        for text in [
            "sum by (outcome) (rate(understudy_turns_total{served_by=\"none\"}[5m]))",
            "histogram_quantile(0.9, sum by (le, hook) (rate(understudy_hook_duration_seconds_bucket[5m])))",
            "1 - max(up{job=\"a\"}) or vector(1)",
            "sum by (job) (understudy_sessions) / on (job) group_left () sum by (job) (up)",
        ] {
            assert!(faults(text).is_empty(), "{text}: {:?}", faults(text));
        }
    }

    #[test]
    fn what_there_is_not_is_refused() {
        for text in [
            "sum(rate(understudy_turns_totl[5m]))",
            "sum(rate(understudy_turns_total{otcome=\"ok\"}[5m]))",
            "sum(rate(understudy_turns_total{outcome=\"okay\"}[5m]))",
            "sum(rate(understudy_turns_total{outcome=~\"ok|eror\"}[5m]))",
            "sum by (reason) (rate(understudy_turns_total[5m]))",
            "sum(rate(understudy_sessions[5m]))",
            "histogram_quantile(0.9, sum by (hook) (rate(understudy_hook_duration_seconds_bucket[5m])))",
            "histogram_quantile(0.9, sum by (hook) (rate(understudy_hook_duration_seconds_count[5m])))",
            "sum by (le) (rate(understudy_hook_calls_total[5m]))",
            "understudy_hook_duration_seconds",
            "sum by (job) (understudy_sessions) / sum by (instance) (understudy_sessions)",
            "sum by (job) (understudy_sessions) and on (state) sum by (job) (understudy_sessions)",
            "{job=\"a\"}",
            "sum(rate(understudy_turns_total[5m])",
        ] {
            assert!(!faults(text).is_empty(), "{text}");
        }
    }
}
