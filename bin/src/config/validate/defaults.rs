//! `defaults`: what holds unless an agent or a model says otherwise.

use std::time::Duration;

use understudy_messages::settings::{BreakerSettings, Limits, RetrySettings, SessionSettings, Settings, Timeouts};

use crate::config::document::{Attempts, Queue, Retries};
use crate::config::field::{Field, Section};

/// As many turns as can be counted.
pub(super) const MOST_TURNS: u64 = u32::MAX as u64;

pub(super) fn defaults(field: &Field<'_>, settings: &mut Settings) {
    field.section(|keys| {
        session(&keys.key("session"), &mut settings.session);
        retry(&keys.key("retry"), &mut settings.retry);
        breaker(&keys.key("breaker"), &mut settings.breaker);
        timeouts(&keys.key("timeouts"), &mut settings.timeouts);
        limits(&keys.key("limits"), &mut settings.limits);
    });
}

fn session(field: &Field<'_>, session: &mut SessionSettings) {
    field.section(|keys| {
        duration(keys, "queue_wait", &mut session.queue_wait);
        duration(keys, "idle", &mut session.idle);
        let ttl = keys.key("ttl");
        session.ttl = ttl.duration().unwrap_or(session.ttl);
        if session.ttl < session.idle {
            ttl.refuse(
                "is shorter than `idle`: a session would be forgotten while it is in memory",
                "write a longer time here, or a shorter `idle`",
            );
        }
        session.durability = keys.key("durability").choice().unwrap_or(session.durability);
        duration(keys, "interval", &mut session.interval);
        session.resident = keys.key("resident").size().unwrap_or(session.resident);
        if let Some(count) = keys.key("most").count() {
            session.most = usize::try_from(count).unwrap_or(usize::MAX);
        }
        session.disk = keys.key("disk").size_on_disk().unwrap_or(session.disk);
    });
}

fn retry(field: &Field<'_>, retry: &mut RetrySettings) {
    field.section(|keys| {
        duration(keys, "short_wait", &mut retry.short_wait);
        duration(keys, "max_wait", &mut retry.max_wait);
        duration(keys, "backoff", &mut retry.backoff);
        retry.max_per_target = keys.key("max_per_target").whole(Retries::RANGE);
        retry.max_total = keys.key("max_total").whole(Attempts::RANGE);
    });
}

fn breaker(field: &Field<'_>, breaker: &mut BreakerSettings) {
    field.section(|keys| {
        if let Some(count) = keys.key("failures").count() {
            breaker.failures = u32::try_from(count).unwrap_or(u32::MAX);
        }
        duration(keys, "window", &mut breaker.window);
        duration(keys, "cap", &mut breaker.cap);
    });
}

fn timeouts(field: &Field<'_>, timeouts: &mut Timeouts) {
    field.section(|keys| {
        duration(keys, "connect", &mut timeouts.connect);
        duration(keys, "first_content", &mut timeouts.first_content);
        duration(keys, "first_content_last", &mut timeouts.first_content_last);
        duration(keys, "idle", &mut timeouts.idle);
        duration(keys, "whole", &mut timeouts.whole);
        duration(keys, "whole_last", &mut timeouts.whole_last);
        duration(keys, "turn", &mut timeouts.turn);
    });
}

fn limits(field: &Field<'_>, limits: &mut Limits) {
    field.section(|keys| {
        limits.body = keys.key("body").size().unwrap_or(limits.body);
        if let Some(count) = keys.key("in_flight").count() {
            limits.in_flight = usize::try_from(count.min(MOST_TURNS)).unwrap_or(usize::MAX);
        }
        if let Some(count) = keys.key("max_queue").whole(Queue::RANGE) {
            limits.max_queue = usize::try_from(count).unwrap_or(usize::MAX);
        }
        duration(keys, "queue_wait", &mut limits.queue_wait);
        duration(keys, "unread", &mut limits.unread);
    });
}

fn duration(keys: &mut Section<'_>, name: &'static str, value: &mut Duration) {
    *value = keys.key(name).duration().unwrap_or(*value);
}
