//! From a file to a scenario that can be played, or to everything that is wrong with it.

use std::time::Duration;

use serde_json::json;

use super::{Few, Reloads, Scenario, expect};
use crate::config::compiled::Compiled;
use crate::config::field::{Field, Reading, Section};
use crate::config::{ConfigError, Environment, Problem, ServerConfig, raw};
use crate::load::plan;

mod clients;
mod times;
mod upstreams;

/// Far more than one machine drives.
const MOST_SESSIONS: u32 = 10_000_000;
/// As many as an address has ports, but for those that the system keeps.
const MOST_CONNECTIONS: u32 = 60_000;
/// A message that is longer tests nothing new.
const LONGEST: usize = 16 << 20;

/// Reads a scenario.
///
/// # Errors
/// [`ConfigError::Invalid`] with every problem, those of the gateway's own settings below `gateway`.
pub(crate) fn parse(text: &str, env: &Environment<'_>) -> Result<Scenario, ConfigError> {
    let root = raw::parse(text)?;
    let compiled = Compiled::default();
    let reading = Reading::new(env, None, &compiled);
    let scenario = scenario(&reading.root(&root));
    let mut problems = reading.into_problems();
    if problems.is_empty() {
        problems = of_the_gateway(&scenario);
    }
    match problems.is_empty() {
        true => Ok(scenario),
        false => Err(ConfigError::Invalid(problems)),
    }
}

/// What the gateway would refuse to start with.
fn of_the_gateway(scenario: &Scenario) -> Vec<Problem> {
    let nowhere = ([127, 0, 0, 1], 1).into();
    let config = plan::configuration(scenario, nowhere).to_string();
    let Err(ConfigError::Invalid(mut problems)) = ServerConfig::parse(&config, &|_| None) else {
        return Vec::new();
    };
    for problem in &mut problems {
        problem.path = format!("gateway.{}", problem.path);
        (problem.line, problem.column) = (None, None);
    }
    problems
}

fn scenario(root: &Field<'_>) -> Scenario {
    let mut it = Scenario::default();
    root.section(|keys| {
        it.about = keys.key("about").text().map(|text| text.value).unwrap_or_default();
        it.sessions = up_to(&keys.key("sessions"), MOST_SESSIONS).unwrap_or(it.sessions);
        it.turns = up_to(&keys.key("turns"), MOST_SESSIONS);
        it.ramp = duration(keys, "ramp");
        it.warm_up = duration(keys, "warm_up");
        it.timeout = keys.key("timeout").duration().unwrap_or(it.timeout);
        it.connections = up_to(&keys.key("connections"), MOST_CONNECTIONS).unwrap_or(it.connections);
        it.rounds = keys.key("rounds").whole(Few::RANGE);
        times::times(keys, &mut it);
        clients::client(&keys.key("client"), &mut it.client);
        it.upstreams = upstreams::upstreams(&keys.key("upstreams"));
        it.gateway = keys
            .key("gateway")
            .own_settings()
            .map_or_else(|| json!({}), |own| own.value);
        let reloads = keys.key("reloads");
        it.reloads = (!reloads.is_absent()).then(|| self::reloads(&reloads));
        expect::read(&keys.key("expect"), &mut it.expect);
    });
    it.connections = it.connections.min(it.sessions);
    it
}

fn reloads(field: &Field<'_>) -> Reloads {
    let mut reloads = Reloads {
        every: Duration::from_secs(1),
        plugins: Vec::new(),
    };
    field.section(|keys| {
        let every = keys.key("every");
        needed(&every, "say how long after each other: 2s");
        reloads.every = every.duration().unwrap_or(reloads.every);
        let plugins = keys.key("plugins").items();
        let ids = plugins
            .iter()
            .filter_map(|item| item.required_text("write the id of a plugin"));
        reloads.plugins = ids.map(|id| id.value).collect();
    });
    reloads
}

pub(super) fn needed(field: &Field<'_>, fix: &str) {
    if field.is_absent() {
        field.refuse("is missing", fix);
    }
}

fn duration(keys: &mut Section<'_>, name: &'static str) -> Duration {
    keys.key(name).duration().unwrap_or_default()
}

fn size(field: &Field<'_>) -> Option<usize> {
    let size = field.size()?;
    if size > LONGEST {
        field.refuse("is more than 16MiB", "write less");
        return None;
    }
    Some(size)
}

fn up_to(field: &Field<'_>, most: u32) -> Option<u32> {
    let count = field.count()?;
    let within = u32::try_from(count).ok().filter(|count| *count <= most);
    if within.is_none() {
        field.refuse(format!("is more than {most}"), "write less");
    }
    within
}
