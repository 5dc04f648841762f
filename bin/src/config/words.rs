//! The closed lists of words: what a reader accepts, the schema lists and `config show` writes.

use tracing::level_filters::LevelFilter;
use understudy_messages::settings::{Api, BrokenStream, ContentFilter, Durability, KeyOrder, MalformedFrame};

use super::{LogFormat, Store};

/// A value that the configuration writes as one word of a closed list.
pub(crate) trait Words: Copy + PartialEq + 'static {
    /// Every word and what it stands for, in the order in which people are told them.
    const WORDS: &'static [(&'static str, Self)];

    /// The word that stands for this value.
    fn word(self) -> &'static str {
        let word = Self::WORDS.iter().find(|(_, value)| *value == self);
        word.map_or("", |(word, _)| word)
    }
}

impl Words for Api {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("openai-chat", Self::OpenaiChat),
        ("openai-responses", Self::OpenaiResponses),
        ("anthropic-messages", Self::AnthropicMessages),
        ("gemini", Self::Gemini),
    ];
}

impl Words for KeyOrder {
    const WORDS: &'static [(&'static str, Self)] = &[("listed", Self::Listed), ("least_used", Self::LeastUsed)];
}

impl Words for BrokenStream {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("continue", Self::Continue),
        ("hold", Self::Hold),
        ("error", Self::Error),
    ];
}

impl Words for ContentFilter {
    const WORDS: &'static [(&'static str, Self)] = &[("surface", Self::Surface), ("next", Self::Next)];
}

impl Words for MalformedFrame {
    const WORDS: &'static [(&'static str, Self)] = &[("skip", Self::Skip), ("fail", Self::Fail)];
}

impl Words for Durability {
    const WORDS: &'static [(&'static str, Self)] =
        &[("turn", Self::Turn), ("interval", Self::Interval), ("off", Self::Off)];
}

impl Words for LogFormat {
    const WORDS: &'static [(&'static str, Self)] = &[("pretty", Self::Pretty), ("json", Self::Json)];
}

impl Words for Store {
    const WORDS: &'static [(&'static str, Self)] = &[("file", Self::File), ("memory", Self::Memory)];
}

impl Words for LevelFilter {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("off", Self::OFF),
        ("error", Self::ERROR),
        ("warn", Self::WARN),
        ("info", Self::INFO),
        ("debug", Self::DEBUG),
        ("trace", Self::TRACE),
    ];
}
