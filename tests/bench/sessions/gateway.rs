//! A gateway with its state on disk, looked at from outside.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use understudy_tests::bench::process::{Core, Pinning, Program};

use super::upstream::MODEL;

/// What every gateway of the bench is started with.
pub struct Options {
    /// The program.
    pub program: PathBuf,
    /// Where the upstream is.
    pub upstream: String,
    /// How long sessions idle in memory.
    pub idle: Duration,
}

/// A gateway, whose folder goes with it.
pub struct Gateway {
    folder: PathBuf,
    running: Option<Program>,
}

impl Gateway {
    /// Starts one that knows nothing.
    pub fn start(options: &Options, name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sessions-{name}"));
        let _old = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("the target directory can be written");
        let mut gateway = Self { folder, running: None };
        gateway.begin(options);
        gateway
    }

    /// Starts it again, in the same folder, and waits until it listens.
    pub fn begin(&mut self, options: &Options) {
        let file = self.folder.join("understudy.yaml");
        let (state, origin, idle) = (self.folder.join("state"), &options.upstream, options.idle.as_millis());
        let config = format!(
            r#"listen: {{ api: "127.0.0.1:0", admin: "127.0.0.1:0" }}
providers: {{ up: {{ api: openai-chat, base_url: "{origin}", models: [{MODEL}] }} }}
models: {{ main: {{ chain: [up/{MODEL}] }} }}
state: {{ dir: "{}" }}
defaults: {{ session: {{ idle: {idle}ms, durability: interval, resident: 1GiB }} }}
"#,
            state.display()
        );
        fs::write(&file, config).expect("the folder can be written");
        let file = file.to_str().expect("a path in UTF-8");
        let arguments = ["--json", "serve", "--config", file];
        self.running = Some(Program::start(
            Pinning::Free,
            Core::Measured,
            &options.program,
            &arguments,
        ));
    }

    fn program(&self) -> &Program {
        self.running.as_ref().expect("it was started")
    }

    /// Where clients find it.
    pub fn address(&self) -> SocketAddr {
        self.program().address
    }

    /// CPU time so far.
    pub fn cpu(&self) -> Duration {
        self.program().cpu()
    }

    /// What `/proc/<pid>/status` says of its memory, in bytes: `VmRSS` or `VmHWM`, the most that it ever was.
    pub fn memory(&self, field: &str) -> u64 {
        self.program().memory(field)
    }

    /// How many sessions are in a state.
    pub async fn sessions(&self, state: &str) -> u64 {
        let scrape = super::wire::get(self.program().admin.expect("a gateway has one"), "/metrics").await;
        let series = format!("understudy_sessions{{state=\"{state}\"}} ");
        let value = scrape.lines().find_map(|line| line.strip_prefix(&*series));
        value.map_or(0, |value| value.parse().expect("a whole number"))
    }

    /// How long the file is in which all sessions are.
    pub fn bytes_on_disk(&self) -> u64 {
        let file = fs::metadata(self.folder.join("state/state.redb"));
        file.expect("a file").len()
    }

    /// Ends it in order.
    pub fn stop(&mut self) {
        self.running.take().expect("it was started").stop();
    }

    /// Ends it without a word.
    pub fn kill(&mut self) {
        self.running = None;
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.kill();
        let _gone = fs::remove_dir_all(&self.folder);
    }
}
