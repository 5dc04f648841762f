//! What clients send and how they behave.

use super::super::{Client, Format, Leaves, OneIn, Slow, Some0};
use super::{MOST_SESSIONS, needed, size, up_to};
use crate::config::field::{Field, Section};

pub(super) fn client(field: &Field<'_>, client: &mut Client) {
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
        behaviour(keys, client);
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

fn behaviour(keys: &mut Section<'_>, client: &mut Client) {
    client.retries = keys.key("retries").whole(Some0::RANGE).unwrap_or_default();
    client.renew = up_to(&keys.key("renew"), MOST_SESSIONS);
    let leaves = some_of_them(&keys.key("leaves"), "after", "say after which time: 50ms");
    client.leaves = leaves.map(|(one_in, after)| Leaves { one_in, after });
    let slow = some_of_them(&keys.key("slow"), "every", "say how long for each piece: 50ms");
    client.slow = slow.map(|(one_in, every)| Slow { one_in, every });
}

/// One turn in how many, and a time.
fn some_of_them(field: &Field<'_>, time: &'static str, fix: &str) -> Option<(u32, std::time::Duration)> {
    if field.is_absent() {
        return None;
    }
    let (mut one_in, mut lasts) = (None, None);
    field.section(|keys| {
        let fields = [keys.key("one_in"), keys.key(time)];
        needed(&fields[0], "say one turn in how many: 50");
        needed(&fields[1], fix);
        (one_in, lasts) = (fields[0].whole(OneIn::RANGE), fields[1].duration());
    });
    Some((one_in?, lasts?))
}
