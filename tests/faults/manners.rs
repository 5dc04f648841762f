//! Wherever a stream breaks and however the next model goes on, the client reads the whole text, and nothing twice.

use std::collections::BTreeSet;

use understudy_messages::settings::Api;

use crate::heard::Heard;
use crate::scenario::{Act, After, Ends, Outcome, Scenario, words};
use crate::{Wrong, clients, pure};

const WORDS: usize = 76;
const ROUNDS: usize = 400;

#[test]
fn the_text_is_whole_wherever_it_breaks_and_however_the_next_goes_on() {
    let seed = std::env::var("UNDERSTUDY_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    let mut random = fastrand::Rng::with_seed(seed);
    let mut wrong = Wrong::default();
    for _ in 0..ROUNDS {
        let scenario = random_scenario(&mut random);
        let clients: Vec<_> = clients().into_iter().filter(|client| client.stream).collect();
        let client = clients[random.usize(..clients.len())];
        let apis: Vec<Api> = scenario
            .chain
            .iter()
            .map(|_| Api::ALL[random.usize(..Api::ALL.len())])
            .collect();
        let heard: Heard = pure::turn(&scenario, &apis, client);
        wrong.add(&format!("UNDERSTUDY_SEED={seed}"), &scenario, &apis, client, &heard);
    }
}

/// From where the last words before `read` are repeated: at least this many, and four different ones. With fewer it cannot
/// be told from chance, and nothing is taken out.
fn repeating(read: usize, count: usize) -> usize {
    let different = |from: usize| words([from, read]).into_iter().collect::<BTreeSet<_>>().len();
    (0..=read - count).rev().find(|from| different(*from) >= 4).unwrap_or(0)
}

/// Two to four models; each but the last breaks off, each but the first goes on exactly, repeats five to fifty words, or
/// starts over.
fn random_scenario(random: &mut fastrand::Rng) -> Scenario {
    let models = random.usize(2..=4);
    let mut chain = Vec::new();
    let mut read = 0;
    for model in 0..models {
        let last = model + 1 == models;
        let from = match random.u8(..3) {
            0 => read,
            1 if read > 5 => repeating(read, random.usize(5..=50).min(read)),
            _ => 0,
        };
        let to = if last {
            WORDS
        } else {
            (read + random.usize(6..20)).min(WORDS - 1).max(read + 1)
        };
        let breaks = [After::Close, After::Reset, After::Hang, After::Error];
        let then = if last {
            After::End
        } else {
            breaks[random.usize(..breaks.len())]
        };
        chain.push(vec![Act {
            says: Some([from, to]),
            then,
            ..Act::default()
        }]);
        read = to;
    }
    let mut scenario = Scenario::of(chain);
    scenario.on_broken_stream = "continue".to_owned();
    scenario.streaming = Some(Outcome {
        status: 200,
        ends: Ends::Whole,
        says: vec![[0, WORDS]],
        reason: None,
        retry_after: false,
        served_by: Some(0),
        attempts: vec![1; models],
    });
    scenario
}
