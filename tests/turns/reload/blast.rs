//! Whatever becomes of reloads, plugins that they do not name keep their instance and answer.

use super::*;
use crate::stage::second;

const SEEDS: u64 = 4;
const STEPS: usize = 12;
const SHARED: [&str; 2] = ["one", "two"];
const EXCLUSIVE: [&str; 2] = ["three", "four"];

/// What happens to a reload.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// Nothing.
    Smooth,
    /// One of its plugins does not register.
    Fails,
    /// A turn holds its plugins for longer than it may wait.
    Held,
    /// Whoever asked goes away at once.
    Disconnects,
}

const FATES: [Fate; 4] = [Fate::Smooth, Fate::Fails, Fate::Held, Fate::Disconnects];

struct World {
    stage: Stage,
    probes: Vec<Probe>,
    _folder: Folder,
}

impl World {
    async fn make() -> Self {
        let probes: Vec<Probe> = [SHARED, EXCLUSIVE].concat().into_iter().map(Probe::called).collect();
        let folder = Folder::of_exclusive(&EXCLUSIVE);
        let slow = json!({ "answer": { "text": "hi" }, "delay_ms": 600_000 });
        let answer = json!({ "answer": { "text": "hi" } });
        let plan = json!({ "a/m": { "calls": [answer], "repeat_last": true },
            "b/m": { "calls": [slow], "repeat_last": true } });
        let lines = "defaults: { timeouts: { first_content: 20m, whole: 20m, turn: 20m } }\n";
        let stage = staged(&probes.iter().collect::<Vec<_>>(), &folder.paths(), plan, lines).await;
        Self {
            stage,
            probes,
            _folder: folder,
        }
    }

    /// The instances that answer now.
    async fn answering(&self) -> Vec<Option<u32>> {
        let before: Vec<usize> = self.probes.iter().map(|probe| probe.turns().len()).collect();
        let turn = self.stage.ask(&question(false)).await;
        assert_eq!(turn.status, 200, "{}", turn.text());
        for (probe, before) in self.probes.iter().zip(before) {
            assert!(probe.turns().len() > before, "{} did not answer", probe.id);
        }
        self.probes.iter().map(Probe::asked_last).collect()
    }

    /// One reload of these plugins; how it ended, where that is known.
    async fn reload(&self, plugins: &[&str], fate: Fate) -> Option<String> {
        let ask = json!({ "plugins": plugins });
        let reply = match fate {
            Fate::Smooth => reload(&self.stage, &ask).await,
            Fate::Fails => {
                let named = self.probes.iter().find(|probe| plugins.contains(&probe.id));
                named.expect("one of them").fails.store(1, Ordering::SeqCst);
                reload(&self.stage, &ask).await
            }
            Fate::Held => self.reload_held(&ask, is_exclusive(plugins)).await,
            Fate::Disconnects => {
                // one round trip is enough for it to begin, and not always for it to end
                tokio::select! {
                    biased;
                    reply = reload(&self.stage, &ask) => drop(reply),
                    _ = self.stage.admin("/livez") => {}
                }
                return None;
            }
        };
        let told = reply.json();
        let outcome = told["outcome"].as_str().or(told["error"]["outcome"].as_str());
        Some(outcome.expect("an outcome").to_owned())
    }

    /// With a turn inside that ends after the reload.
    async fn reload_held(&self, ask: &Value, exclusive: bool) -> Reply {
        let slow = json!({ "model": "b/m", "messages": [{ "role": "user", "content": "hi" }] });
        let (seen, step) = (self.stage.calls(&second()), Duration::from_secs(5));
        let turn = self.stage.ask(&slow);
        tokio::pin!(turn);
        let reload = async {
            self.stage.called(&second(), seen + 1).await;
            let late = async {
                if exclusive {
                    until_held(&self.stage).await;
                    self.stage.clock.advance(Duration::from_secs(60));
                }
            };
            tokio::join!(reload(&self.stage, ask), late).0
        };
        let reply = tokio::select! {
            turn = &mut turn => panic!("it was to outlast the reload: {}", turn.text()),
            reply = reload => reply,
        };
        let turn = self.stage.in_time(step, turn).await;
        assert_eq!(turn.status, 200, "{}", turn.text());
        reply
    }

    /// Until nothing is under way.
    async fn settled(&self) {
        while reload(&self.stage, &json!({ "plugins": ["nobody"] })).await.status != 400 {}
    }
}

fn is_exclusive(plugins: &[&str]) -> bool {
    plugins.iter().any(|id| EXCLUSIVE.contains(id))
}

/// Some of them, at least one.
fn some(random: &mut fastrand::Rng) -> Vec<&'static str> {
    let all = [SHARED, EXCLUSIVE].concat();
    let mut named: Vec<&str> = all.iter().copied().filter(|_| random.bool()).collect();
    if named.is_empty() {
        named.extend(random.choice(all));
    }
    named
}

async fn play(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let world = World::make().await;
    let mut answering = world.answering().await;
    let mut number = generation(&world.stage).await;
    for step in 0..STEPS {
        let (plugins, fate) = (some(&mut random), random.choice(FATES).expect("several"));
        let what = format!("seed {seed}, step {step}: {plugins:?} {fate:?}");
        let outcome = world.reload(&plugins, fate).await;
        world.settled().await;
        let (after, published) = (world.answering().await, generation(&world.stage).await);
        let exclusive = is_exclusive(&plugins);
        let expected = match (fate, exclusive) {
            (Fate::Smooth, _) | (Fate::Held, false) => Some("applied"),
            (Fate::Fails, true) => Some("restored"),
            (Fate::Fails, false) => Some("rolled_back"),
            (Fate::Held, true) => Some("drain_timeout"),
            (Fate::Disconnects, _) => None,
        };
        assert_eq!(outcome.as_deref(), expected, "{what}");
        let replaced = published > number;
        assert!(published <= number + 1, "{what}: generation {published} after {number}");
        if let Some(outcome) = expected {
            assert_eq!(replaced, matches!(outcome, "applied" | "restored"), "{what}");
        }
        for ((probe, before), now) in world.probes.iter().zip(&answering).zip(&after) {
            let named = plugins.contains(&probe.id);
            assert_eq!(
                before != now,
                named && replaced,
                "{what}: {} {before:?} {now:?}",
                probe.id
            );
        }
        (answering, number) = (after, published);
        world
            .probes
            .iter()
            .for_each(|probe| probe.fails.store(0, Ordering::SeqCst));
    }
    assert_eq!(world.stage.admin("/readyz").await.status, 200, "the gate is open");
}

#[tokio::test]
async fn a_plugin_that_no_reload_names_keeps_its_instance_and_answers_after_every_step() {
    for seed in 0..SEEDS {
        play(seed).await;
    }
}
