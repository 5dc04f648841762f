//! Many sessions: what one takes of memory while it idles there, what is left when it has gone to the disk, and what a turn
//! costs when a great many are known.
//!
//!     cargo bench -p understudy-tests --bench sessions [-- sessions]
//!
//! The gateway runs as everybody runs it, with its state on disk; clients and upstream share this process. A second gateway
//! knows few sessions: the two are asked in turn, and only the ratio within one run means anything. Sessions leave memory
//! because they idle, all at about the same time. It fails when a target is missed or a session is lost.
//!
//! `UNDERSTUDY_GATEWAY`: a program to measure in place of the one that is built.

mod clients;
mod gateway;
mod report;
mod upstream;
mod wire;

use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use understudy_messages::clock::Clock;
use understudy_tests::bench::{is_asked_for, machine, median, process};

use self::clients::{Turn, ask};
use self::gateway::{Gateway, Options};
use self::report::Report;

/// How many sessions are created unless said otherwise.
const SESSIONS: u64 = 100_000;
/// How many of them are in memory at once while that is measured, at most.
const AT_ONCE: u64 = 100_000;
/// Sessions that come before, at most: what grows once and to a bound has grown then.
const WARM: u64 = 20_000;
/// What few are.
const FEW: u64 = 1_000;
/// Turns whose cost is taken, each time of so few sessions that they stay in memory.
const TURNS: u64 = 5_120;
const SPEAKING: u64 = 256;
/// How often that is done.
const ROUNDS: usize = 5;
/// How long a start may take.
const START: Duration = Duration::from_secs(30);
/// More than `session.interval`.
const WRITTEN: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    if !is_asked_for() {
        return ExitCode::SUCCESS;
    }
    let given = std::env::args().find_map(|argument| argument.parse().ok());
    let program = std::env::var_os("UNDERSTUDY_GATEWAY").map_or_else(process::build_gateway, PathBuf::from);
    println!("{}", machine::describe());
    let report = actix_web::rt::System::new().block_on(async {
        let mut stage = Stage::set(program, given.unwrap_or(SESSIONS)).await;
        stage.play().await;
        stage.report
    });
    println!("{report}");
    ExitCode::from(u8::from(!report.is_fine()))
}

/// Two gateways of one kind.
struct Stage {
    options: Options,
    many: Gateway,
    few: Gateway,
    sessions: u64,
    clock: Clock,
    report: Report,
}

impl Stage {
    async fn set(program: PathBuf, sessions: u64) -> Self {
        let (clock, mut report) = (Clock::real(), Report::default());
        let mut options = Options {
            program,
            upstream: upstream::serve().await,
            idle: Duration::from_secs(3_600),
        };
        let few = Gateway::start(&options, "few");
        let began = clock.now();
        report.lost(ask(few.address(), 0..FEW, Turn::First).await);
        let each = clock.now().duration_since(began).as_secs_f64() / FEW as f64;
        // all that are to be in memory at once come within that time, be the machine a quarter as fast by then
        let idle = Duration::from_secs_f64(4.0 * each * sessions.min(AT_ONCE) as f64);
        options.idle = idle.max(Duration::from_secs(10));
        eprintln!(
            "{:.0} first turns a second; sessions idle for {:.0?}",
            1.0 / each,
            options.idle
        );
        Self {
            many: Gateway::start(&options, "many"),
            few,
            options,
            sessions,
            clock,
            report,
        }
    }

    async fn play(&mut self) {
        let at_once = self.sessions.min(AT_ONCE);
        self.in_memory(at_once).await;
        if at_once < self.sessions {
            self.create(at_once..self.sessions).await;
            self.all_gone().await;
        }
        let known = self.sessions + WARM.min(at_once);
        self.report.file(known, self.many.bytes_on_disk());
        self.cost().await;
        self.answer().await;
        self.report.peak(self.many.memory("VmHWM"));
        self.again().await;
    }

    /// Memory before so many sessions came, while they idle in it, and when they have gone.
    async fn in_memory(&mut self, sessions: u64) {
        self.warm(sessions.min(WARM)).await;
        let before = self.many.memory("VmRSS");
        self.create(0..sessions).await;
        let idle = self.many.sessions("idle").await;
        assert_eq!(
            idle, sessions,
            "too slow: the first have left memory before the last came"
        );
        let full = self.many.memory("VmRSS");
        self.all_gone().await;
        self.report.memory(sessions, [before, full, self.many.memory("VmRSS")]);
    }

    /// What grows once and to a bound has grown, and nothing that is to be counted has been in this process's memory: what lies
    /// in the file is looked at, which leaves it there.
    async fn warm(&mut self, sessions: u64) {
        let numbers = u64::MAX - sessions..u64::MAX;
        self.create(numbers.clone()).await;
        self.many.stop();
        self.many.begin(&self.options);
        self.report
            .lost(ask(self.many.address(), numbers.clone(), Turn::View).await);
        let some = numbers.start..numbers.start + sessions / 20;
        self.report.lost(ask(self.many.address(), some, Turn::Later(3)).await);
        self.all_gone().await;
    }

    /// First turns.
    async fn create(&mut self, numbers: Range<u64>) {
        let (cpu, count) = (self.many.cpu(), numbers.end - numbers.start);
        self.report.lost(ask(self.many.address(), numbers, Turn::First).await);
        self.report.cpu("a first turn", count, self.many.cpu() - cpu);
    }

    /// Waits until no session is in memory, and for what is given back only later.
    async fn all_gone(&self) {
        while self.many.sessions("idle").await + self.many.sessions("active").await > 0 {
            self.clock.sleep(Duration::from_secs(1)).await;
        }
        for _ in 0..12 {
            self.clock.sleep(Duration::from_secs(1)).await;
            let _answered = ask(self.many.address(), 0..256, Turn::Unnamed).await;
        }
    }

    /// What a turn costs where few and where many are known, in turn.
    async fn cost(&mut self) {
        let mut ratios = Vec::new();
        for round in 0..=ROUNDS {
            let few = self.turns(&self.few).await;
            let many = self.turns(&self.many).await;
            self.report.lost(few.0 + many.0);
            // the first round brings them to memory
            if round > 0 {
                let few = self.report.cpu("a turn, few known", TURNS, few.1);
                let many = self.report.cpu("a turn, all known", TURNS, many.1);
                ratios.push(many / few);
            }
        }
        self.report.ratio(median(ratios.into_iter()));
    }

    /// How many were lost, and the CPU time of all.
    async fn turns(&self, gateway: &Gateway) -> (u64, Duration) {
        let cpu = gateway.cpu();
        let sessions = (0..TURNS).map(|turn| turn % SPEAKING);
        let lost = ask(gateway.address(), sessions, Turn::Named).await;
        (lost, gateway.cpu() - cpu)
    }

    /// Each session is asked what was said in it, in another order than they came.
    async fn answer(&mut self) {
        let cpu = self.many.cpu();
        let lost = ask(self.many.address(), scattered(self.sessions), Turn::Later(3)).await;
        self.report.lost(lost);
        self.report
            .cpu("a turn of a session on disk", self.sessions, self.many.cpu() - cpu);
    }

    /// A stop and a start, a kill and a start: what was said before is there.
    async fn again(&mut self) {
        let began = self.clock.now();
        self.many.stop();
        self.report.took("stop", self.clock.now() - began, None);
        self.start("start after a stop", Turn::Later(5)).await;
        self.clock.sleep(WRITTEN).await;
        self.many.kill();
        self.start("start after a kill", Turn::Later(7)).await;
    }

    async fn start(&mut self, what: &'static str, turn: Turn) {
        let began = self.clock.now();
        self.many.begin(&self.options);
        self.report.took(what, self.clock.now() - began, Some(START));
        let some = scattered(self.sessions).take(1_000);
        self.report.lost(ask(self.many.address(), some, turn).await);
    }
}

/// The first so many numbers, in another order.
fn scattered(count: u64) -> impl Iterator<Item = u64> {
    // a prime that no count is a multiple of
    (0..count).map(move |number| number * 2_654_435_761 % count)
}
