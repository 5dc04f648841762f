//! The programs of the bench: each a child process with a core to run on, measured from outside, ended with its handle.

use std::fmt;
use std::fs;
use std::io::BufReader;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Deserializer, Value};

/// The length of a tick in `/proc/<pid>/stat`: user space sees 100 a second on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// Which core a program runs on, where it can be chosen.
#[derive(Clone, Copy)]
pub enum Core {
    /// For what is measured.
    Measured,
    /// For client and upstream.
    Other,
}

impl Core {
    fn number(self) -> &'static str {
        match self {
            Self::Measured => "0",
            Self::Other => "1",
        }
    }
}

/// Whether programs have cores of their own.
#[derive(Clone, Copy)]
pub enum Pinning {
    /// They have.
    Pinned,
    /// They get in each other's way.
    Free,
}

impl Pinning {
    /// Finds out, and moves this process to its core; to be called while it has one thread.
    pub fn of_this_machine() -> Self {
        let this = std::process::id().to_string();
        let measured_exists = succeeds(Command::new("taskset").args(["-c", Core::Measured.number(), "true"]));
        let moved =
            measured_exists && succeeds(Command::new("taskset").args(["-c", "-p", Core::Other.number(), &this]));
        if moved { Self::Pinned } else { Self::Free }
    }

    fn command(self, core: Core, program: &Path) -> Command {
        match self {
            Self::Free => Command::new(program),
            Self::Pinned => {
                let mut command = Command::new("taskset");
                command.args(["-c", core.number()]).arg(program);
                command
            }
        }
    }
}

impl fmt::Display for Pinning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pinned => "pinned: what is measured on core 0, client and upstream on core 1",
            Self::Free => "NOT PINNED (no taskset, or fewer than two cores): all programs get in each other's way",
        })
    }
}

/// A running program.
pub struct Program {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// Where its administration does, if it has any.
    pub admin: Option<SocketAddr>,
}

impl Program {
    /// Starts `program` and waits until it has told where it listens: JSON on its standard output, whose `api` is a URL
    /// or an address.
    pub fn start(pinning: Pinning, core: Core, program: &Path, arguments: &[&str]) -> Self {
        let mut command = pinning.command(core, program);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let said = Deserializer::from_reader(output).into_iter::<Value>().next();
        let said = said.and_then(Result::ok).unwrap_or_default();
        let address = address(&said["api"]);
        Self {
            address: address.unwrap_or_else(|| panic!("{} {arguments:?} did not come up: {said}", program.display())),
            admin: self::address(&said["admin"]),
            child,
        }
    }

    /// What `/proc/<pid>/status` says of its memory, in bytes: `VmRSS`, or `VmHWM`, the most that this ever was.
    pub fn memory(&self, field: &str) -> u64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("Linux, and a live program");
        let mut lines = status
            .lines()
            .filter_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        let kib = lines.next().and_then(|said| said.trim().strip_suffix(" kB"));
        kib.and_then(|kib| kib.parse::<u64>().ok()).expect("a number") << 10
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(mut self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// CPU time so far: user and system, all threads. Accurate to a tick.
    pub fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("Linux, and a live program");
        // the second field is a name in parentheses that may hold anything
        let (_, fields) = stat.rsplit_once(") ").expect("a name");
        let ticks = fields
            .split(' ')
            .skip(11)
            .take(2)
            .map(|field| field.parse::<u32>().expect("ticks"));
        TICK * ticks.sum::<u32>()
    }
}

fn address(said: &Value) -> Option<SocketAddr> {
    let address = said.as_str()?.trim_start_matches("http://").trim_end_matches("/v1");
    Some(address.parse().expect("an address"))
}

impl Drop for Program {
    fn drop(&mut self) {
        let _already_dead = self.child.kill();
        let _already_waited_for = self.child.wait();
    }
}

/// The gateway as it is shipped, built if missing or stale.
pub fn build_gateway() -> PathBuf {
    eprintln!("building the gateway: cargo build --release -p understudy");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "-p", "understudy"]);
    // what cargo told the bench about itself is not meant for the gateway's build scripts
    for (name, _) in
        std::env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
    {
        cargo.env_remove(name);
    }
    assert!(succeeds(&mut cargo), "the gateway does not build");
    let bench = std::env::current_exe().expect("an executable");
    let profile = bench.ancestors().nth(2).expect("target/release/deps");
    profile.join("understudy")
}

fn succeeds(command: &mut Command) -> bool {
    command
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
