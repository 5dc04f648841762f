//! The gateway that is started to be measured: this program once more, as everybody runs it, in a process of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Deserializer, Value};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdout, Command};
use understudy_messages::clock::Clock;

/// How long it may take to come up.
const START: Duration = Duration::from_secs(30);
/// How long it may take to end.
const END: Duration = Duration::from_secs(10);
/// The most that it says about where it listens.
const LONGEST: usize = 64 << 10;

/// A running gateway; dropped, it is killed.
pub(crate) struct Gateway {
    child: Child,
    folder: PathBuf,
    /// The configuration that it was started with.
    pub(crate) config: Value,
    /// Its base URL.
    pub(crate) api: String,
    /// Its admin listener.
    pub(crate) admin: String,
    pub(crate) pid: u32,
}

impl Gateway {
    /// Starts `program` and waits until it serves.
    ///
    /// # Errors
    /// It does not come up.
    pub(crate) async fn start(program: &Path, mut config: Value, clock: &Clock) -> anyhow::Result<Self> {
        let name = format!("understudy-load-{}-{:08x}", std::process::id(), fastrand::u32(..));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        // what its user keeps is left alone
        if config["state"]["dir"].is_null() && config["state"]["store"] != "memory" {
            config["state"]["dir"] = folder.join("state").display().to_string().into();
        }
        let file = folder.join("understudy.yaml");
        // JSON is YAML
        let written =
            std::fs::write(&file, config.to_string()).with_context(|| format!("cannot write {}", file.display()));
        written.inspect_err(|_| forget(&folder))?;
        let mut command = Command::new(program);
        command.args(["--json", "serve", "--config"]).arg(&file);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let started = command
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()));
        let mut child = started.inspect_err(|_| forget(&folder))?;
        let said = match child.stdout.take() {
            Some(out) => clock
                .timeout_at(clock.now() + START, first_object(out))
                .await
                .ok()
                .flatten(),
            None => None,
        };
        let pid = child.id();
        let (Some(said), Some(pid)) = (said, pid) else {
            forget(&folder);
            anyhow::bail!("the gateway did not come up within 30 s, or ended: what it said stands above");
        };
        let text = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
        Ok(Self {
            api: text("api"),
            admin: text("admin"),
            child,
            folder,
            config,
            pid,
        })
    }

    /// Tells it to end, and waits until it has.
    pub(crate) async fn stop(mut self, clock: &Clock) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let told = pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok());
        if told {
            // the rest is killed when it is dropped
            let _ended = clock.timeout_at(clock.now() + END, self.child.wait()).await;
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        forget(&self.folder);
    }
}

fn forget(folder: &Path) {
    let _already_gone = std::fs::remove_dir_all(folder);
}

/// The first JSON that it writes; it writes nothing else.
async fn first_object(mut out: ChildStdout) -> Option<Value> {
    let mut said = Vec::new();
    while said.len() < LONGEST && out.read_buf(&mut said).await.ok()? > 0 {
        if let Some(Ok(object)) = Deserializer::from_slice(&said).into_iter::<Value>().next() {
            return Some(object);
        }
    }
    None
}
