//! Calls of tools that run here, and those that were kept from running.

use std::time::Duration;

use understudy_messages::tools::{ToolOutcome, ToolSpec};

use super::{OTHER, TOOL_CALLS, TOOL_DURATION, Telemetry};

impl Telemetry {
    /// Touches every series of these tools.
    pub fn install_tools(&self, tools: &[ToolSpec]) {
        let names = tools.iter().map(|tool| &*tool.name).chain([OTHER]);
        for name in names {
            for outcome in ToolOutcome::ALL {
                let labels = [("tool", name), ("outcome", outcome.as_label())];
                let _in_the_scrape = self.series.touched(&TOOL_CALLS, &labels);
            }
            let _in_the_scrape = self.series.histogram(&TOOL_DURATION, &[("tool", name)]);
        }
    }

    /// A call of a tool has ended. `tool` is one that runs here; a name that only a model has said is `None`.
    pub fn tool_called(&self, tool: Option<&ToolSpec>, outcome: ToolOutcome, ran: Option<Duration>) {
        let name = tool.map_or(OTHER, |tool| &*tool.name);
        let labels = [("tool", name), ("outcome", outcome.as_label())];
        self.series.counter(&TOOL_CALLS, &labels).increment(1);
        if let Some(took) = ran {
            self.series.histogram(&TOOL_DURATION, &labels[..1]).record(took);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_only_a_model_has_said_is_other() {
        let telemetry = Telemetry::new().expect("a recorder");
        let read = ToolSpec {
            name: "read".into(),
            plugin: "p".into(),
            description: None,
            parameters: None,
            replay_safe: true,
        };
        telemetry.install_tools(std::slice::from_ref(&read));
        telemetry.tool_called(Some(&read), ToolOutcome::Ok, Some(Duration::from_millis(3)));
        telemetry.tool_called(None, ToolOutcome::Blocked, None);
        let scrape = telemetry.render();
        for line in [
            "understudy_tool_calls_total{tool=\"read\",outcome=\"ok\"} 1",
            "understudy_tool_calls_total{tool=\"read\",outcome=\"timeout\"} 0",
            "understudy_tool_calls_total{tool=\"other\",outcome=\"blocked\"} 1",
            "understudy_tool_duration_seconds_count{tool=\"read\"} 1",
        ] {
            assert!(scrape.contains(line), "{line}\n{scrape}");
        }
    }
}
