//! The schema of a plugin's settings.

use std::fmt;
use std::sync::Arc;

use jsonschema::Validator;
use serde_json::Value;

/// How many problems of one plugin's settings are told.
const MOST_PROBLEMS: usize = 20;

/// What the settings of a plugin have to look like. It reaches for nothing outside of itself.
#[derive(Clone)]
pub struct ConfigSchema(Arc<Validator>);

/// Settings that their schema refuses: places and rules, never values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct SettingsError(pub Vec<String>);

impl ConfigSchema {
    /// Makes a check of a schema.
    ///
    /// # Errors
    /// What is wrong with the schema.
    pub fn new(schema: &Value) -> Result<Self, String> {
        if !schema.is_object() {
            return Err("has a configSchema that is no object".to_owned());
        }
        let made = jsonschema::options().build(schema);
        let made = made.map_err(|why| format!("has a configSchema that is none: {}", why.masked()))?;
        Ok(Self(Arc::new(made)))
    }

    /// Checks settings.
    ///
    /// # Errors
    /// All that is wrong with them, up to a bound.
    pub fn check(&self, settings: &Value) -> Result<(), SettingsError> {
        // settings may hold secrets: what stands at a place is not repeated
        let told = |problem: jsonschema::ValidationError<'_>| {
            let place = problem.instance_path().to_string();
            let place = if place.is_empty() { "config" } else { &place };
            format!("{place}: {}", problem.masked_with("the value"))
        };
        let problems: Vec<String> = self.0.iter_errors(settings).take(MOST_PROBLEMS).map(told).collect();
        if problems.is_empty() {
            Ok(())
        } else {
            Err(SettingsError(problems))
        }
    }
}

impl fmt::Debug for ConfigSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConfigSchema")
    }
}
