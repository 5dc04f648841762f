//! The stage of a case: upstreams, app and player set up, and what was seen of them brought together.

use tokio::runtime::{Builder, Runtime};
use understudy::AppOptions;
use understudy::config::{ConfigError, Problem, ServerConfig};
use understudy_messages::clock::Clock;
use understudy_messages::ids::ModelRef;
use understudy_providers::sim::journal::JournalLimits;
use understudy_providers::sim::{SimOptions, Simulator};
use understudy_tests::gateway::Gateway;

use crate::case::Case;
use crate::hooks;
use crate::log::Log;
use crate::operator::Operator;
use crate::player::{Player, Stage};
use crate::plugins::{self, Heard, Misfits};
use crate::seen::{self, Page, Seen};
use crate::windows;

/// What is kept of single calls where memory is measured: no more after a load than before.
const LEAN: JournalLimits = JournalLimits {
    records: 100,
    body_bytes: 1 << 20,
};

/// Plays the case; an error when it could not be played to its end.
pub(crate) fn play(case: &Case, log: &Log) -> Result<Seen, String> {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let clock = Clock::movable();
    let lean = case.expect.rss.is_some();
    let options = SimOptions {
        clock: clock.clone(),
        journal: match lean {
            true => LEAN,
            false => JournalLimits::default(),
        },
        recordings: Some(understudy_tests::shared().join("recordings")),
        ..SimOptions::default()
    };
    let simulator = runtime.block_on(Simulator::start(case.upstreams.clone(), options));
    let simulator = simulator.map_err(|error| error.to_string())?;
    let (heard, misfits) = (Heard::new(lean), Misfits::default());
    let (hosts, entries) = plugins::hosts(&case.config.plugins, case.expect.is_about_tools(), &heard, &misfits);
    let neutral = case.config.to_yaml(|provider| base_url(case, &simulator, provider));
    let yaml = neutral.clone() + &entries.to_yaml();
    let config = ServerConfig::parse(&yaml, &|_| None).map_err(|error| refused(&error))?;
    // one thread, which the player's round trips go through
    let options = AppOptions {
        clock: clock.clone(),
        arbiters: 1,
    };
    let gateway = Gateway::start_hosting(&yaml, options, hosts);
    clock.hold();
    let stage = Stage {
        gateway: &gateway,
        simulator: &simulator,
        clock: clock.clone(),
        heard,
        operator: Operator {
            gateway: &gateway,
            yaml: neutral,
            entries,
            misfits,
            reloads: Vec::new(),
        },
    };
    let seen = watch(&runtime, case, &stage, log);
    clock.release();
    // clients and upstreams first: a gateway waits for open connections when it stops
    runtime.block_on(simulator.stop());
    drop(runtime);
    seen.map(|seen| Seen {
        config_debug: format!("{config:?}"),
        ..seen
    })
}

/// Where a provider is: on the own port of a target that plays with connects, if it has one.
fn base_url(case: &Case, simulator: &Simulator, provider: &str) -> String {
    let shared = simulator.base_url(provider);
    let targets = case.config.models.values().flat_map(|model| &model.chain);
    let of_provider = targets
        .filter_map(|target| ModelRef::parse(target))
        .filter(|target| &*target.provider == provider);
    let mut urls = of_provider.map(|target| simulator.base_url_of(&target));
    urls.find(|url| *url != shared).unwrap_or(shared)
}

fn refused(error: &ConfigError) -> String {
    let problems: &[Problem] = match error {
        ConfigError::Invalid(problems) => problems,
        ConfigError::Unreadable(_) => &[],
    };
    let told: Vec<_> = problems
        .iter()
        .map(|problem| format!("{} {}", problem.path, problem.message))
        .collect();
    format!("the configuration is refused: {}", told.join("; "))
}

fn watch(runtime: &Runtime, case: &Case, stage: &Stage<'_>, log: &Log) -> Result<Seen, String> {
    runtime.block_on(async {
        let mut player = Player::new(stage, case.expect.rss.is_some());
        player.settle().await;
        let before = player.page("/metrics").await;
        player.play(case).await?;
        let (after, ledger) = (player.page("/metrics").await, player.page("/admin/v1/providers").await);
        let transcripts = player.transcripts(case).await;
        let (replies, leaves, loads) = player.clients.finish();
        let journal = stage.simulator.journal();
        Ok(Seen {
            replies,
            leaves,
            calls: seen::calls(journal),
            open_connections: seen::open_connections(journal),
            violations: stage
                .simulator
                .violations()
                .iter()
                .map(|violation| violation.target.to_string())
                .collect(),
            transcripts,
            reloads: player.operator.reloads,
            fired: hooks::fired(stage.heard.all(), &player.events),
            loads,
            peaks: player.peaks,
            events_missed: player.events_missed,
            event_texts: serde_json::to_string(&player.events.iter().map(|event| &**event).collect::<Vec<_>>())
                .expect("events are JSON"),
            before: Page::new(before),
            after: Page::new(after),
            windows: windows::read(&ledger),
            config_debug: String::new(),
            log: log.clone(),
        })
    })
}
