//! The guide says what the code does.

use understudy_messages::hooks::wire::Field;
use understudy_messages::hooks::{HOOKS, Kind};

const GUIDE: &str = include_str!("../../../docs/plugins.md");

/// The table of hooks, as the guide has to show it.
fn table() -> String {
    let mut table =
        "| Hook | Kind | Deadline | When it fails | Conversation access | Shows of the conversation |\n".to_owned();
    table.push_str("|---|---|---|---|---|---|\n");
    for row in HOOKS {
        let kind = match row.kind {
            Kind::Observe => "observe",
            Kind::Modify => "modify",
            Kind::Gate => "gate",
            Kind::Claim => "claim",
        };
        let fails = if row.fail_closed { "**refuses**" } else { "goes on" };
        let access = match (row.shows_conversation, row.writes_prompt) {
            (true, true) => "needed, and prompt injection",
            (true, false) => "needed",
            (false, _) if Field::of(row.hook).is_empty() => "",
            (false, _) => "adds the fields",
        };
        let fields: Vec<String> = Field::of(row.hook)
            .iter()
            .map(|field| format!("`{}`", field.name()))
            .collect();
        let (name, deadline, fields) = (row.name, row.deadline.as_secs(), fields.join(", "));
        table.push_str(&format!(
            "| `{name}` | {kind} | {deadline} s | {fails} | {access} | {fields} |\n"
        ));
    }
    table
}

#[test]
fn the_guide_shows_the_table_of_hooks() {
    let (_, rest) = GUIDE.split_once("<!-- hooks: begin -->\n").expect("a begin");
    let (shown, _) = rest.split_once("<!-- hooks: end -->").expect("an end");
    let table = table();
    assert!(
        shown == table,
        "docs/plugins.md has to show between its marks:\n{table}"
    );
}
