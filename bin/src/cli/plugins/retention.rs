//! Who keeps the instances of a plugin of a running gateway.

use serde_json::Value;

use super::items;
use crate::cli::admin::Admin;

/// What a gateway tells of it; nothing where it does not.
pub(super) async fn of(admin: &Admin, id: &str) -> Value {
    let told = admin.get(&format!("/admin/v1/plugins/{id}")).await;
    told.map_or(Value::Null, |mut told| told["runtimeRetention"].take())
}

/// An instance a line, and below it who keeps it.
pub(super) fn in_words(retention: &Value) -> String {
    let instances = retention.as_array().map_or(&[][..], Vec::as_slice);
    let lines = instances.iter().flat_map(|instance| {
        let keepers = items(instance, "holders").iter().map(keeper);
        let omitted = instance["omitted"].as_u64().filter(|omitted| *omitted > 0);
        let more = omitted.map(|omitted| format!("  and {omitted} more"));
        std::iter::once(heading(instance)).chain(keepers).chain(more)
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn heading(instance: &Value) -> String {
    let generations: Vec<String> = items(instance, "generations").iter().map(Value::to_string).collect();
    let pending = match instance["replacementPending"] == true {
        true => ", to be replaced",
        false => "",
    };
    format!(
        "instance {}: {}{pending}, generations {}, calls {}, kept by {}",
        instance["instance"],
        text(instance, "state"),
        generations.join(" "),
        instance["calls"],
        instance["total"],
    )
}

fn keeper(holder: &Value) -> String {
    let named = |key: &str| holder[key].as_str().map(|name| format!(", {key} {name}"));
    let whose: String = ["session", "agent"].into_iter().filter_map(named).collect();
    let seconds = holder["age_ms"].as_u64().unwrap_or_default() / 1_000;
    format!(
        "  {} {}{whose}, for {seconds} s",
        text(holder, "kind"),
        text(holder, "id")
    )
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_instance_is_told_with_those_who_keep_it() {
        let retention = json!([
            { "instance": 2, "state": "serving", "generations": [2], "calls": 0, "holders": [], "total": 0, "omitted": 0,
              "replacementPending": true },
            { "instance": 1, "state": "retiring", "generations": [1], "calls": 1, "total": 3, "omitted": 1,
              "replacementPending": false, "holders": [
                { "kind": "turn", "id": "t1", "session": "s", "agent": "main", "age_ms": 20_400 },
                { "kind": "call", "id": "/hook", "plugin": "p", "age_ms": 900 },
            ] },
        ]);
        insta::assert_snapshot!(in_words(&retention), @r"
        instance 2: serving, to be replaced, generations 2, calls 0, kept by 0
        instance 1: retiring, generations 1, calls 1, kept by 3
          turn t1, session s, agent main, for 20 s
          call /hook, for 0 s
          and 1 more
        ");
        assert_eq!(in_words(&Value::Null), "");
    }
}
