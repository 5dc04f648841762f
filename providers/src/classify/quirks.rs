//! Where one provider means something else by the same words.

use understudy_messages::failure::Reason::{self, Billing, RateLimit};

use super::pattern::Text;

/// A rule that holds for one provider before any table is asked.
struct Quirk {
    /// Words of the provider's configured name that give it away …
    names: &'static str,
    /// … or its mark in the error itself.
    marks: &'static str,
    status: u16,
    says: &'static str,
    reason: Reason,
}

const QUIRKS: &[Quirk] = &[
    // a spending limit that the owner set on one key
    Quirk {
        names: "openrouter",
        marks: "openrouter.ai",
        status: 403,
        says: "key limit exceeded",
        reason: Billing,
    },
    // its throttle answers with the code that others use for an empty account
    Quirk {
        names: "dashscope | qwen | alibaba | aliyun",
        marks: "allocated quota exceeded",
        status: 429,
        says: "quota exceeded",
        reason: RateLimit,
    },
    // an empty account, told as a 429
    Quirk {
        names: "moonshot | kimi | xai | grok",
        marks: "x.ai | moonshot.cn | moonshot.ai",
        status: 429,
        says: "insufficient*balance",
        reason: Billing,
    },
];

/// What this provider means, when it is one of those that mean something of their own.
pub(super) fn reason(provider: &str, status: Option<u16>, text: &Text) -> Option<Reason> {
    let provider = Text::new(provider);
    let applies = |quirk: &&Quirk| {
        status == Some(quirk.status)
            && (provider.says_any(quirk.names) || text.says_any(quirk.marks))
            && text.says_any(quirk.says)
    };
    QUIRKS.iter().find(applies).map(|quirk| quirk.reason)
}
