//! The plugin as a child process, and what only such a plugin does.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use understudy_messages::clock::Clock;
use understudy_messages::hooks::{HookContext, HookResult};
use understudy_messages::plugin::{CallError, CallHook};
use understudy_messages::service::{CallRoute, CallService, RouteRequest, ServiceTurn};
use understudy_plugins::Instance;
use understudy_plugins::process::{ProcessInstance, ProcessOptions};

use crate::stage::tool_call;

/// The files of this suite.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance")
}

/// Whether there is a Python 3 here; without, what needs it is not tried, and that is said.
pub(crate) fn has_python() -> bool {
    let python = std::process::Command::new("python3").arg("--version").output();
    let there = python.is_ok_and(|output| output.status.success());
    if !there {
        println!("python3 is not on this machine: NOT TRIED");
    }
    there
}

pub(crate) async fn probe() -> Option<Box<dyn Instance>> {
    if !has_python() {
        return None;
    }
    let options = options(&["python3", "probe.py"]);
    Some(Box::new(ProcessInstance::load(options).await.expect("it registers")))
}

fn options(command: &[&str]) -> ProcessOptions {
    let command = command.iter().map(|&word| word.to_owned()).collect();
    ProcessOptions::new("probe".into(), folder(), command, Clock::real())
}

/// A child that is a shell script: it answers each line with what `answers` prints.
fn shell(script: &str) -> ProcessOptions {
    options(&["sh", "-c", script])
}

async fn judge(instance: &ProcessInstance) -> Result<HookResult, CallError> {
    let call = CallHook {
        handler: 0,
        event: Arc::new(tool_call("block")),
        context: Arc::new(HookContext::default()),
        conversation: false,
        cancel: CancellationToken::new(),
    };
    instance.call_hook(call).await
}

/// What the gate's handler put into the arguments.
async fn params(instance: &ProcessInstance) -> Value {
    match judge(instance).await {
        Ok(HookResult::Tool(verdict)) => Value::Object(verdict.params.expect("arguments")),
        other => panic!("{other:?}"),
    }
}

/// Whether a process is there and no zombie.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}

async fn until(clock: &Clock, holds: impl Fn() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        clock.sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came true");
}

const REGISTERS: &str = r#"read line; echo '{"type":"registered","hooks":[{"hook":"before_tool_call"}]}';"#;

#[tokio::test]
async fn a_child_sees_its_folder_path_and_what_it_is_given_alone() {
    let script = format!(
        r#"{REGISTERS} read line
        echo "{{\"type\":\"result\",\"call\":1,\"result\":{{\"params\":{{\"folder\":\"$(pwd -P)\",\"home\":\"$HOME\",\"given\":\"$GIVEN\",\"path\":\"$PATH\"}}}}}}"
        read line"#
    );
    let mut options = shell(&script);
    options.env.insert("GIVEN".to_owned(), "yes".to_owned());
    let instance = ProcessInstance::load(options).await.expect("it registers");
    let seen = params(&instance).await;
    let here = folder().canonicalize().expect("a folder");
    let path = std::env::var("PATH").expect("a path");
    let expected = json!({ "folder": here.to_str(), "home": "", "given": "yes", "path": path });
    assert_eq!(seen, expected);
    instance.stop().await;
}

#[tokio::test]
async fn a_child_gets_its_settings_and_may_refuse_them() {
    let script = r#"read line; case "$line" in *'"config":{"limit":0}'*) echo '{"type":"error","message":"limit must be above 0"}';; esac; read line"#;
    let mut options = shell(script);
    options.settings = json!({ "limit": 0 });
    let why = ProcessInstance::load(options).await.err().expect("refused");
    assert_eq!(why, "its registration failed: limit must be above 0");
}

#[tokio::test]
async fn a_child_that_does_not_register_is_refused() {
    let why = async |mut options: ProcessOptions| {
        options.start = Duration::from_millis(500);
        ProcessInstance::load(options).await.err().expect("refused")
    };
    assert!(
        why(options(&["./no-such-program"]))
            .await
            .starts_with("could not be started")
    );
    assert!(why(options(&[])).await.starts_with("could not be started"));
    assert_eq!(why(shell("exit 0")).await, "ended before it registered");
    assert_eq!(why(shell("sleep 60")).await, "did not register in time");
    let garbage = shell(r#"echo '{"type":"registered","hooks":7}'; read line"#);
    assert!(why(garbage).await.starts_with("its registration is none"));
}

#[tokio::test]
async fn a_line_too_long_and_lines_for_people_are_passed_over() {
    let script = format!(
        r#"{REGISTERS} read line
        head -c 5000 /dev/zero | tr '\0' x; echo
        echo 'for people'; echo; echo '[1]'; echo '{{"type":"result","call":99}}'; echo 'on stderr' >&2
        echo '{{"type":"result","call":1,"result":{{"block":true}}}}'; read line"#
    );
    let mut options = shell(&script);
    options.longest_line = 1000;
    let instance = ProcessInstance::load(options).await.expect("it registers");
    assert!(matches!(judge(&instance).await, Ok(HookResult::Tool(verdict)) if verdict.block));
    instance.stop().await;
}

#[tokio::test]
async fn a_child_that_registers_something_else_the_second_time_has_failed() {
    let marker = std::env::temp_dir().join(format!("understudy-{}-again", std::process::id()));
    let script = format!(
        r#"if [ -e "$MARKER" ]; then read line; echo '{{"type":"registered","hooks":[]}}'; read line; exit; fi
        : > "$MARKER"; {REGISTERS} read line; exit 1"#
    );
    let mut options = shell(&script);
    options.env.insert("MARKER".to_owned(), marker.display().to_string());
    let instance = ProcessInstance::load(options).await.expect("it registers");
    assert_eq!(judge(&instance).await, Err(CallError::Gone));
    until(&Clock::real(), || instance.failure().is_some()).await;
    assert_eq!(judge(&instance).await, Err(CallError::Gone));
    instance.stop().await;
    std::fs::remove_file(marker).expect("a marker");
}

#[tokio::test]
async fn a_child_that_keeps_dying_is_started_again_and_again() {
    let log = std::env::temp_dir().join(format!("understudy-{}-starts", std::process::id()));
    let mut options = shell(&format!(r#"echo >> "$LOG"; {REGISTERS} exit 1"#));
    options.env.insert("LOG".to_owned(), log.display().to_string());
    let instance = ProcessInstance::load(options).await.expect("it registers");
    let starts = || std::fs::read_to_string(&log).map_or(0, |text| text.len());
    until(&Clock::real(), || starts() >= 4).await;
    instance.stop().await;
    std::fs::remove_file(&log).expect("a log");
}

#[tokio::test]
async fn a_stop_ends_children_of_the_child_and_those_who_do_not_listen() {
    let script = format!(
        r#"trap '' TERM; sleep 600 & child=$!
        {REGISTERS} read line
        echo "{{\"type\":\"result\",\"call\":1,\"result\":{{\"params\":{{\"own\":\"$$\",\"child\":\"$child\"}}}}}}"
        while :; do sleep 600; done"#
    );
    let mut options = shell(&script);
    options.grace = Duration::from_millis(100);
    let instance = ProcessInstance::load(options).await.expect("it registers");
    let pids = params(&instance).await;
    let pid = |name: &str| pids[name].as_str().expect("a number").to_owned();
    assert!(lives(&pid("own")) && lives(&pid("child")));
    instance.stop().await;
    assert!(!lives(&pid("own")));
    until(&Clock::real(), || !lives(&pid("child"))).await;
}

#[tokio::test]
async fn a_child_whose_instance_is_dropped_is_killed() {
    let script = format!(
        r#"{REGISTERS} read line
        echo "{{\"type\":\"result\",\"call\":1,\"result\":{{\"params\":{{\"own\":\"$$\"}}}}}}"; sleep 600"#
    );
    let instance = ProcessInstance::load(shell(&script)).await.expect("it registers");
    let pid = params(&instance).await["own"].as_str().expect("a number").to_owned();
    drop(instance);
    until(&Clock::real(), || !lives(&pid)).await;
}

#[tokio::test]
async fn a_child_that_is_told_to_stop_may_end_by_itself() {
    let file = std::env::temp_dir().join(format!("understudy-{}-stopped", std::process::id()));
    let script = format!(r#"{REGISTERS} read line; echo "$line" > "$FILE""#);
    let mut options = shell(&script);
    options.env.insert("FILE".to_owned(), file.display().to_string());
    let instance = ProcessInstance::load(options).await.expect("it registers");
    instance.stop().await;
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "{\"type\":\"stop\"}\n");
    std::fs::remove_file(file).expect("a file");
}

#[tokio::test]
async fn a_child_that_answers_no_cancelled_call_is_killed_and_started_again() {
    let clock = Clock::movable();
    let script = format!("{REGISTERS} while read line; do :; done");
    let mut options = shell(&script);
    options.clock = clock.clone();
    options.calls = 2;
    let patience = options.patience;
    let instance = ProcessInstance::load(options).await.expect("it registers");
    let hang = async || {
        let end = clock.now() + Duration::from_millis(30);
        Clock::real().timeout_at(end, judge(&instance)).await
    };
    for _ in 0..4 {
        // the last ones do not even get a place
        assert!(hang().await.is_err());
    }
    let (lost, ()) = tokio::join!(judge(&instance), async { clock.advance(patience) });
    assert_eq!(lost, Err(CallError::Gone));
    instance.stop().await;
}

#[tokio::test]
async fn a_service_that_ran_is_started_again_with_its_child_and_one_that_was_stopped_is_not() {
    // it dies when it is asked by its gate, and says how often a service was started in it
    let script = r#"
        starts=0
        while read -r line; do
            call=${line#*'"call":'}; call=${call%%,*}
            case $line in
                *'"register"'*) echo '{"type":"registered","hooks":[{"hook":"before_tool_call"}],
                    "services":[{"id":"a"}],"routes":[{"path":"/starts"}]}' | tr -d '\n'; echo ;;
                *'"start"'*) starts=$((starts + 1)); echo "{\"type\":\"result\",\"call\":$call}" ;;
                *'"route"'*) echo "{\"type\":\"result\",\"call\":$call,\"result\":{\"body\":\"$$ $starts\"}}" ;;
                *'"service"'*) echo "{\"type\":\"result\",\"call\":$call}" ;;
                *'"hook"'*) exit 3 ;;
            esac
        done
    "#;
    let instance = ProcessInstance::load(shell(script)).await.expect("it registers");
    let service = async |turn| {
        let call = CallService {
            service: "a".to_owned(),
            turn,
            cancel: CancellationToken::new(),
        };
        instance.call_service(call).await
    };
    let state = async || {
        let call = CallRoute {
            route: "/starts".to_owned(),
            request: RouteRequest::default(),
            cancel: CancellationToken::new(),
        };
        let answer = instance.call_route(call).await.ok()?;
        let (pid, starts) = answer.body.split_once(' ').expect("two words");
        Some((pid.to_owned(), starts.to_owned()))
    };
    // the state of a child that is not this one, once it says it
    let successor = async |before: &str, wanted: &str| loop {
        match state().await {
            Some((pid, starts)) if pid != before && starts == wanted => return pid,
            _ => Clock::real().sleep(Duration::from_millis(10)).await,
        }
    };
    assert_eq!(service(ServiceTurn::Start).await, Ok(()));
    let (first, _) = state().await.expect("an answer");
    assert_eq!(judge(&instance).await, Err(CallError::Gone), "it dies");
    let second = successor(&first, "1").await;
    assert_eq!(service(ServiceTurn::Stop).await, Ok(()));
    assert_eq!(judge(&instance).await, Err(CallError::Gone), "it dies again");
    successor(&second, "0").await;
    instance.stop().await;
}
