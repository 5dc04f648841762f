//! `understudy plugins`, `doctor` and `status`, as an operator types them: the real program, beside a gateway or without one.
#![cfg(all(unix, feature = "js"))]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

const MANIFEST: &str = "{ id: 'quiet', main: 'index.js', configSchema: {} }";
const CODE: &str = "import { definePluginEntry } from 'openclaw/plugin-sdk/plugin-entry';\n\
    export default definePluginEntry({ id: 'quiet', register(api) { api.on('model_call_ended', () => {}); } });\n";

/// A folder with a configuration and one plugin; it goes with its test.
struct Place(PathBuf);

/// How a command ended, and what it said for programs.
struct Said {
    code: Option<i32>,
    json: Value,
    errors: String,
}

/// A gateway of a place; it ends with its test.
struct Gateway {
    child: Child,
    admin: String,
}

impl Place {
    fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::SeqCst);
        let path = std::env::temp_dir().join(format!("understudy-cli-{}-{number}", std::process::id()));
        let place = Self(path);
        fs::create_dir_all(place.plugin()).expect("a folder");
        place.write("openclaw.plugin.json", MANIFEST);
        place.write("index.js", CODE);
        let configuration = "listen: { api: \"127.0.0.1:0\", admin: \"127.0.0.1:0\" }\n\
            providers: { a: { api: openai-chat, base_url: \"http://127.0.0.1:1\", models: [m] } }\n\
            plugins:\n  load_paths: [./plugins]\n  entries:\n    quiet: { enabled: true } # ours\n";
        fs::write(place.config(), configuration).expect("written");
        place
    }

    fn plugin(&self) -> PathBuf {
        self.0.join("plugins/quiet")
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.plugin().join(name), text).expect("written");
    }

    fn config(&self) -> PathBuf {
        self.0.join("understudy.yaml")
    }

    /// Runs a command that asks nobody: nothing listens on this port.
    fn alone(&self, command: &[&str]) -> Said {
        run(command, "127.0.0.1:1", &self.config())
    }

    fn serve(&self) -> Gateway {
        let mut child = Command::new(env!("CARGO_BIN_EXE_understudy"))
            .args(["--json", "serve", "--config"])
            .arg(self.config())
            .env("UNDERSTUDY_STATE", self.0.join("state"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut text = String::new();
        for line in lines.map_while(Result::ok) {
            text.push_str(&line);
            if line == "}" {
                break;
            }
        }
        let said: Value = serde_json::from_str(&text).expect("where it listens");
        let admin = said["admin"].as_str().expect("an address").to_owned();
        Gateway { child, admin }
    }
}

impl Gateway {
    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn run(command: &[&str], admin: &str, config: &Path) -> Said {
    let output = Command::new(env!("CARGO_BIN_EXE_understudy"))
        .arg("--json")
        .args(command)
        .env("UNDERSTUDY_ADMIN", admin)
        .env("UNDERSTUDY_CONFIG", config)
        .env("UNDERSTUDY_STATE", config.with_file_name("state"))
        .output()
        .expect("it runs");
    Said {
        code: output.status.code(),
        json: serde_json::from_slice(&output.stdout).unwrap_or(Value::Null),
        errors: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn without_a_gateway_the_configuration_tells_what_would_be_loaded() {
    let place = Place::new();
    let listed = place.alone(&["plugins", "list", "--enabled"]);
    assert_eq!(
        (listed.code, &listed.json["registry"]["source"]),
        (Some(0), &json!("configuration")),
        "{}",
        listed.errors
    );
    let plugins = listed.json["plugins"].as_array().expect("a list");
    assert_eq!(
        (plugins.len(), &plugins[0]["id"], &plugins[0]["status"]),
        (1, &json!("quiet"), &json!("enabled"))
    );
    let index = place.alone(&["plugins", "registry"]);
    assert_eq!(
        (index.code, &index.json["state"]),
        (Some(0), &json!("cold")),
        "{}",
        index.errors
    );
    let loaded = place.alone(&["plugins", "inspect", "quiet", "--runtime"]);
    assert_eq!(
        (loaded.code, &loaded.json["plugin"]["shape"]),
        (Some(0), &json!("hook-only")),
        "{}",
        loaded.errors
    );
    fs::remove_file(place.config()).expect("gone");
    for command in [
        &["plugins", "list"][..],
        &["plugins", "reload", "quiet"],
        &["doctor"],
        &["status"],
    ] {
        assert_eq!(place.alone(command).code, Some(2), "{command:?}");
    }
}

#[test]
fn a_plugin_is_switched_in_the_file_and_nothing_else_is_touched() {
    let place = Place::new();
    fs::set_permissions(place.config(), fs::Permissions::from_mode(0o640)).expect("a mode");
    let before = fs::read_to_string(place.config()).expect("there");
    let off = place.alone(&["plugins", "disable", "quiet"]);
    assert_eq!(
        (off.code, &off.json["written"]),
        (Some(0), &json!(true)),
        "{}",
        off.errors
    );
    let after = fs::read_to_string(place.config()).expect("there");
    assert_eq!(after, before.replace("enabled: true", "enabled: false"));
    let mode = fs::metadata(place.config()).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert_eq!(place.alone(&["plugins", "disable", "quiet"]).json["written"], false);
    let listed = place.alone(&["plugins", "list", "--enabled"]);
    assert_eq!(listed.json["plugins"], json!([]));
    assert_eq!(place.alone(&["plugins", "enable", "quiet"]).code, Some(0));
    assert_eq!(fs::read_to_string(place.config()).expect("there"), before);
    let stranger = place.alone(&["plugins", "enable", "quite"]);
    assert_eq!(
        stranger.code,
        Some(1),
        "a name that is nobody's is written, and told of"
    );
    assert!(
        stranger.json["warnings"]
            .to_string()
            .contains("no plugin quite is found"),
        "{}",
        stranger.json
    );
}

#[test]
fn a_gateway_that_serves_the_file_takes_a_switch_at_once() {
    let place = Place::new();
    let gateway = place.serve();
    let ask = |command: &[&str]| run(command, &gateway.admin, &place.config());
    let off = ask(&["plugins", "disable", "quiet"]);
    assert_eq!(
        (off.code, &off.json["applied"]),
        (Some(0), &json!(true)),
        "{} {}",
        off.json,
        off.errors
    );
    assert_eq!(off.json["runtime"]["generation"], 2);
    let text = fs::read_to_string(place.config()).expect("there");
    assert!(text.contains("quiet: { enabled: false } # ours"), "{text}");
    assert_eq!(
        ask(&["plugins", "inspect", "quiet"]).json["plugin"]["status"],
        "disabled"
    );
    let on = ask(&["plugins", "enable", "quiet"]);
    assert_eq!(
        (on.code, &on.json["runtime"]["generation"]),
        (Some(0), &json!(3)),
        "{}",
        on.errors
    );
    assert_eq!(ask(&["plugins", "inspect", "quiet"]).json["plugin"]["status"], "loaded");
}

#[test]
fn what_everybody_may_write_to_is_present_but_blocked_until_it_is_mended_case_t44() {
    let place = Place::new();
    fs::set_permissions(place.plugin(), fs::Permissions::from_mode(0o777)).expect("a mode");
    let found = place.alone(&["plugins", "doctor"]);
    assert_eq!(
        (found.code, &found.json["ok"]),
        (Some(1), &json!(false)),
        "{}",
        found.errors
    );
    let error = &found.json["pluginErrors"][0];
    assert_eq!(
        (&error["id"], &error["failurePhase"]),
        (&json!("quiet"), &json!("discovery"))
    );
    assert!(
        error["error"]
            .as_str()
            .is_some_and(|why| why.contains("present but blocked")),
        "{error}"
    );
    assert_eq!(place.alone(&["doctor"]).code, Some(1));
    let mended = place.alone(&["doctor", "--fix"]);
    assert_eq!(
        (mended.code, mended.json["mended"].as_array().map(Vec::len)),
        (Some(0), Some(1)),
        "{}",
        mended.errors
    );
    assert_eq!(place.alone(&["plugins", "doctor"]).code, Some(0));
}

#[test]
fn of_two_with_one_id_the_first_is_used_and_the_other_is_named_case_t41() {
    let place = Place::new();
    let (first, second) = (place.plugin(), place.0.join("plugins/second"));
    fs::create_dir_all(&second).expect("a folder");
    fs::write(second.join("openclaw.plugin.json"), MANIFEST.replace("quiet", "QUIET")).expect("written");
    fs::write(second.join("index.js"), CODE).expect("written");
    let built_in = place.0.join("plugins/third");
    fs::create_dir_all(&built_in).expect("a folder");
    fs::write(
        built_in.join("openclaw.plugin.json"),
        MANIFEST.replace("quiet", "canon"),
    )
    .expect("written");
    fs::write(built_in.join("index.js"), CODE).expect("written");
    let found = place.alone(&["plugins", "doctor"]);
    assert_eq!(
        (found.code, &found.json["pluginErrors"]),
        (Some(1), &json!([])),
        "{}",
        found.errors
    );
    let shadowing = found.json["sourceShadowing"].as_array().expect("a list");
    let of = |id: &str| {
        let found = shadowing
            .iter()
            .find(|it| it["pluginId"].as_str().is_some_and(|own| own.eq_ignore_ascii_case(id)));
        found.unwrap_or_else(|| panic!("{id}: {shadowing:?}"))
    };
    let path = |path: &Path| json!(path.canonicalize().expect("real"));
    assert_eq!(of("quiet")["active"], path(&first));
    assert_eq!(of("quiet")["shadowedSource"], path(&second));
    assert_eq!(of("canon")["active"], path(&built_in));
}

#[test]
fn a_plugin_of_a_running_gateway_is_taken_anew_when_its_operator_asks() {
    let place = Place::new();
    let gateway = place.serve();
    let ask = |command: &[&str]| run(command, &gateway.admin, &place.config());
    let index = ask(&["plugins", "registry"]);
    assert_eq!(
        (index.code, &index.json["state"]),
        (Some(0), &json!("fresh")),
        "{} {}",
        index.json,
        index.errors
    );
    place.write("index.js", &format!("{CODE}// edited\n"));
    let index = ask(&["plugins", "registry"]);
    assert_eq!((index.code, &index.json["state"]), (Some(1), &json!("stale")));
    assert_eq!(index.json["differences"][0]["difference"], "its source has changed");
    let receipt = ask(&["plugins", "reload", "quiet"]);
    assert_eq!(
        (receipt.code, &receipt.json["outcome"]),
        (Some(0), &json!("applied")),
        "{}",
        receipt.errors
    );
    assert_eq!(
        (&receipt.json["generation"], &receipt.json["pluginIds"]),
        (&json!(2), &json!(["quiet"]))
    );
    assert_eq!(ask(&["plugins", "registry"]).json["state"], "fresh");
    let refused = ask(&["plugins", "reload", "nobody"]);
    assert_eq!(
        (refused.code, &refused.json["error"]["details"]["runtime"]["committed"]),
        (Some(1), &json!(false))
    );
    let status = ask(&["status", "--all"]);
    assert_eq!(
        (status.code, &status.json["generations"][0]["generation"]),
        (Some(0), &json!(2)),
        "{}",
        status.errors
    );
    assert!(status.json["reload"].is_null() && status.json["compatibility"].is_array());
    let listed = ask(&["plugins", "list"]);
    assert_eq!(
        (listed.code, &listed.json["registry"]["source"]),
        (Some(0), &json!("gateway"))
    );
    let one = ask(&["plugins", "inspect", "QUIET"]);
    assert_eq!((one.code, &one.json["plugin"]["shape"]), (Some(0), &json!("hook-only")));
    assert_eq!(one.json["plugin"]["activation"][0], "startup: enabled-by-name");
    let instances = &one.json["runtimeRetention"];
    assert_eq!(
        (&instances[0]["state"], &instances[1]),
        (&json!("serving"), &Value::Null),
        "{instances}"
    );
    assert_eq!(ask(&["plugins", "inspect", "nobody"]).code, Some(2));
}

#[test]
fn a_gateway_looks_at_all_folders_anew_when_its_operator_asks_or_hangs_up() {
    let place = Place::new();
    let text = fs::read_to_string(place.config()).expect("there");
    fs::write(place.config(), format!("{text}    late: {{ enabled: true }}\n")).expect("written");
    let gateway = place.serve();
    let ask = |command: &[&str]| run(command, &gateway.admin, &place.config());
    let status = |id: &str| ask(&["plugins", "inspect", id]).json["plugin"]["status"].clone();
    let nothing = ask(&["plugins", "refresh"]);
    assert_eq!(
        (nothing.code, &nothing.json["outcome"]),
        (Some(0), &json!("unchanged")),
        "{} {}",
        nothing.json,
        nothing.errors
    );
    let late = place.0.join("plugins/late");
    fs::create_dir_all(&late).expect("a folder");
    fs::write(late.join("openclaw.plugin.json"), MANIFEST.replace("quiet", "late")).expect("written");
    fs::write(late.join("index.js"), CODE.replace("quiet", "late")).expect("written");
    let index = ask(&["plugins", "registry"]);
    assert_eq!(index.json["refreshReasons"], json!(["plugin-new"]), "{}", index.json);
    let taken = ask(&["plugins", "refresh"]);
    assert_eq!(
        (taken.code, &taken.json["outcome"], &taken.json["pluginIds"]),
        (Some(0), &json!("applied"), &json!(["late"])),
        "{}",
        taken.json
    );
    assert_eq!((status("quiet"), status("late")), (json!("loaded"), json!("loaded")));
    fs::rename(place.plugin(), place.0.join("away")).expect("moved");
    gateway.signal("-HUP");
    while status("quiet") == "loaded" {}
    assert_eq!((status("quiet"), status("late")), (Value::Null, json!("loaded")));
    fs::write(place.config(), "plugins: [").expect("written");
    let refused = ask(&["plugins", "refresh"]);
    assert_eq!(
        (refused.code, &refused.json["error"]["outcome"]),
        (Some(1), &json!("rejected")),
        "{}",
        refused.json
    );
    assert_eq!(place.alone(&["plugins", "refresh"]).code, Some(2));
}

#[test]
fn without_a_gateway_the_doctor_of_plugins_loads_them_and_finds_one_that_cannot_register() {
    let place = Place::new();
    assert_eq!(place.alone(&["plugins", "doctor"]).code, Some(0));
    place.write(
        "index.js",
        &CODE.replace("api.on('model_call_ended', () => {})", "throw new Error('not today')"),
    );
    assert_eq!(
        place.alone(&["plugins", "list"]).code,
        Some(0),
        "whoever lists loads nothing"
    );
    let found = place.alone(&["plugins", "doctor"]);
    let error = &found.json["pluginErrors"][0];
    assert_eq!(
        (found.code, &error["id"], &error["failurePhase"]),
        (Some(1), &json!("quiet"), &json!("register")),
        "{} {}",
        found.json,
        found.errors
    );
}

#[test]
fn a_slot_that_stays_empty_and_an_engine_that_no_slot_names_are_told_with_the_switch() {
    let place = Place::new();
    let engine = "api.registerContextEngine({ id: 'quiet', async assemble({ messages }) { return { messages }; } })";
    place.write(
        "index.js",
        &CODE.replace("api.on('model_call_ended', () => {})", engine),
    );
    let gateway = place.serve();
    let ask = |command: &[&str]| run(command, &gateway.admin, &place.config());
    let said = |said: &Said, words: &str| {
        let warnings = said.json["warnings"].to_string();
        assert!(
            said.code == Some(0) && warnings.contains(words),
            "{} {}",
            said.json,
            said.errors
        );
    };
    assert_eq!(ask(&["plugins", "disable", "quiet"]).json["warnings"], json!([]));
    said(
        &ask(&["plugins", "enable", "quiet"]),
        "plugins.slots.contextEngine does not name",
    );
    drop(gateway);
    let text = fs::read_to_string(place.config()).expect("there");
    let chosen = text.replace("plugins:\n", "plugins:\n  slots: { contextEngine: quiet }\n");
    fs::write(place.config(), chosen).expect("written");
    said(
        &place.alone(&["plugins", "disable", "QUIET"]),
        "plugins.slots.contextEngine names quiet",
    );
}
