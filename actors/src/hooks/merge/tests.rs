use serde_json::json;
use understudy_messages::hooks::BlockScope;

use super::*;

fn from<T>(answers: Vec<T>) -> Vec<Answer<T>> {
    let names = ["a", "b", "c", "d"];
    names.iter().map(|&name| Name::from(name)).zip(answers).collect()
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn tools(names: &[&str]) -> PromptContribution {
    PromptContribution {
        tools_allow: Some(names.iter().map(|&name| name.to_owned()).collect()),
        ..PromptContribution::default()
    }
}

#[test]
fn the_first_system_prompt_stands_and_contexts_follow_each_other_case_1() {
    let all = |word: &str| PromptContribution {
        system_prompt: text(word),
        prepend_system_context: text(word),
        append_system_context: text(word),
        prepend_context: text(word),
        append_context: text(word),
        ..PromptContribution::default()
    };
    let merged = prompt(from(vec![all("A"), all("B")]));
    assert_eq!(merged.system_prompt.as_deref(), Some("A"));
    for context in [
        merged.prepend_system_context,
        merged.append_system_context,
        merged.prepend_context,
        merged.append_context,
    ] {
        assert_eq!(context.as_deref(), Some("A\n\nB"));
    }
}

#[test]
fn no_tools_from_one_plugin_are_no_tools_case_2() {
    for lists in [[&[][..], &["read"]], [&["read"], &[]]] {
        let merged = prompt(from(lists.map(tools).into()));
        assert!(!merged.allows("read") && !merged.is_empty(), "{lists:?}");
    }
}

#[test]
fn tools_are_those_that_all_patterns_and_groups_allow_case_3() {
    let merged = prompt(from(vec![
        tools(&["group:fs", "web_*"]),
        tools(&["read", "*_search"]),
        PromptContribution::default(),
    ]));
    let mut offered = vec!["read", "web_search", "web_fetch", "memory_search"];
    offered.retain(|name| merged.allows(name));
    assert_eq!(offered, ["read", "web_search"]);
}

#[test]
fn a_pattern_covers_what_its_parts_meet_in_order() {
    for (pattern, name, covers) in [
        ("*", "read", true),
        ("*", "", true),
        ("re*d", "read", true),
        ("r*a*d", "read", true),
        ("r*d*a", "read", false),
        ("read*read", "read", false),
        ("read", "reads", false),
        ("", "read", false),
        ("group:none", "read", false),
    ] {
        assert_eq!(allows(pattern, name), covers, "{pattern} {name}");
    }
}

#[test]
fn blank_text_is_no_opinion_case_63() {
    let context = |word: &str| PromptContribution {
        prepend_context: text(word),
        ..PromptContribution::default()
    };
    let merged = prompt(from(vec![context("x"), context(""), context("  ")]));
    assert_eq!(merged.prepend_context.as_deref(), Some("x"));
}

#[test]
fn one_plugins_choice_is_taken_whole_case_64() {
    let choice = |model: &str, provider: Option<&str>| ModelChoice {
        model_override: text(model),
        provider_override: provider.map(str::to_owned),
        fallbacks: None,
    };
    let (plugin, chosen) = model(from(vec![
        ModelChoice::default(),
        choice("m1", None),
        choice("m2", Some("p2")),
    ]))
    .expect("chosen");
    assert_eq!((&*plugin, chosen), ("b", choice("m1", None)));
}

#[test]
fn the_first_block_stands_with_its_own_reason_cases_7_8_9_65() {
    let params = Map::new();
    let block = |block, reason: Option<&str>| ToolVerdict {
        block,
        block_reason: reason.map(str::to_owned),
        ..ToolVerdict::default()
    };
    let blocked = |plugin: &str, reason: &str| ToolFate::Blocked {
        plugin: plugin.into(),
        reason: reason.to_owned(),
        veto: true,
    };
    let fate = |verdicts| tool(&params, from(verdicts));
    assert_eq!(
        fate(vec![block(true, Some("no")), block(false, None)]),
        blocked("a", "no")
    );
    assert_eq!(
        fate(vec![block(true, Some("1")), block(true, Some("2"))]),
        blocked("a", "1")
    );
    assert_eq!(fate(vec![block(false, None)]), ToolFate::Allowed { params: None });
    assert_eq!(
        fate(vec![block(false, Some("mine")), block(true, None)]),
        blocked("b", BLOCKED)
    );
}

#[test]
fn after_an_approval_is_asked_for_arguments_stay_and_a_block_still_counts_case_11() {
    let params = json!({ "a": 1, "b": 2 }).as_object().cloned().expect("an object");
    let change = |value: Value| ToolVerdict {
        params: value.as_object().cloned(),
        ..ToolVerdict::default()
    };
    let ask = ToolVerdict {
        require_approval: Some(json!({ "title": "t" })),
        ..change(json!({ "b": 3 }))
    };
    let fate = tool(
        &params,
        from(vec![change(json!({ "a": 9 })), ask.clone(), change(json!({ "b": 4 }))]),
    );
    let ToolFate::Approval {
        plugin,
        params: changed,
        ..
    } = fate
    else {
        panic!("an approval");
    };
    assert_eq!(&*plugin, "b");
    assert_eq!(changed.map(Value::Object), Some(json!({ "a": 1, "b": 3 })));
    let veto = ToolVerdict {
        block: true,
        ..ToolVerdict::default()
    };
    assert!(matches!(tool(&params, from(vec![ask, veto])), ToolFate::Blocked { .. }));
}

#[test]
fn the_first_block_of_a_run_names_who_blocked() {
    let block = |reason: &str| RunVerdict::Block {
        reason: "why".to_owned(),
        message: text(reason),
        category: None,
        scope: BlockScope::Turn,
        status: None,
    };
    let blocked = run(from(vec![RunVerdict::Pass, block("x"), block("y")])).expect("blocked");
    assert_eq!((&*blocked.plugin, blocked.message.as_deref()), ("b", Some("x")));
    assert!(run(from(vec![RunVerdict::Pass])).is_none());
}
