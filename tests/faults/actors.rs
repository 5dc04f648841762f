//! A scenario between real actors, on a paused clock: only the attempts are played.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use understudy_messages::settings::BrokenStream;
use understudy_tests::house::{Asked, Frames, House};

use crate::heard::Heard;

use crate::played::{Setting, play};
use crate::scenario::Scenario;
use crate::speak::speak;
use crate::turns::{self, Turn, configuration};
use crate::{Wrong, place, request};

/// The longest that any turn may take.
const TURN: Duration = Duration::from_secs(620);

/// Plays a scenario for every client, with providers of every format.
pub async fn play_all(name: &str, scenario: &Scenario, wrong: &mut Wrong) {
    let turns = turns::all(scenario);
    let yaml = configuration(scenario, &turns, |_| "http://127.0.0.1:1/v1".to_owned());
    let house = House::open(&yaml, script(scenario.clone(), turns.clone())).await;
    for turn in &turns {
        let request = request(scenario, turn.client, &turn.alias());
        let (began, asked) = (house.clock.now(), house.targets().len());
        let frames = house.frames(request.clone()).await;
        assert!(house.clock.now() - began < TURN, "{name}: a turn hangs");
        let asked = house.targets().split_off(asked);
        let times = |target: &String| asked.iter().filter(|it| *it == target).count() as u64;
        let heard = Heard {
            attempts: turn.targets().iter().map(|target| times(&target.to_string())).collect(),
            rests: true,
            ..Heard::of(frames, &request)
        };
        wrong.add(name, scenario, &turn.apis, turn.client, &heard);
    }
}

fn script(scenario: Scenario, turns: Vec<Turn>) -> impl Fn(&Asked<'_>) -> Frames + 'static {
    let calls: RefCell<BTreeMap<String, usize>> = RefCell::default();
    move |asked| {
        let attempt = asked.attempt;
        let candidate = &attempt.candidate;
        let at = place(&candidate.model).expect("a candidate");
        let turn = turns.iter().find(|turn| turn.targets()[at] == candidate.model);
        let client = turn.expect("a turn").client;
        let mut calls = calls.borrow_mut();
        let call = calls.entry(asked.target.clone()).or_default();
        let act = scenario.act(at, *call);
        *call += 1;
        let setting = Setting {
            endpoint: client.endpoint,
            api: candidate.api,
            stream: client.stream,
            successor: attempt.successor,
            model: candidate.model.clone(),
            holds: attempt.turn.agent.on_broken_stream == BrokenStream::Hold && client.stream,
            continuable: attempt.continuable,
            continuation: attempt.prompt.continuation.clone(),
        };
        let played = play(&speak(act, candidate.api, client.stream), &setting);
        Frames {
            frames: played.frames,
            result: played.result,
            takes: played.took,
        }
    }
}
