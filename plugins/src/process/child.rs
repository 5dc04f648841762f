//! One child process, from its start to its end.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tracing::Level;
use understudy_messages::plugin::CallError;

use super::ProcessOptions;
use super::lines::{Line, Lines};
use super::link::{Link, Outgoing};
use super::protocol::{FromChild, Kind, ToChild, VERSION};
use crate::declared::Declared;
use crate::log::{PluginLog, level};

/// The longest line of stderr.
const LOG_LINE: usize = 4 << 10;
/// How long a dead child's last lines may take to arrive.
const LAST_LINES: Duration = Duration::from_millis(100);

/// A child at work.
pub(super) struct Running {
    child: Child,
    /// `None` once it was told to stop.
    stdin: Option<ChildStdin>,
    stdout: Lines<ChildStdout>,
    stderr: Lines<ChildStderr>,
    /// Last: what is left of the group is killed when all else is let go.
    group: Group,
}

/// The child and all that it started.
struct Group(Option<Pid>);

impl Running {
    /// Starts the child and asks what it registers.
    pub(super) async fn start(options: &ProcessOptions, log: &PluginLog) -> Result<(Self, Declared), String> {
        let mut running = Self::spawn(options).map_err(|error| format!("could not be started: {error}"))?;
        let deadline = options.clock.now() + options.start;
        let registering = running.register(options, log);
        let registered = options.clock.timeout_at(deadline, registering).await;
        match registered.unwrap_or_else(|_| Err("did not register in time".to_owned())) {
            Ok(declared) => Ok((running, declared)),
            Err(why) => {
                running.end(options, false).await;
                Err(why)
            }
        }
    }

    fn spawn(options: &ProcessOptions) -> io::Result<Self> {
        let missing = || io::Error::new(io::ErrorKind::InvalidInput, "there is no command");
        let (program, arguments) = options.command.split_first().ok_or_else(missing)?;
        // a path counts from the plugin's folder, a bare name is looked for in PATH
        let program = match program.contains('/') {
            true => options.folder.join(program).into_os_string(),
            false => program.into(),
        };
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&options.folder).env_clear();
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command.envs(&options.env).process_group(0).kill_on_drop(true);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let lost = || io::Error::other("a pipe of it was lost");
        Ok(Self {
            group: Group(group),
            stdin: Some(child.stdin.take().ok_or_else(lost)?),
            stdout: Lines::new(child.stdout.take().ok_or_else(lost)?, options.longest_line),
            stderr: Lines::new(child.stderr.take().ok_or_else(lost)?, LOG_LINE),
            child,
        })
    }

    async fn register(&mut self, options: &ProcessOptions, log: &PluginLog) -> Result<Declared, String> {
        let register = ToChild::Register {
            id: &options.id,
            config: &options.settings,
            protocol: VERSION,
        };
        let stdin = self.stdin.as_mut().ok_or("was stopped")?;
        let asked = async {
            // a child that is gone is noticed below
            let _gone = stdin.write_all(&register.line()).await;
            std::future::pending().await
        };
        tokio::select! {
            declared = registered(&mut self.stdout, log) => declared,
            never = drain(&mut self.stderr, log) => never,
            never = asked => never,
        }
    }

    /// Carries calls and answers until the child ends, and says how it did.
    pub(super) async fn serve(
        &mut self,
        link: &Link,
        outgoing: &mut mpsc::Receiver<Outgoing>,
        options: &ProcessOptions,
        log: &PluginLog,
    ) -> String {
        let Some(stdin) = &mut self.stdin else {
            return "was stopped".to_owned();
        };
        let exit = async {
            let status = self.child.wait().await;
            options.clock.sleep(LAST_LINES).await;
            status
        };
        tokio::select! {
            () = answers(&mut self.stdout, link, log) => "closed its output".to_owned(),
            () = write(stdin, link, outgoing) => "closed its input".to_owned(),
            status = exit => status.map_or_else(|error| error.to_string(), |status| format!("ended: {status}")),
            () = link.hangs(options.patience) => "did not answer".to_owned(),
            never = drain(&mut self.stderr, log) => never,
        }
    }

    /// Ends the child and all that it started; politely, it is told before.
    pub(super) async fn end(mut self, options: &ProcessOptions, politely: bool) {
        let clock = &options.clock;
        if politely {
            let told = async {
                if let Some(mut stdin) = self.stdin.take() {
                    // a child that is gone needs no word
                    let _gone = stdin.write_all(&ToChild::Stop.line()).await;
                }
                self.child.wait().await
            };
            let ended = clock.timeout_at(clock.now() + options.grace / 2, told).await;
            if ended.is_err() {
                self.group.signal(Signal::TERM);
                let half = clock.now() + options.grace / 2;
                // what it did not do by now it is made to do
                let _late = clock.timeout_at(half, self.child.wait()).await;
            }
        }
        self.group.signal(Signal::KILL);
        // killed: there is nothing that it could wait for
        let _status = self.child.wait().await;
    }
}

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // nobody left is what is wanted
            let _nobody = kill_process_group(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// The registration: the first line of the protocol. What comes before it is for the log.
async fn registered(stdout: &mut Lines<ChildStdout>, log: &PluginLog) -> Result<Declared, String> {
    loop {
        let line = match stdout.next().await {
            Ok(Some(line)) => line,
            Ok(None) | Err(_) => return Err("ended before it registered".to_owned()),
        };
        let Some((said, line)) = read(line, log) else { continue };
        match said.kind {
            Kind::Registered => {
                return serde_json::from_slice(line).map_err(|error| format!("its registration is none: {error}"));
            }
            Kind::Error => {
                let words = CallError::failed(said.message.as_deref().unwrap_or_default());
                return Err(format!("its registration {words}"));
            }
            Kind::Log => log.say(level(said.level.as_deref()), &said.message.unwrap_or_default()),
            Kind::Result => {}
        }
    }
}

async fn answers(stdout: &mut Lines<ChildStdout>, link: &Link, log: &PluginLog) {
    while let Ok(Some(line)) = stdout.next().await {
        let Some((said, _)) = read(line, log) else { continue };
        let message = said.message.as_deref().unwrap_or_default();
        match (said.kind, said.call) {
            (Kind::Result, Some(call)) => link.answered(call, Ok(said.result)),
            (Kind::Error, Some(call)) => link.answered(call, Err(CallError::failed(message))),
            (Kind::Log, _) => log.say(level(said.level.as_deref()), message),
            (Kind::Error, None) => log.say(Level::ERROR, message),
            (Kind::Registered, _) | (Kind::Result, None) => log.say(Level::WARN, "said a line out of place"),
        }
    }
}

/// Reads a line of the protocol. What is none was meant for people, most likely, and goes to the log.
fn read<'a>(line: Line<'a>, log: &PluginLog) -> Option<(FromChild, &'a [u8])> {
    match line {
        Line::TooLong => log.say(Level::WARN, "said a line that is too long: passed over"),
        Line::Whole(line) => match serde_json::from_slice(line) {
            Ok(said) => return Some((said, line)),
            Err(_) if line.trim_ascii().is_empty() => {}
            Err(_) => log.say(Level::INFO, &String::from_utf8_lossy(line)),
        },
    }
    None
}

async fn write(stdin: &mut ChildStdin, link: &Link, outgoing: &mut mpsc::Receiver<Outgoing>) {
    while let Some(next) = outgoing.recv().await {
        if let Some(line) = link.line(next)
            && stdin.write_all(&line).await.is_err()
        {
            return;
        }
    }
}

/// Logs what comes on stderr. Its end says nothing: there is more to a child.
async fn drain<T>(stderr: &mut Lines<ChildStderr>, log: &PluginLog) -> T {
    while let Ok(Some(line)) = stderr.next().await {
        match line {
            Line::Whole(line) if line.trim_ascii().is_empty() => {}
            Line::Whole(line) => log.say(Level::INFO, &String::from_utf8_lossy(line)),
            Line::TooLong => log.say(Level::WARN, "said a line on stderr that is too long: passed over"),
        }
    }
    std::future::pending().await
}
