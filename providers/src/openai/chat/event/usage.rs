//! Reports of tokens.

use understudy_messages::answer::Usage;

use super::Event;
use crate::json::{Cursor, JsonError};

/// Tells the sink of the tokens that a `usage` reports, unless it is null or empty.
pub(super) fn usage<'a>(cursor: &mut Cursor<'a>, sink: &mut impl FnMut(Event<'a>)) -> Result<(), JsonError> {
    let mut usage = Usage::default();
    let mut any = false;
    cursor.object(|cursor, key| {
        any = true;
        match &*key.decode() {
            "prompt_tokens" => usage.input = cursor.count()?,
            "completion_tokens" => usage.output = cursor.count()?,
            "prompt_cache_hit_tokens" => usage.cache_read = usage.cache_read.max(cursor.count()?),
            "prompt_tokens_details" | "completion_tokens_details" => details(cursor, &mut usage)?,
            _ => cursor.skip()?,
        }
        Ok::<_, JsonError>(())
    })?;
    if any {
        sink(Event::Usage(usage));
    }
    Ok(())
}

fn details(cursor: &mut Cursor<'_>, usage: &mut Usage) -> Result<(), JsonError> {
    cursor.object(|cursor, key| {
        match &*key.decode() {
            "cached_tokens" => usage.cache_read = usage.cache_read.max(cursor.count()?),
            "cache_write_tokens" => usage.cache_write = cursor.count()?,
            "reasoning_tokens" => usage.reasoning = cursor.count()?,
            _ => cursor.skip()?,
        }
        Ok(())
    })
}
