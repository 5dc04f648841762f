//! The sections whose every key has a default: it stands in the schema and is what the reader starts from.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::Serialize;
use tracing::level_filters::LevelFilter;
use understudy_messages::settings::{self, BreakerSettings, Durability, RetrySettings, SessionSettings, Timeouts};

use super::{Attempts, Bytes, Count, Queue, Retries, Time, Word};
use crate::config::{LogFormat, LogSettings, ServerConfig, Store};

/// Where the gateway listens: an IP address and a port each.
#[derive(Serialize, JsonSchema)]
#[schemars(default, deny_unknown_fields)]
pub(crate) struct Listen {
    /// Where clients connect.
    #[schemars(with = "String")]
    pub(crate) api: SocketAddr,
    /// Where operators and Prometheus connect.
    #[schemars(with = "String")]
    pub(crate) admin: SocketAddr,
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            api: ServerConfig::API,
            admin: ServerConfig::ADMIN,
        }
    }
}

/// What is logged, and how.
#[derive(Serialize, JsonSchema)]
#[schemars(default, deny_unknown_fields)]
pub(crate) struct Log {
    /// The least severe level that is written.
    pub(crate) level: Word<LevelFilter>,
    /// The shape of a line: for people, or one JSON object.
    pub(crate) format: Word<LogFormat>,
}

impl From<LogSettings> for Log {
    fn from(log: LogSettings) -> Self {
        Self {
            level: Word(log.level),
            format: Word(log.format),
        }
    }
}

/// What outlives the process, and where.
#[derive(Serialize, JsonSchema)]
#[schemars(default, deny_unknown_fields)]
pub(crate) struct State {
    /// What holds it: a file, or memory that ends with the process.
    pub(crate) store: Word<Store>,
    /// The folder, which one process uses; without it `$STATE_DIRECTORY`, else `understudy` in `$XDG_STATE_HOME` or
    /// `~/.local/state`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dir: Option<String>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            store: Word(Store::default()),
            dir: None,
        }
    }
}

/// What holds unless an agent or a model says otherwise.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(default, deny_unknown_fields)]
pub(crate) struct Defaults {
    /// Sessions and their queues.
    pub(crate) session: Session,
    /// When the same model is asked again.
    pub(crate) retry: Retry,
    /// When a model is left alone.
    pub(crate) breaker: Breaker,
    /// How long attempts and turns may take.
    pub(crate) timeouts: TimeLimits,
    /// Sizes and counts that are refused beyond.
    pub(crate) limits: Limits,
}

/// Sessions and their queues.
#[derive(Serialize, JsonSchema)]
#[schemars(default, deny_unknown_fields)]
pub(crate) struct Session {
    /// How long a turn may wait behind another of its session.
    pub(crate) queue_wait: Time,
    /// How long a session without work stays in memory. Where sessions are stored it comes back when somebody asks for it,
    /// else it is forgotten.
    pub(crate) idle: Time,
    /// How long a session is kept after its last turn.
    pub(crate) ttl: Time,
    /// When a turn counts as kept: on the disk before its client reads the end (`turn`), every `interval`, or never: sessions
    /// end with the process (`off`). Without a state directory they do so too.
    pub(crate) durability: Word<Durability>,
    /// How often turns are made durable with `durability: interval`.
    pub(crate) interval: Time,
    /// How much of all transcripts may be in memory; where they are stored, what was used least recently leaves before.
    pub(crate) resident: Bytes,
    /// How many sessions are kept; new ones beyond are refused. As many responses are kept that requests may go on from; what
    /// was used least recently makes room for new ones.
    pub(crate) most: Count,
    /// How much sessions and responses take on disk; what was used least recently makes room, except for sessions at work.
    pub(crate) disk: Bytes,
}

impl From<SessionSettings> for Session {
    fn from(session: SessionSettings) -> Self {
        Self {
            queue_wait: Time(session.queue_wait),
            idle: Time(session.idle),
            ttl: Time(session.ttl),
            durability: Word(session.durability),
            interval: Time(session.interval),
            resident: Bytes(session.resident),
            most: Count::from(u32::try_from(session.most).unwrap_or(u32::MAX)),
            disk: Bytes(session.disk),
        }
    }
}

/// When the same model is asked again.
#[derive(Serialize, JsonSchema)]
#[schemars(default, deny_unknown_fields)]
pub(crate) struct Retry {
    /// The longest wait that a rate limit may ask for and still be waited out while a later candidate is usable.
    pub(crate) short_wait: Time,
    /// The longest wait that is begun at all.
    pub(crate) max_wait: Time,
    /// The first backoff; it doubles up to 8 s.
    pub(crate) backoff: Time,
    /// Extra tries after the first, for every candidate; without it by reason and place.
    pub(crate) max_per_target: Option<Retries>,
    /// Attempts of one turn; without it twice the candidates and two more.
    pub(crate) max_total: Option<Attempts>,
}

impl From<RetrySettings> for Retry {
    fn from(retry: RetrySettings) -> Self {
        Self {
            short_wait: Time(retry.short_wait),
            max_wait: Time(retry.max_wait),
            backoff: Time(retry.backoff),
            max_per_target: retry.max_per_target.map(Retries::from),
            max_total: retry.max_total.map(Attempts::from),
        }
    }
}

/// When a model is left alone.
#[derive(Serialize, JsonSchema)]
#[schemars(default, deny_unknown_fields)]
pub(crate) struct Breaker {
    /// Failed attempts in a row that open it.
    pub(crate) failures: Count,
    /// The first rest; it doubles up to `cap`.
    pub(crate) window: Time,
    /// The longest rest; a `window` larger than it stays at `window`.
    pub(crate) cap: Time,
}

impl From<BreakerSettings> for Breaker {
    fn from(breaker: BreakerSettings) -> Self {
        Self {
            failures: Count::from(breaker.failures),
            window: Time(breaker.window),
            cap: Time(breaker.cap),
        }
    }
}

/// How long attempts and turns may take.
#[derive(Serialize, JsonSchema)]
#[schemars(default, deny_unknown_fields)]
pub(crate) struct TimeLimits {
    /// To open a connection.
    pub(crate) connect: Time,
    /// To the first content while a later candidate is usable.
    pub(crate) first_content: Time,
    /// To the first content on the last usable candidate.
    pub(crate) first_content_last: Time,
    /// Between two pieces of content.
    pub(crate) idle: Time,
    /// For a whole non-streaming answer while a later candidate is usable.
    pub(crate) whole: Time,
    /// For a whole non-streaming answer on the last usable candidate.
    pub(crate) whole_last: Time,
    /// For the whole turn.
    pub(crate) turn: Time,
}

impl From<Timeouts> for TimeLimits {
    fn from(timeouts: Timeouts) -> Self {
        Self {
            connect: Time(timeouts.connect),
            first_content: Time(timeouts.first_content),
            first_content_last: Time(timeouts.first_content_last),
            idle: Time(timeouts.idle),
            whole: Time(timeouts.whole),
            whole_last: Time(timeouts.whole_last),
            turn: Time(timeouts.turn),
        }
    }
}

/// Sizes and counts that are refused beyond.
#[derive(Serialize, JsonSchema)]
#[schemars(default, deny_unknown_fields)]
pub(crate) struct Limits {
    /// The largest request body.
    pub(crate) body: Bytes,
    /// The most turns at one time, those that wait for their session, a reload or a provider included.
    pub(crate) in_flight: Count,
    /// The most turns that wait for a place, among all turns and among those of each agent.
    pub(crate) max_queue: Queue,
    /// How long each of them waits before it is refused.
    pub(crate) queue_wait: Time,
    /// How long a client may take in nothing of what is sent to it before its connection is closed.
    pub(crate) unread: Time,
}

impl From<settings::Limits> for Limits {
    fn from(limits: settings::Limits) -> Self {
        Self {
            body: Bytes(limits.body),
            in_flight: Count::from(u32::try_from(limits.in_flight).unwrap_or(u32::MAX)),
            max_queue: Queue::from(u32::try_from(limits.max_queue).unwrap_or(u32::MAX)),
            queue_wait: Time(limits.queue_wait),
            unread: Time(limits.unread),
        }
    }
}

/// A section is by default what its settings are by default.
macro_rules! default_from_settings {
    ($($section:ty: $settings:ty),+ $(,)?) => {$(
        impl Default for $section {
            fn default() -> Self {
                Self::from(<$settings>::default())
            }
        }
    )+};
}

default_from_settings! {
    Log: LogSettings,
    Session: SessionSettings,
    Retry: RetrySettings,
    Breaker: BreakerSettings,
    TimeLimits: Timeouts,
    Limits: settings::Limits,
}
