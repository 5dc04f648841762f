//! Ten thousand turns at once against a lead that dies and returns.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use understudy_actors::provider::ledger::CandidateState;
use understudy_messages::failure::Reason;

use crate::house::{Asked, House, Play};

const CROWD: usize = 10_000;
/// How long every attempt takes.
const TAKES: Duration = Duration::from_secs(5);
const DIES: Duration = Duration::from_secs(4);
const RETURNS: Duration = Duration::from_secs(20);
const ENDS: Duration = Duration::from_secs(48);
const CONFIG: &str = "
providers:
  a: { api: openai-chat, base_url: \"http://127.0.0.1:1\", models: [lead] }
  b: { api: openai-chat, base_url: \"http://127.0.0.1:1\", models: [second] }
models:
  main: { chain: [a/lead, b/second] }
";

/// What is seen of the lead.
#[derive(Default)]
struct Seen {
    probes_out: Cell<u32>,
    most_probes_out: Cell<u32>,
    /// Attempts at a lead that rests.
    intrusions: Cell<u32>,
    calls_while_down: Cell<u32>,
    first_answer_after: Cell<Option<Duration>>,
}

fn add(counter: &Cell<u32>, more: u32) {
    counter.set(counter.get() + more);
}

impl Seen {
    /// Plays one attempt; the lead's are watched.
    fn play(&self, asked: &Asked<'_>) -> Play {
        let answers = Play {
            takes: TAKES,
            failure: None,
        };
        if asked.target != "a/lead" {
            return answers;
        }
        let candidate = &asked.attempt.candidate;
        let ledger = asked.ledgers.get(candidate.provider).expect("the lead's ledger");
        match ledger.candidate(&candidate.model.model, asked.now).state {
            CandidateState::Available => {}
            CandidateState::Probing => {
                add(&self.probes_out, 1);
                self.most_probes_out
                    .set(self.most_probes_out.get().max(self.probes_out.get()));
            }
            CandidateState::Resting | CandidateState::Open | CandidateState::Disabled => add(&self.intrusions, 1),
        }
        if (DIES..RETURNS).contains(&asked.since) {
            add(&self.calls_while_down, 1);
            return Play {
                takes: TAKES,
                ..Play::refuse(Reason::ServerError)
            };
        }
        if asked.since >= RETURNS && self.first_answer_after.get().is_none() {
            self.first_answer_after.set(Some(asked.since + TAKES));
        }
        answers
    }
}

/// Turn after turn of one session until the end; how many there were.
async fn session(house: &House) -> usize {
    let mut turns = 0;
    while house.clock.now() < house.started + ENDS {
        house.ask().await.expect("the second candidate is well");
        turns += 1;
    }
    turns
}

#[actix::test]
async fn ten_thousand_turns_send_one_probe_at_a_time_lose_none_and_find_the_lead_again() {
    let seen = Rc::new(Seen::default());
    let (played, over) = (seen.clone(), seen.clone());
    let done = move |probe: bool| over.probes_out.set(over.probes_out.get() - u32::from(probe));
    let house = House::open_with(CONFIG, move |asked| played.play(asked), done).await;
    let crowd: FuturesUnordered<_> = (0..CROWD).map(|_| session(&house)).collect();
    let turns: usize = crowd.collect::<Vec<usize>>().await.into_iter().sum();
    assert!(turns >= 9 * CROWD, "{turns} turns");
    assert_eq!(seen.intrusions.get(), 0, "nobody asks a lead that rests");
    assert_eq!(seen.most_probes_out.get(), 1, "one probe at a time");
    let back = seen.first_answer_after.get().expect("the lead answers again") - RETURNS;
    assert!(back <= Duration::from_secs(25), "{back:?}");
    // what was in flight when it died, what had begun meanwhile, and a probe for each rest
    let down = seen.calls_while_down.get() as usize;
    assert!(down <= 2 * CROWD + 3, "{down} calls while it was down");
}
