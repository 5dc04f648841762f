//! How long a scenario takes, and the same one in less time, or in more.

use std::time::Duration;

use super::Scenario;

/// It takes as long as its turns need.
#[derive(Debug, thiserror::Error)]
#[error("this scenario says how many turns are taken and not how long: it cannot be played in a given time")]
pub(crate) struct NoLength;

impl Scenario {
    /// How long turns begin, where that is known.
    pub(crate) fn length(&self) -> Option<Duration> {
        match &self.arrivals {
            Some(arrivals) => Some(arrivals.steps.iter().map(|step| step.lasts).sum()),
            None => self.duration,
        }
    }

    /// The same in this time: whatever has its moment or its length in the scenario comes sooner or later by as much. Rates, and
    /// what clients, upstreams and gateway wait for, stay as they are.
    ///
    /// # Errors
    /// It has no length.
    pub(crate) fn lasting(mut self, time: Duration) -> Result<Self, NoLength> {
        let length = self.length().filter(|length| !length.is_zero()).ok_or(NoLength)?;
        let by = time.div_duration_f64(length);
        let scale = |time: &mut Duration| *time = Duration::try_from_secs_f64(time.as_secs_f64() * by).unwrap_or(*time);
        let steps = self.arrivals.iter_mut().flat_map(|arrivals| &mut arrivals.steps);
        steps.for_each(|step| scale(&mut step.lasts));
        self.duration.iter_mut().for_each(scale);
        [&mut self.ramp, &mut self.warm_up].into_iter().for_each(scale);
        for fault in self.upstreams.iter_mut().flat_map(|(_, upstream)| &mut upstream.faults) {
            scale(&mut fault.from);
            fault.lasts.iter_mut().for_each(scale);
        }
        self.reloads.iter_mut().for_each(|reloads| scale(&mut reloads.every));
        let growth = self.expect.max_rss_growth.iter_mut();
        growth.for_each(|growth| scale(&mut growth.from));
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use crate::load::scenario::parse;

    use super::*;

    fn lasting(text: &str, seconds: u64) -> Result<Scenario, NoLength> {
        let scenario = parse(text, &|_| None).expect("is valid");
        scenario.lasting(Duration::from_secs(seconds))
    }

    #[test]
    fn a_scenario_is_played_in_another_time_with_everything_at_the_same_part_of_it() {
        let text = "arrivals: { steps: [{ rate: 5, lasts: 10m }, { rate: 9, lasts: 20m }] }\nramp: 1m\nwarm_up: 2m\n\
                    upstreams: { a/m: { first: 50ms, faults: [{ from: 3m, lasts: 20s, what: cut }, { from: 9m, what: reset }] } }\n\
                    reloads: { every: 30s }\nexpect: { max_rss_growth: { from: 5m, ratio: 1.05 } }";
        let it = lasting(text, 180).expect("has a length");
        assert_eq!(it.length(), Some(Duration::from_secs(180)));
        let steps = it.arrivals.expect("is open").steps;
        assert_eq!((steps[0].rate, steps[0].lasts), (5.0, Duration::from_secs(60)));
        assert_eq!((it.ramp, it.warm_up), (Duration::from_secs(6), Duration::from_secs(12)));
        let upstream = &it.upstreams[0].1;
        assert_eq!(upstream.first, Duration::from_millis(50), "what upstreams take stays");
        let faults: Vec<_> = upstream.faults.iter().map(|fault| (fault.from, fault.lasts)).collect();
        let seconds = Duration::from_secs;
        assert_eq!(faults, [(seconds(18), Some(seconds(2))), (seconds(54), None)]);
        assert_eq!(it.reloads.expect("are wanted").every, seconds(3));
        assert_eq!(it.expect.max_rss_growth.expect("is expected").from, seconds(30));
        let closed = lasting("duration: 20s\nthink: 1s", 10).expect("has a length");
        assert_eq!((closed.duration, closed.think), (Some(seconds(10)), seconds(1)));
    }

    #[test]
    fn one_that_only_counts_turns_has_no_time_to_be_played_in() {
        assert!(lasting("turns: 3", 10).is_err());
    }
}
