//! A gateway in a process of its own, which may be killed at any moment, and what it leaves behind.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use understudy_messages::clock::Clock;
use understudy_providers::sim::{SimOptions, Simulator};

/// A plugin with a service. Where `hold-X` lies in its folder of marks, it says `at-X` there and goes no further.
const STAGE: &str = r#"read -r line
mark=${line#*\"mark\":\"}; mark=${mark%%\"*}
reach() { if [ -e "$mark/hold-$1" ]; then : > "$mark/at-$1"; cat > /dev/null; exit; fi; }
reach register
echo '{"type":"registered","hooks":[],"services":[{"id":"s"}]}'
while read -r line; do
  case "$line" in
    *'"turn":"start"'*) reach start;;
    *'"turn":"stop"'*) reach stop;;
    *'"type":"stop"'*) reach dispose; exit;;
  esac
  call=${line#*\"call\":}; call=${call%%[!0-9]*}
  echo "{\"type\":\"result\",\"call\":$call,\"result\":{}}"
done
"#;

/// What the plugin becomes when its service is not to start.
const BROKEN: (&str, &str) = (
    "reach start;;",
    "call=${line#*\\\"call\\\":}; call=${call%%[!0-9]*}; echo \"{\\\"type\\\":\\\"error\\\",\\\"call\\\":$call,\\\"message\\\":\\\"no\\\"}\"; continue;;",
);

/// A guard that lets everything pass.
const GATE: &str = r#"read -r line
echo '{"type":"registered","hooks":[{"hook":"before_agent_run"},{"hook":"before_tool_call"}]}'
while read -r line; do
  call=${line#*\"call\":}; call=${call%%[!0-9]*}
  echo "{\"type\":\"result\",\"call\":$call}"
done
"#;

/// A folder with a configuration, plugins and state; it goes with its test.
pub(crate) struct Place {
    folder: PathBuf,
    simulator: Simulator,
    /// Takes connections and never answers.
    silent: TcpListener,
}

impl Place {
    pub(crate) async fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        understudy::install_tls();
        let number = MADE.fetch_add(1, Ordering::SeqCst);
        let folder = std::env::temp_dir().join(format!("understudy-kill-{}-{number}", std::process::id()));
        let _old = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("marks")).expect("a folder");
        let plan = serde_json::from_value(json!({
            "default": { "calls": [{ "answer": { "text": "hello" } }] },
            "up/poor": { "calls": [{ "status": 402 }] },
        }));
        let options = SimOptions {
            clock: Clock::real(),
            ..SimOptions::default()
        };
        let simulator = Simulator::start(plan.expect("a plan"), options)
            .await
            .expect("a simulator");
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let place = Self {
            folder,
            simulator,
            silent,
        };
        place.plugin("stage", STAGE);
        place
    }

    pub(crate) fn plugin(&self, id: &str, script: &str) {
        let folder = self.plugins().join(id);
        fs::create_dir_all(&folder).expect("a folder");
        let manifest = format!("{{ id: '{id}', command: ['sh', 'run.sh'], configSchema: {{}} }}");
        fs::write(folder.join("openclaw.plugin.json"), manifest).expect("written");
        fs::write(folder.join("run.sh"), script).expect("written");
    }

    /// The plugin again, under another name; its service starts, or it does not.
    pub(crate) fn another(&self, id: &str, starts: bool) {
        let broken = STAGE.replace(BROKEN.0, BROKEN.1);
        self.plugin(id, if starts { STAGE } else { &broken });
    }

    /// The entry of a plugin of this kind.
    pub(crate) fn entry(&self, id: &str) -> String {
        format!("{id}: {{ enabled: true, config: {{ mark: \"{}\" }} }}", self.marks())
    }

    pub(crate) fn gate(&self) {
        self.plugin("gate", GATE);
    }

    /// The same plugin, with code that guards nothing.
    pub(crate) fn guardless(&self) {
        self.plugin(
            "gate",
            &GATE.replace(r#"{"hook":"before_agent_run"},{"hook":"before_tool_call"}"#, ""),
        );
    }

    pub(crate) fn plugins(&self) -> PathBuf {
        self.folder.join("plugins")
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.join("understudy.yaml")
    }

    pub(crate) fn home(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    pub(crate) fn text(&self) -> String {
        fs::read_to_string(self.file()).expect("a file")
    }

    pub(crate) fn write(&self, text: &str) {
        fs::write(self.file(), text).expect("written");
    }

    /// A configuration in which this model answers for `main`, and `round` makes the plugin another one.
    pub(crate) fn configuration(&self, model: &str, round: u32) -> String {
        self.configured(
            model,
            &format!(
                "stage: {{ enabled: true, config: {{ mark: \"{}\", round: {round} }} }}",
                self.marks()
            ),
            "",
        )
    }

    pub(crate) fn configured(&self, model: &str, entries: &str, further: &str) -> String {
        let (sim, silent) = (self.simulator.base_url("up"), self.silent.local_addr().expect("bound"));
        format!(
            "listen: {{ api: \"127.0.0.1:0\", admin: \"127.0.0.1:0\" }}\n\
             providers:\n  up: {{ api: openai-chat, base_url: \"{sim}\", models: [one, two] }}\n  \
             silent: {{ api: openai-chat, base_url: \"http://{silent}\", models: [m] }}\n\
             models:\n  main: {{ chain: [up/{model}] }}\n  held: {{ chain: [silent/m] }}\n\
             plugins:\n  load_paths: [./plugins]\n  entries: {{ {entries} }}\n{further}"
        )
    }

    fn marks(&self) -> String {
        self.folder.join("marks").to_str().expect("UTF-8").to_owned()
    }

    /// From now on the plugin goes no further than this.
    pub(crate) fn hold(&self, phase: &str) {
        fs::write(self.folder.join(format!("marks/hold-{phase}")), "").expect("written");
    }

    pub(crate) fn is_at(&self, phase: &str) -> bool {
        self.folder.join(format!("marks/at-{phase}")).exists()
    }

    /// Nothing is held any more.
    pub(crate) fn release(&self) {
        let _old = fs::remove_dir_all(self.folder.join("marks"));
        fs::create_dir(self.folder.join("marks")).expect("a folder");
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_understudy"));
        command
            .arg("--json")
            .args(arguments)
            .env("UNDERSTUDY_CONFIG", self.file())
            .env("UNDERSTUDY_STATE", self.state())
            // nobody listens there
            .env("UNDERSTUDY_ADMIN", "127.0.0.1:1");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it runs")
    }

    pub(crate) fn serve(&self) -> Gateway {
        self.start(self.command(&["serve"]))
    }

    fn log(&self) -> File {
        let mut options = File::options();
        options
            .append(true)
            .create(true)
            .open(self.folder.join("log"))
            .expect("a log")
    }

    /// What every gateway here has said.
    pub(crate) fn logged(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    pub(crate) fn start(&self, command: Command) -> Gateway {
        self.start_saying(command, self.log().into())
    }

    /// A gateway whose log nobody reads: its end of the pipe is closed, as its output is.
    pub(crate) fn start_unheard(&self, command: Command) -> Gateway {
        self.start_saying(command, Stdio::piped())
    }

    fn start_saying(&self, mut command: Command, log: Stdio) -> Gateway {
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().expect("it starts");
        drop(child.stderr.take());
        let mut text = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        while serde_json::from_str::<Value>(&text).is_err() {
            let read = out.read_line(&mut text).expect("readable");
            assert_ne!(read, 0, "it ended: {text}{}", self.logged());
        }
        let said: Value = serde_json::from_str(&text).expect("JSON");
        let url = |key: &str| said[key].as_str().expect("an address").to_owned();
        let client = Client::builder().no_proxy().pool_max_idle_per_host(0).build();
        Gateway {
            api: url("api"),
            admin: url("admin"),
            client: client.expect("a client"),
            child,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.folder);
    }
}

/// A running gateway. Dropped, it is killed.
pub(crate) struct Gateway {
    pub(crate) api: String,
    pub(crate) admin: String,
    pub(crate) client: Client,
    child: Child,
}

impl Gateway {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where operators ask.
    pub(crate) fn admin(&self) -> String {
        self.admin.clone()
    }

    /// SIGKILL, and it is gone.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }

    /// SIGHUP.
    pub(crate) fn hang_up(&self) {
        let sent = Command::new("kill").args(["-HUP", &self.pid().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// SIGTERM, and it has ended in order.
    pub(crate) fn end(mut self) {
        let sent = Command::new("kill").arg(self.pid().to_string()).status();
        assert!(sent.expect("kill runs").success());
        assert!(self.child.wait().expect("waited").success());
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        let response = self.client.get(format!("{}{path}", self.admin)).send().await;
        read(response.expect("a response")).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        let request = self.client.post(format!("{}{path}", self.admin));
        let request = request
            .header("content-type", "application/json")
            .body(body.to_string());
        read(request.send().await.expect("a response")).await
    }

    /// A change that somebody asks for who may never hear of it.
    pub(crate) fn put(&self, text: &str) -> tokio::task::JoinHandle<Option<(StatusCode, Value)>> {
        let request = self.client.put(format!("{}/admin/v1/config", self.admin));
        let request = request.header("if-match", "*").body(text.to_owned());
        Handle::current().spawn(async move {
            let response = request.send().await.ok()?;
            let status = response.status();
            let body = response.bytes().await.ok()?;
            Some((status, serde_json::from_slice(&body).ok()?))
        })
    }

    /// The same for plugins.
    pub(crate) fn reload(&self, plugin: &str) -> tokio::task::JoinHandle<Option<StatusCode>> {
        let request = self.client.post(format!("{}/admin/v1/plugins/reload", self.admin));
        let body = json!({ "plugins": [plugin] }).to_string();
        let request = request.header("content-type", "application/json").body(body);
        Handle::current().spawn(async move { Some(request.send().await.ok()?.status()) })
    }

    /// A turn, and who answered.
    pub(crate) async fn turn(&self) -> (StatusCode, String, String) {
        let response = self.chat("main").send().await.expect("a response");
        let served_by = response.headers().get("x-understudy-served-by");
        let served_by = served_by.map_or("-", |it| it.to_str().expect("text")).to_owned();
        (response.status(), served_by, response.text().await.expect("a body"))
    }

    /// A turn that nobody will answer: it is inside when this returns.
    pub(crate) async fn held_turn(&self) {
        let request = self.chat("held");
        Handle::current().spawn(async move {
            let _killed = request.send().await;
        });
        while self.get("/admin/v1/status").await.1["turns_in_flight"] != 1 {}
    }

    fn chat(&self, model: &str) -> reqwest::RequestBuilder {
        let body = json!({ "model": model, "messages": [{ "role": "user", "content": "hello" }] });
        let request = self.client.post(format!("{}/chat/completions", self.api));
        request
            .header("content-type", "application/json")
            .body(body.to_string())
    }

    pub(crate) async fn serving(&self) -> String {
        self.get("/admin/v1/config").await.1["serving"]
            .as_str()
            .expect("a revision")
            .to_owned()
    }

    /// It serves this text and nothing else: the file holds it, turns go where it says, and it is ready.
    pub(crate) async fn serves(&self, place: &Place, text: &str, model: &str) {
        assert_eq!(place.text(), text, "the file");
        let (_, config) = self.get("/admin/v1/config").await;
        assert_eq!(config["serving"], config["revision"], "nothing waits: {config}");
        assert!(config["fault"].is_null(), "{config}");
        let (status, ready) = self.get("/readyz").await;
        assert_eq!(status, StatusCode::OK, "{ready}");
        let (status, served_by, body) = self.turn().await;
        assert_eq!(
            (status, &*served_by),
            (StatusCode::OK, &*format!("up/{model}")),
            "{body}"
        );
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _gone = (self.child.kill(), self.child.wait());
    }
}

pub(crate) async fn read(response: reqwest::Response) -> (StatusCode, Value) {
    let status = response.status();
    let body = response.bytes().await.expect("a body");
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

/// Removes what the instance of a plugin was made of.
pub(crate) fn remove_capture(state: &Path, id: &str) {
    let all = fs::read_dir(state.join("captures")).expect("captures");
    let is_its = |folder: &PathBuf| {
        let manifest = fs::read_to_string(folder.join("openclaw.plugin.json")).expect("a manifest");
        manifest.contains(&format!("'{id}'"))
    };
    let found: Vec<PathBuf> = all.map(|it| it.expect("one").path()).filter(is_its).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    fs::remove_dir_all(&found[0]).expect("removed");
}

/// The capture folders that lie in the state directory.
pub(crate) fn captures(state: &Path) -> usize {
    fs::read_dir(state.join("captures")).map_or(0, Iterator::count)
}

/// Those of them that were not copied to their end.
pub(crate) fn unfinished(state: &Path) -> usize {
    let all = fs::read_dir(state.join("captures")).expect("captures");
    all.filter(|it| !it.as_ref().expect("one").path().join("run.sh").exists())
        .count()
}
