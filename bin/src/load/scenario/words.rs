//! The closed lists of words of scenarios.

use crate::config::words::Words;

/// An API of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Chat completions.
    Chat,
    /// Anthropic Messages.
    Messages,
    /// OpenAI Responses.
    Responses,
    /// Sessions that the gateway remembers.
    Native,
}

/// Which answers are streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// All.
    Always,
    /// None.
    Never,
    /// Every other one.
    Mixed,
}

/// How turns are spread over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spacing {
    /// The same time between all.
    Even,
    /// Exponential times between them, as of many clients that know nothing of each other.
    Random,
}

/// How closely answers are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// To the last byte.
    Echo,
    /// Whether they ended.
    Ended,
}

/// What goes wrong at an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// 503.
    Overloaded,
    /// 429.
    RateLimited,
    /// 500.
    ServerError,
    /// 401.
    Unauthorized,
    /// The connection is reset before a byte.
    Reset,
    /// Nothing is ever said.
    Silent,
    /// Streams are reset in mid-answer, other bodies before their end.
    Cut,
}

impl Words for Format {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("chat", Self::Chat),
        ("messages", Self::Messages),
        ("responses", Self::Responses),
        ("native", Self::Native),
    ];
}

impl Words for Mode {
    const WORDS: &'static [(&'static str, Self)] =
        &[("always", Self::Always), ("never", Self::Never), ("mixed", Self::Mixed)];
}

impl Words for Spacing {
    const WORDS: &'static [(&'static str, Self)] = &[("even", Self::Even), ("random", Self::Random)];
}

impl Words for Check {
    const WORDS: &'static [(&'static str, Self)] = &[("echo", Self::Echo), ("ended", Self::Ended)];
}

impl Words for Trouble {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("overloaded", Self::Overloaded),
        ("rate_limited", Self::RateLimited),
        ("server_error", Self::ServerError),
        ("unauthorized", Self::Unauthorized),
        ("reset", Self::Reset),
        ("silent", Self::Silent),
        ("cut", Self::Cut),
    ];
}
