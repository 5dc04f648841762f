//! The settings of the canon.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::decide::{Mode, Rules};
use super::file::is_relative;

/// The most files: more are a mistake.
const MOST_FILES: usize = 64;
const HOUR: Duration = Duration::from_secs(3600);

/// What an operator may say; what is left out is as ever.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Written {
    canon_files: Vec<String>,
    injection_interval: Option<u64>,
    restart_idle_ms: Option<u64>,
    #[serde(rename = "restart_idle")]
    restart_idle: Option<String>,
    log_injections: Option<bool>,
    mode: Mode,
}

/// The settings of one instance.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) files: Vec<String>,
    /// Files that are not read, and why.
    pub(super) warnings: Vec<String>,
    pub(super) rules: Rules,
    pub(super) log: bool,
}

impl Settings {
    /// Reads settings; `null` stands for none.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn read(settings: &Value) -> Result<Self, String> {
        let written = match settings {
            Value::Null => Written::default(),
            Value::Object(_) => Written::deserialize(settings).map_err(|error| error.to_string())?,
            _ => return Err("the settings are no mapping".to_owned()),
        };
        let (files, warnings) = files(written.canon_files)?;
        let idle = match (written.restart_idle_ms, written.restart_idle.as_deref()) {
            (Some(_), Some(_)) => return Err("restartIdleMs and restart_idle say the same: leave one out".to_owned()),
            (Some(milliseconds), None) => Duration::from_millis(milliseconds),
            (None, Some(text)) => duration(text)
                .ok_or_else(|| format!("restart_idle: `{text}` is no duration; write 250ms, 30s, 5m or 6h"))?,
            (None, None) => 6 * HOUR,
        };
        Ok(Self {
            files,
            warnings,
            rules: Rules {
                interval: written.injection_interval.unwrap_or(50),
                idle,
                mode: written.mode,
            },
            log: written.log_injections.unwrap_or(true),
        })
    }
}

fn files(named: Vec<String>) -> Result<(Vec<String>, Vec<String>), String> {
    if named.len() > MOST_FILES {
        return Err(format!("canonFiles names more than {MOST_FILES} files"));
    }
    if let Some(odd) = named.iter().find(|name| name.chars().any(char::is_control)) {
        return Err(format!("canonFiles: {odd:?} has control characters in it"));
    }
    if named.is_empty() {
        return Ok((vec!["AGENTS.md".to_owned()], vec![]));
    }
    let (files, refused): (Vec<_>, Vec<_>) = named.into_iter().partition(|name| is_relative(name));
    let warn = |name: &String| format!("canonFiles: {name:?} is not below the workspace: refused");
    let warnings = refused.iter().map(warn).collect();
    Ok((files, warnings))
}

/// Reads `250ms`, `30s`, `5m` or `6h`.
fn duration(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit())?);
    let factor = match unit.trim() {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    let amount: u64 = digits.parse().ok()?;
    amount.checked_mul(factor).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn without_settings_the_canon_is_agents_md_every_50_turns_and_after_6_hours() {
        for none in [json!(null), json!({}), json!({ "canonFiles": [] })] {
            let settings = Settings::read(&none).expect("settings");
            assert_eq!(settings.files, ["AGENTS.md"]);
            assert_eq!((settings.rules.interval, settings.rules.idle), (50, 6 * HOUR));
            assert_eq!((settings.rules.mode, settings.log), (Mode::Sticky, true));
        }
    }

    #[test]
    fn settings_are_taken_as_they_are_written() {
        let read = |settings| Settings::read(&settings).expect("settings");
        let settings = read(json!({
            "canonFiles": ["a/B.md"], "injectionInterval": 0, "restartIdleMs": 1500, "logInjections": false,
            "mode": "selective",
        }));
        assert_eq!(settings.files, ["a/B.md"]);
        assert_eq!(
            (settings.rules.interval, settings.rules.idle),
            (0, Duration::from_millis(1500))
        );
        assert_eq!((settings.rules.mode, settings.log), (Mode::Selective, false));
        assert_eq!(read(json!({ "restart_idle": "90m" })).rules.idle, 90 * HOUR / 60);
        assert_eq!(read(json!({ "mode": "always" })).rules.mode, Mode::Always);
    }

    #[test]
    fn settings_that_cannot_be_meant_are_refused() {
        for bad in [
            json!([]),
            json!({ "canonfiles": [] }),
            json!({ "canonFiles": "AGENTS.md" }),
            json!({ "canonFiles": ["a\nb"] }),
            json!({ "canonFiles": vec!["a"; 65] }),
            json!({ "injectionInterval": -1 }),
            json!({ "mode": "often" }),
            json!({ "restart_idle": "6" }),
            json!({ "restart_idle": "h" }),
            json!({ "restart_idle": "6 days" }),
            json!({ "restart_idle": "6h", "restartIdleMs": 1 }),
        ] {
            assert!(Settings::read(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_file_that_is_not_below_the_workspace_is_refused_by_name_and_the_others_stay_case_21() {
        let named = json!({ "canonFiles": ["../x", "/etc/passwd", "a/../../x", "", "./A.md"] });
        let settings = Settings::read(&named).expect("settings");
        assert_eq!(settings.files, ["./A.md"]);
        assert_eq!(settings.warnings.len(), 4);
        assert!(settings.warnings[0].contains("../x"));
    }
}
