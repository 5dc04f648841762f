//! When turns begin.

use std::time::Duration;

use super::super::{Arrivals, Few, Scenario, Spacing, Step};
use super::needed;
use crate::config::field::{Field, Section};

/// Far more than one machine drives.
const MOST_RATE: f64 = 1_000_000.0;

/// Open or closed, and for how long.
pub(super) fn times(keys: &mut Section<'_>, it: &mut Scenario) {
    let (length, think, arrivals) = (keys.key("duration"), keys.key("think"), keys.key("arrivals"));
    it.duration = length.duration();
    it.think = think.duration().unwrap_or_default();
    if arrivals.is_absent() {
        if length.is_absent() && it.turns.is_none() {
            length.refuse("is missing, and so is `turns`", "say how long: duration: 20s");
        }
        return;
    }
    for field in [&length, &think] {
        if !field.is_absent() {
            field.refuse("is not for open loop", "remove it, or remove `arrivals`");
        }
    }
    it.arrivals = Some(self::arrivals(&arrivals));
}

fn arrivals(field: &Field<'_>) -> Arrivals {
    let (mut steps, mut spacing) = (Vec::new(), Spacing::Even);
    field.section(|keys| {
        let listed = keys.key("steps");
        steps = listed.items().iter().map(step).collect();
        if steps.is_empty() || steps.len() > *Few::RANGE.end() as usize {
            listed.refuse("has none, or more than 100", "write steps: [{ rate: 100, lasts: 20s }]");
        }
        spacing = keys.key("spacing").choice().unwrap_or(spacing);
    });
    Arrivals { steps, spacing }
}

fn step(field: &Field<'_>) -> Step {
    let mut step = Step {
        rate: 1.0,
        lasts: Duration::ZERO,
    };
    field.section(|keys| {
        let rate = keys.key("rate");
        match rate.decimal() {
            Some(number) if number > 0.0 && number <= MOST_RATE => step.rate = number,
            Some(_) => rate.refuse("is not more than zero and at most a million", "write turns in a second"),
            None => needed(&rate, "write turns in a second"),
        }
        let lasts = keys.key("lasts");
        step.lasts = lasts.duration().unwrap_or_default();
        needed(&lasts, "say how long: 20s");
    });
    step
}
