//! One change to a configuration file, in place: comments, order and everything else stay as they were.
//!
//! What was written is read again: unless the change and nothing else came of it, it is refused.

use serde_json::{Map, Value as Json};

use super::raw::{self, Node, Value};

/// A change that cannot be made here.
#[derive(Debug, thiserror::Error)]
#[error("the file is written in a way that is not changed here: set {0} yourself")]
pub(crate) struct EditError(String);

/// `text` with `plugins.entries.<id>.enabled` as it is wanted. Case makes no difference in ids.
///
/// # Errors
/// [`EditError`] for a file that is not YAML, or in which that place cannot be written to.
pub(crate) fn switch(text: &str, id: &str, on: bool) -> Result<String, EditError> {
    let path = ["plugins", "entries", id, "enabled"];
    let refused = || EditError(format!("{}: {on}", path.join(".")));
    let root = raw::parse(text).map_err(|_no_yaml| refused())?;
    let edited = edited(text, &root, &path, on).ok_or_else(refused)?;
    let mut wanted = plain(&root.value);
    set(&mut wanted, &path, on);
    let read = raw::parse(&edited).map_err(|_no_yaml| refused())?;
    (plain(&read.value) == wanted).then_some(edited).ok_or_else(refused)
}

/// The change as it would be written at the deepest part of the path that is there.
fn edited(text: &str, root: &Node, path: &[&str], on: bool) -> Option<String> {
    let (mut node, mut depth) = (root, 0);
    while let Some(key) = path.get(depth)
        && let Value::Map(entries) = &node.value
        && let Some((_, inner)) = entries.iter().find(|(own, _)| own.eq_ignore_ascii_case(key))
    {
        (node, depth) = (inner, depth + 1);
    }
    let at = offset(text, node)?;
    let missing = path.get(depth..)?;
    match &node.value {
        Value::Bool(_) if missing.is_empty() => Some(replaced(text, at, on)),
        Value::Map(_) if depth == 0 => Some(appended(text, &flow(missing, on)?)),
        Value::Map(entries) if text[at..].starts_with('{') => {
            let comma = if entries.is_empty() { "" } else { "," };
            Some(inserted(text, at + 1, &format!(" {}{comma}", flow(missing, on)?)))
        }
        Value::Map(_) => {
            let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
            let indent = &text[line..at];
            let blank = indent.chars().all(|c| c == ' ');
            let added = format!("{indent}{}\n", flow(missing, on)?);
            blank.then(|| inserted(text, line, &added))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::List(_) => None,
    }
}

/// Where a node begins, in bytes.
fn offset(text: &str, node: &Node) -> Option<usize> {
    let (line, column) = (node.referenced.line(), node.referenced.column());
    let before: usize = text
        .split_inclusive('\n')
        .take(usize::try_from(line).ok()?.checked_sub(1)?)
        .map(str::len)
        .sum();
    let columns = text.get(before..)?.char_indices().map(|(at, _)| before + at);
    let mut columns = columns.chain([text.len()]);
    columns.nth(usize::try_from(column).ok()?.checked_sub(1)?)
}

fn replaced(text: &str, at: usize, on: bool) -> String {
    let rest = &text[at..];
    let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    format!("{}{on}{}", &text[..at], &rest[end..])
}

fn inserted(text: &str, at: usize, added: &str) -> String {
    format!("{}{added}{}", &text[..at], &text[at..])
}

fn appended(text: &str, added: &str) -> String {
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{newline}{added}\n")
}

/// What is missing, on one line: `a: { b: true }`.
fn flow(missing: &[&str], on: bool) -> Option<String> {
    let (last, sections) = missing.split_last()?;
    let innermost = format!("{last}: {on}");
    let around = |inner: String, section: &&str| format!("{}: {{ {inner} }}", key(section));
    let mut sections = sections.iter().rev();
    let Some(first) = sections.next() else {
        return Some(innermost);
    };
    Some(sections.fold(around(innermost, first), around))
}

fn key(text: &str) -> String {
    let plain = text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    let word = plain && text.starts_with(|c: char| c.is_ascii_alphabetic());
    // JSON's quoted text is YAML's as well; a word like `true` would be read as something else, and refused
    if word {
        text.to_owned()
    } else {
        Json::from(text).to_string()
    }
}

/// Without places.
fn plain(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::from(*value),
        Value::Number(number) => Json::from([number.clone()].to_vec()),
        Value::Text(text) => Json::from(text.clone()),
        Value::List(items) => Json::Array(items.iter().map(|item| plain(&item.value)).collect()),
        Value::Map(entries) => {
            let entries = entries.iter().map(|(key, node)| (key.clone(), plain(&node.value)));
            Json::Object(entries.collect())
        }
    }
}

fn set(json: &mut Json, path: &[&str], on: bool) {
    let Some((key, rest)) = path.split_first() else {
        *json = Json::from(on);
        return;
    };
    if !json.is_object() {
        *json = Json::Object(Map::new());
    }
    if let Some(entries) = json.as_object_mut() {
        let known = entries.keys().find(|own| own.eq_ignore_ascii_case(key)).cloned();
        set(
            entries
                .entry(known.unwrap_or_else(|| (*key).to_owned()))
                .or_insert(Json::Null),
            rest,
            on,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_written_where_the_file_has_a_place_for_it() {
        for (before, after) in [
            (
                "plugins:\n  entries:\n    # ours\n    guard: # why\n      enabled: true # for now\n      config: {}\n",
                "plugins:\n  entries:\n    # ours\n    guard: # why\n      enabled: false # for now\n      config: {}\n",
            ),
            (
                "plugins: { entries: { Guard: { enabled: true } } }\n",
                "plugins: { entries: { Guard: { enabled: false } } }\n",
            ),
            (
                "plugins:\n  entries:\n    guard:\n      config: { a: 1 }\n",
                "plugins:\n  entries:\n    guard:\n      enabled: false\n      config: { a: 1 }\n",
            ),
            (
                "plugins:\n  entries:\n    other: { enabled: true }\nlog: {}\n",
                "plugins:\n  entries:\n    guard: { enabled: false }\n    other: { enabled: true }\nlog: {}\n",
            ),
            (
                "plugins:\n  load_paths: [./plugins]\n",
                "plugins:\n  entries: { guard: { enabled: false } }\n  load_paths: [./plugins]\n",
            ),
            (
                "plugins: { entries: {} }",
                "plugins: { entries: { guard: { enabled: false }} }",
            ),
            (
                "# ours\nlog: {} # äöü",
                "# ours\nlog: {} # äöü\nplugins: { entries: { guard: { enabled: false } } }\n",
            ),
        ] {
            assert_eq!(switch(before, "guard", false).expect("is written"), after);
            let back = switch(after, "guard", true).expect("is written");
            assert!(back.contains("enabled: true"), "{back}");
        }
    }

    #[test]
    fn a_place_that_would_be_read_otherwise_is_left_alone_and_named() {
        for text in [
            "plugins:\n",
            "a: &x { enabled: true }\nplugins: { entries: { guard: *x, other: *x } }\n",
            "plugins: { entries: { guard: { enabled: \"${GUARD}\" } } }\n",
            "{ log: {} }\n",
            "- a\n",
            "a: [\n",
        ] {
            let error = switch(text, "guard", false).expect_err(text);
            assert!(
                error
                    .to_string()
                    .ends_with("set plugins.entries.guard.enabled: false yourself"),
                "{error}"
            );
        }
    }

    #[test]
    fn an_id_that_is_no_plain_word_is_quoted() {
        let text = switch("log: {}\n", "@ours/guard", true).expect("is written");
        assert!(text.contains("\"@ours/guard\": { enabled: true }"), "{text}");
        assert_eq!(
            switch(&text, "@ours/guard", false).expect("is written"),
            text.replace("true", "false")
        );
    }
}
