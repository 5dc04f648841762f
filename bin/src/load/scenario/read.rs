//! From a file to a scenario that can be played, or to everything that is wrong with it.

use std::time::Duration;

use serde_json::json;
use understudy_messages::ids::ModelRef;
use understudy_messages::settings::Api;

use super::words::{Check, Format, Mode, Spacing};
use super::{Arrivals, Client, Fault, Few, Reloads, Scenario, Some0, Step, Upstream, expect};
use crate::config::field::{Field, Reading, Section};
use crate::config::{ConfigError, Environment, Problem, ServerConfig, raw};
use crate::load::plan;

/// Far more than one machine drives.
const MOST_SESSIONS: u32 = 10_000_000;
/// As many as an address has ports, but for those that the system keeps.
const MOST_CONNECTIONS: u32 = 60_000;
const MOST_RATE: f64 = 1_000_000.0;
/// The most tokens of nothing in particular: a message that is longer tests nothing new.
const LONGEST: usize = 16 << 20;

/// Reads a scenario.
///
/// # Errors
/// [`ConfigError::Invalid`] with every problem, those of the gateway's own settings below `gateway`.
pub(crate) fn parse(text: &str, env: &Environment<'_>) -> Result<Scenario, ConfigError> {
    let root = raw::parse(text)?;
    let reading = Reading::new(env);
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
        times(keys, &mut it);
        client(&keys.key("client"), &mut it.client);
        it.upstreams = upstreams(&keys.key("upstreams"));
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

/// Open or closed, and for how long.
fn times(keys: &mut Section<'_>, it: &mut Scenario) {
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

fn client(field: &Field<'_>, client: &mut Client) {
    field.section(|keys| {
        client.format = keys.key("format").choice().unwrap_or(client.format);
        client.stream = keys.key("stream").choice().unwrap_or(client.stream);
        if let Some(model) = keys.key("model").text() {
            client.model = model.value;
        }
        client.agent = keys.key("agent").text().map(|agent| agent.value);
        client.prompt = size(&keys.key("prompt")).unwrap_or(client.prompt);
        let (history, tool) = (keys.key("history"), keys.key("tool"));
        client.history = history.whole(Some0::RANGE).unwrap_or_default();
        client.tool = tool.flag().unwrap_or_default();
        client.check = keys.key("check").choice().unwrap_or(client.check);
        for field in [history, tool] {
            if client.format == Format::Native && !field.is_absent() {
                field.refuse(
                    "is not for the native API",
                    "remove it: the gateway keeps the transcript and has the tools",
                );
            }
        }
    });
}

fn upstreams(field: &Field<'_>) -> Vec<(String, Upstream)> {
    let mut upstreams: Vec<(String, Upstream)> = Vec::new();
    for (name, entry) in field.entries() {
        let upstream = upstream(&entry);
        let Some(target) = ModelRef::parse(&name) else {
            entry.refuse("is not named `provider/model`", "name it like aurora/lead");
            continue;
        };
        let provider = format!("{}/", target.provider);
        let other = |(name, it): &&(String, Upstream)| name.starts_with(&provider) && it.api != upstream.api;
        if upstreams.iter().find(other).is_some() {
            entry.refuse(
                "speaks another wire format than this provider's other models",
                "name another provider",
            );
        }
        upstreams.push((name.to_string(), upstream));
    }
    upstreams
}

fn upstream(field: &Field<'_>) -> Upstream {
    let mut it = Upstream::default();
    field.section(|keys| {
        it.api = keys.key("api").choice().unwrap_or(it.api);
        it.answer = size(&keys.key("answer")).unwrap_or(it.answer);
        it.chunks = keys.key("chunks").whole(Few::RANGE).unwrap_or(it.chunks);
        it.first = duration(keys, "first");
        it.every = duration(keys, "every");
        it.tool_calls = keys.key("tool_calls").whole(Some0::RANGE).unwrap_or_default();
        it.faults = faults(&keys.key("faults"));
    });
    it
}

/// In the order of their times, none within another.
fn faults(field: &Field<'_>) -> Vec<Fault> {
    let mut end = Some(Duration::ZERO);
    let mut faults = Vec::new();
    for item in field.items() {
        item.section(|keys| {
            let what = keys.key("what");
            needed(&what, "say what goes wrong: overloaded");
            let (from, lasts) = (duration(keys, "from"), keys.key("lasts").duration());
            if end.is_none_or(|end| from < end) {
                item.refuse(
                    "begins before the one above it has ended",
                    "give them their order, and `lasts`",
                );
            }
            end = lasts.map(|lasts| from + lasts);
            faults.extend(what.choice().map(|what| Fault { from, lasts, what }));
        });
    }
    faults
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

fn needed(field: &Field<'_>, fix: &str) {
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

impl Default for Scenario {
    fn default() -> Self {
        Self {
            about: String::new(),
            sessions: 100,
            turns: None,
            duration: None,
            arrivals: None,
            think: Duration::ZERO,
            ramp: Duration::ZERO,
            warm_up: Duration::ZERO,
            connections: 1000,
            timeout: Duration::from_secs(60),
            rounds: None,
            client: Client::default(),
            upstreams: Vec::new(),
            gateway: json!({}),
            reloads: None,
            expect: expect::Expect::default(),
        }
    }
}

impl Default for Client {
    fn default() -> Self {
        Self {
            format: Format::Chat,
            stream: Mode::Always,
            model: plan::MODEL.to_owned(),
            agent: None,
            prompt: 100,
            history: 0,
            tool: false,
            check: Check::Echo,
        }
    }
}

impl Default for Upstream {
    fn default() -> Self {
        Self {
            api: Api::OpenaiChat,
            answer: 200,
            chunks: 4,
            first: Duration::ZERO,
            every: Duration::ZERO,
            tool_calls: 0,
            faults: Vec::new(),
        }
    }
}
