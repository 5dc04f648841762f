//! What a scenario says. The doc comments here are the descriptions that its schema gives to editors.

use std::time::Duration;

use schemars::JsonSchema;
use serde_json::Value;
use understudy_messages::settings::Api;

use crate::config::document::{Bytes, Count, Decimal, Entries, Flag, Time, Whole, Word};
use crate::config::schema::schema_of;

mod defaults;
mod expect;
mod length;
mod read;
mod rest;
#[cfg(test)]
mod tests;
mod words;

pub(crate) use expect::Expect;
pub(crate) use read::parse;
pub(crate) use rest::Left;
pub(crate) use words::{Check, Format, Mode, Spacing, Trouble};

/// The most upstream steps, faults and rounds that a scenario may have.
pub(crate) type Few = Whole<1, 100>;
/// One turn in so many.
pub(crate) type OneIn = Whole<1, 1_000_000>;
/// None, or some.
pub(crate) type Some0 = Whole<0, 1_000>;

/// A scenario of the load generator: who asks, what, how often, what goes wrong meanwhile, and what has to hold.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields, title = "scenario of understudy load")]
pub(crate) struct Scenario {
    /// What it is for, in a sentence.
    #[schemars(with = "Option<String>")]
    pub(crate) about: String,
    /// How many conversations there are (default 100).
    #[schemars(with = "Option<Count>")]
    pub(crate) sessions: u32,
    /// How many turns each of them takes at most; without it as many as there is time for.
    #[schemars(with = "Option<Count>")]
    pub(crate) turns: Option<u32>,
    /// How long turns begin. Without `arrivals` this or `turns` must be there; with them it is the sum of their steps.
    #[schemars(with = "Option<Time>")]
    pub(crate) duration: Option<Duration>,
    /// When turns arrive, whether or not earlier ones were answered (open loop). Without it each session asks again once it has
    /// its answer (closed loop).
    pub(crate) arrivals: Option<Arrivals>,
    /// How long a session waits between an answer and its next turn; closed loop only (default none).
    #[schemars(with = "Option<Time>")]
    pub(crate) think: Duration,
    /// Over how long the load grows from nothing (default none).
    #[schemars(with = "Option<Time>")]
    pub(crate) ramp: Duration,
    /// Turns that are due before this are checked, and not measured (default none).
    #[schemars(with = "Option<Time>")]
    pub(crate) warm_up: Duration,
    /// The most connections, so the most turns at one time (default 1000, at most one for each session).
    #[schemars(with = "Option<Count>")]
    pub(crate) connections: u32,
    /// A turn without its whole answer after this is lost (default 60s).
    #[schemars(with = "Option<Time>")]
    pub(crate) timeout: Duration,
    /// How often everything is played; with two gateways they take turns (default 1, with two 3).
    #[schemars(with = "Option<Few>")]
    pub(crate) rounds: Option<u32>,
    /// What clients send, and what they look at.
    #[schemars(with = "Option<Client>")]
    pub(crate) client: Client,
    /// The simulated upstreams by `provider/model`, in the order of the chain behind the model `main`. Without any, one answers
    /// at once.
    #[schemars(with = "Option<Entries<Upstream>>")]
    pub(crate) upstreams: Vec<(String, Upstream)>,
    /// More of the configuration of the gateway that is started, as in `understudy.yaml`; what stands here wins.
    #[schemars(with = "Option<serde_json::Map<String, Value>>")]
    pub(crate) gateway: Value,
    /// What is reloaded meanwhile, in the gateway that is started.
    pub(crate) reloads: Option<Reloads>,
    /// What has to hold; otherwise the command ends with 1.
    #[schemars(with = "Option<Expect>")]
    pub(crate) expect: Expect,
}

/// When turns arrive.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Arrivals {
    /// One stretch of time after the other.
    pub(crate) steps: Vec<Step>,
    /// Whether turns are as far apart as the rate says, or come at random with that mean (default even).
    #[schemars(with = "Option<Word<Spacing>>")]
    pub(crate) spacing: Spacing,
}

/// A stretch of time with one rate.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Step {
    /// Turns in a second.
    #[schemars(with = "Decimal")]
    pub(crate) rate: f64,
    /// How long.
    #[schemars(with = "Time")]
    pub(crate) lasts: Duration,
}

/// What clients send, and what they look at.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Client {
    /// The API that is spoken (default chat).
    #[schemars(with = "Option<Word<Format>>")]
    pub(crate) format: Format,
    /// Whether answers are streamed: always, never or every other one (default always).
    #[schemars(with = "Option<Word<Mode>>")]
    pub(crate) stream: Mode,
    /// The model that is asked for (default `main`, the chain of the upstreams).
    #[schemars(with = "Option<String>")]
    pub(crate) model: String,
    /// The agent that is asked for.
    #[schemars(with = "Option<String>")]
    pub(crate) agent: Option<String>,
    /// How long each message is (default 100B).
    #[schemars(with = "Option<Bytes>")]
    pub(crate) prompt: usize,
    /// How many older messages come with each turn; not with the native API (default none).
    #[schemars(with = "Option<Some0>")]
    pub(crate) history: u32,
    /// Whether a tool is offered; not with the native API (default false).
    #[schemars(with = "Option<Flag>")]
    pub(crate) tool: bool,
    /// Whether each answer must be the one to its own turn, to the last byte, as the simulator makes them, or only well-formed
    /// and ended (default echo).
    #[schemars(with = "Option<Word<Check>>")]
    pub(crate) check: Check,
    /// How often a client that is refused (429 or 503) comes back, each time when it was told to (default never).
    #[schemars(with = "Option<Some0>")]
    pub(crate) retries: u32,
    /// After so many turns a session goes by another name, as if it were a new one (default never).
    #[schemars(with = "Option<Count>")]
    pub(crate) renew: Option<u32>,
    /// Clients that go away without waiting for their answer; their turns are neither whole nor lost.
    pub(crate) leaves: Option<Leaves>,
    /// Clients that take their time to read; their latencies are not measured.
    pub(crate) slow: Option<Slow>,
}

/// Who goes away, and when.
#[derive(Clone, Copy, Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Leaves {
    /// One turn in so many.
    #[schemars(with = "OneIn")]
    pub(crate) one_in: u32,
    /// How long after its turn was begun; who has the answer by then stays.
    #[schemars(with = "Time")]
    pub(crate) after: Duration,
}

/// Who reads slowly, and how.
#[derive(Clone, Copy, Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Slow {
    /// One turn in so many.
    #[schemars(with = "OneIn")]
    pub(crate) one_in: u32,
    /// The pause behind each piece that is read.
    #[schemars(with = "Time")]
    pub(crate) every: Duration,
}

/// A simulated upstream.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Upstream {
    /// The wire format that it is asked in (default openai-chat).
    #[schemars(with = "Option<Word<Api>>")]
    pub(crate) api: Api,
    /// How long its answers are (default 200B).
    #[schemars(with = "Option<Bytes>")]
    pub(crate) answer: usize,
    /// In how many pieces a streamed answer comes (default 4).
    #[schemars(with = "Option<Few>")]
    pub(crate) chunks: u32,
    /// How long before the first of them (default none).
    #[schemars(with = "Option<Time>")]
    pub(crate) first: Duration,
    /// How long between them (default none).
    #[schemars(with = "Option<Time>")]
    pub(crate) every: Duration,
    /// How many tools it calls after its text (default none).
    #[schemars(with = "Option<Some0>")]
    pub(crate) tool_calls: u32,
    /// What goes wrong, and when; counted from the beginning of each round.
    #[schemars(with = "Option<Vec<Fault>>")]
    pub(crate) faults: Vec<Fault>,
}

/// A stretch of time in which an upstream does not answer as it should.
#[derive(Clone, Copy, Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Fault {
    /// When it begins (default at once).
    #[schemars(with = "Option<Time>")]
    pub(crate) from: Duration,
    /// How long it lasts; without it to the end.
    #[schemars(with = "Option<Time>")]
    pub(crate) lasts: Option<Duration>,
    /// What goes wrong.
    #[schemars(with = "Word<Trouble>")]
    pub(crate) what: Trouble,
}

/// What is reloaded, and how often.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Reloads {
    /// The time between the end of one reload and the next.
    #[schemars(with = "Time")]
    pub(crate) every: Duration,
    /// The plugins that are replaced, by id. Without any the configuration is changed.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) plugins: Vec<String>,
}

/// The JSON Schema of scenarios.
pub(crate) fn schema() -> Value {
    schema_of::<Scenario>()
}
