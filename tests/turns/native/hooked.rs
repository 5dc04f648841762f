//! Hooks at work in turns of sessions.

use serde_json::{Value, json};
use understudy_messages::hooks::Hook;

use super::{answers, code, events, text_of, turn};
use crate::hooks::{Heard, Plugin, message};
use crate::stage::{Stage, lead, refusal};

fn roles_of(call: &crate::hooks::Call) -> Vec<Value> {
    let conversation = call.event.conversation().expect("shown");
    conversation
        .look()
        .messages
        .iter()
        .map(|message| message["role"].clone())
        .collect()
}

#[actix::test]
async fn both_candidates_fail_and_the_terminal_hook_is_told_what_the_client_was_told_case_59() {
    for stream in [true, false] {
        let heard = Heard::default();
        let observer = Plugin::new("observer")
            .hears(Hook::ModelFailureTerminal, &heard)
            .hears(Hook::AgentEnd, &heard);
        let fails = json!({ "calls": [refusal(429, "rate_limit_exceeded")] });
        let retry = "defaults:\n  retry: { max_per_target: 0 }\n";
        let plan = json!({ "a/m": fails, "b/m": fails });
        let stage = Stage::set_guarded(plan, retry, vec![observer.loaded()]).await;
        // the second turn finds both at rest
        for turns in 1..=2 {
            let reply = turn(
                &stage,
                "s1",
                json!({ "input": "hi", "model": "main", "stream": stream }),
            )
            .await;
            assert_eq!(reply.status, 429);
            let told = heard.await_of(Hook::ModelFailureTerminal, turns).await;
            heard.await_of(Hook::AgentEnd, turns).await;
            assert_eq!(heard.of(Hook::ModelFailureTerminal).len(), turns);
            assert_eq!(told[turns - 1].facts["finalMessage"], message(&reply));
        }
    }
}

#[actix::test]
async fn hooks_are_shown_the_whole_transcript_and_the_answer_behind_it() {
    let heard = Heard::default();
    let observer = Plugin::new("observer")
        .hears(Hook::BeforePromptBuild, &heard)
        .hears(Hook::AgentEnd, &heard);
    let plan = json!({ "a/m": { "calls": [answers("{n}: {last}")] } });
    let stage = Stage::set_guarded(plan, "", vec![observer.loaded()]).await;
    for input in ["one", "two"] {
        turn(&stage, "s1", json!({ "input": input })).await;
    }
    let built = heard.await_of(Hook::BeforePromptBuild, 2).await;
    assert_eq!(roles_of(&built[0]), ["user"]);
    assert_eq!(roles_of(&built[1]), ["user", "assistant", "user"]);
    assert_eq!(&*built[1].event.conversation().expect("shown").look().prompt, "two");
    let ends = heard.await_of(Hook::AgentEnd, 2).await;
    assert_eq!(roles_of(&ends[1]), ["user", "assistant", "user", "assistant"]);
    assert_eq!(ends[1].context["sessionKey"], "s1");
}

#[actix::test]
async fn what_plugins_add_to_a_prompt_is_told_and_not_kept() {
    let plugin = Plugin::new("adds").says(Hook::BeforePromptBuild, json!({ "prependContext": "by the way" }));
    let plan = json!({ "a/m": { "calls": [answers("yes")] } });
    let stage = Stage::set_guarded(plan, "", vec![plugin.loaded()]).await;
    for input in ["one", "two"] {
        turn(&stage, "s1", json!({ "input": input })).await;
    }
    let told = stage.bodies(&lead());
    let times = |body: &[u8]| String::from_utf8_lossy(body).matches("by the way").count();
    assert_eq!((times(&told[0]), times(&told[1])), (1, 1));
    assert_eq!(
        super::said(&stage, "s1").await,
        ["user: one", "assistant: yes", "user: two", "assistant: yes"]
    );
}

#[actix::test]
async fn a_plugin_that_answers_itself_is_remembered_like_a_model() {
    let claims = json!({ "handled": true, "reply": "I do." });
    let plugin = Plugin::new("claims").says(Hook::BeforeAgentReply, claims);
    let plan = json!({ "a/m": { "calls": [answers("yes")] } });
    let stage = Stage::set_guarded(plan, "", vec![plugin.loaded()]).await;
    let reply = turn(&stage, "s1", json!({ "input": "who answers?" })).await;
    assert_eq!(text_of(&events(&reply)), "I do.", "{}", reply.text());
    assert_eq!(
        super::said(&stage, "s1").await,
        ["user: who answers?", "assistant: I do."]
    );
    stage.calls_are(&lead(), 0);
}

#[actix::test]
async fn a_guard_that_blocks_in_a_session_says_so_to_its_client() {
    let verdict = json!({ "outcome": "block", "reason": "r", "message": "Not here.", "status": 451 });
    let guard = Plugin::new("guard").says(Hook::BeforeAgentRun, verdict);
    let plan = json!({ "a/m": { "calls": [answers("yes")] } });
    let stage = Stage::set_guarded(plan, "", vec![guard.loaded()]).await;
    let reply = turn(&stage, "s1", json!({ "input": "hi" })).await;
    assert_eq!(code(&reply), (451, "blocked".to_owned()));
    assert_eq!(message(&reply), "Not here.");
}
