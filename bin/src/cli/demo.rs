//! `understudy demo`: simulator and gateway in one process, sessions through an outage, and a referee for every number.

mod driver;
mod props;
mod referee;
mod reloads;
mod scenes;
mod script;
mod stage;
mod story;
mod witness;

use std::pin::pin;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use understudy_messages::clock::Clock;
use understudy_messages::events::{Event, SharedEvent};

use self::driver::Driver;
use self::stage::Stage;
use super::signals::stop_asked;
use super::{Exit, log, output};
use crate::config::{LogFormat, LogSettings};
use crate::scrape::Scrape;

/// How long the last turns may take to end once every client has its answer.
const SETTLE: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How many sessions run at the same time.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u16).range(1..=5000))]
    sessions: u16,
    /// How many turns each of them takes.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=100))]
    turns: u16,
    /// Go on serving afterwards, with commands to try.
    #[arg(long)]
    keep: bool,
}

pub(super) async fn run(args: Args, json: bool) -> anyhow::Result<Exit> {
    let level = tracing_subscriber::filter::LevelFilter::ERROR;
    log::start(LogSettings {
        level,
        format: LogFormat::Pretty,
    });
    let stage = Stage::set().await?;
    if !json {
        output::say(&story::opening(&stage, &args));
    }
    let driver = Driver::new(stage.app.api())?;
    let turns = driver::turns_in_all(args.sessions, args.turns);
    let tap = Events::new(stage.app.tap().subscribe());
    let reloads = reloads::ask(stage.app.admin());
    let work = async { tokio::join!(driver.run(args.sessions, args.turns), reloads) };
    let ((receipts, refused), told) = tap.during(work, turns).await;
    let scrape = scrape(&stage).await?;
    let mut verdict = referee::judge(&stage, &receipts, &told, &scrape).await;
    verdict.complaints.extend(refused);
    match json {
        true => output::say_json(&story::for_programs(&stage, &verdict)),
        false => output::say(&story::ending(&verdict)),
    }
    if args.keep {
        keep(&stage, json).await?;
    }
    let exit = if verdict.sound() { Exit::Fine } else { Exit::Finding };
    stage.strike().await;
    Ok(exit)
}

async fn keep(stage: &Stage, json: bool) -> anyhow::Result<()> {
    if !json {
        output::say(&story::encore(stage));
    }
    stop_asked().await
}

async fn scrape(stage: &Stage) -> anyhow::Result<Scrape> {
    let url = format!("http://{}/metrics", stage.app.admin());
    let client = reqwest::Client::builder().no_proxy().build()?;
    let response = client
        .get(&url)
        .send()
        .await
        .with_context(|| format!("no scrape from {url}"))?;
    Ok(Scrape::parse(&response.text().await?))
}

/// What the tap told, and how much of it was missed.
#[derive(Default)]
struct Told {
    events: Vec<SharedEvent>,
    ended: usize,
    missed: u64,
}

/// Reads the event tap.
struct Events {
    reader: Receiver<SharedEvent>,
    told: Told,
}

impl Events {
    fn new(reader: Receiver<SharedEvent>) -> Self {
        Self {
            reader,
            told: Told::default(),
        }
    }

    /// Reads while `work` runs, and then until `turns` turns have ended or a short while has passed.
    async fn during<T>(mut self, work: impl Future<Output = T>, turns: usize) -> (T, Told) {
        let mut work = pin!(work);
        let done = loop {
            tokio::select! {
                biased;
                () = self.read() => {}
                done = &mut work => break done,
            }
        };
        let clock = Clock::real();
        let deadline = clock.now() + SETTLE;
        while self.told.ended < turns && clock.timeout_at(deadline, self.read()).await.is_ok() {}
        (done, self.told)
    }

    async fn read(&mut self) {
        match self.reader.recv().await {
            Ok(event) => {
                self.told.ended += usize::from(matches!(*event, Event::TurnEnded(_)));
                self.told.events.push(event);
            }
            Err(RecvError::Lagged(missed)) => self.told.missed += missed,
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}
