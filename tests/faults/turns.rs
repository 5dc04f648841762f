//! The turns of a scenario: who asks, and what the chain speaks. Each has providers of its own, so that none feels what
//! another has left behind.

use std::fmt::Write as _;

use understudy_messages::ids::ModelRef;
use understudy_messages::settings::Api;

use crate::scenario::Scenario;
use crate::{Client, NAMES, clients};

/// One turn that is to be played.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Its number among the turns of its scenario.
    pub number: usize,
    pub client: Client,
    /// What each candidate speaks.
    pub apis: Vec<Api>,
}

/// Every client, every format first, every format second.
pub fn all(scenario: &Scenario) -> Vec<Turn> {
    let mut turns = Vec::new();
    for client in clients() {
        for lead in Api::ALL {
            for second in Api::ALL {
                let apis: Vec<Api> = [lead, second].into_iter().cycle().take(scenario.chain.len()).collect();
                if scenario.is_for(client, &apis) {
                    let number = turns.len();
                    turns.push(Turn { number, client, apis });
                }
            }
        }
    }
    turns
}

/// Every client and every format first; who follows changes from client to client.
pub fn some(scenario: &Scenario) -> Vec<Turn> {
    let all = all(scenario);
    let mut some: Vec<Turn> = Vec::new();
    for (at, client) in clients().into_iter().enumerate() {
        for lead in Api::ALL {
            let led = |turn: &&Turn| turn.client == client && turn.apis[0] == lead;
            let led: Vec<&Turn> = all.iter().filter(led).collect();
            some.extend(led.get(at % led.len().max(1)).map(|turn| (*turn).clone()));
        }
    }
    some
}

/// The configuration of all turns; `url` is where a model's provider is.
pub fn configuration(scenario: &Scenario, turns: &[Turn], url: impl Fn(&ModelRef) -> String) -> String {
    let mut yaml = String::from("providers:\n");
    let mut provider = |target: &ModelRef, api: Api| {
        let (name, api, url) = (&target.provider, api.as_label(), url(target));
        let line = format!("{name}: {{ api: {api}, base_url: \"{url}\", api_key: k, models: [m] }}");
        writeln!(yaml, "  {line}").expect("memory");
    };
    for turn in turns {
        for (target, api) in turn.targets().iter().zip(&turn.apis) {
            provider(target, *api);
        }
    }
    provider(&well(), Api::OpenaiChat);
    yaml.push_str("models:\n");
    for turn in turns {
        let chain: Vec<String> = turn.targets().iter().map(ToString::to_string).collect();
        writeln!(yaml, "  {}: {{ chain: [{}] }}", turn.alias(), chain.join(", ")).expect("memory");
    }
    let policy = &scenario.on_broken_stream;
    writeln!(yaml, "agents:\n  it: {{ model: well/m, on_broken_stream: {policy} }}").expect("memory");
    yaml
}

/// A model that always answers.
pub fn well() -> ModelRef {
    ModelRef::new("well", "m")
}

impl Turn {
    /// The candidates.
    pub fn targets(&self) -> Vec<ModelRef> {
        let names = NAMES.iter().take(self.apis.len());
        names
            .map(|name| ModelRef::new(format!("{name}{}", self.number), "m"))
            .collect()
    }

    /// What the client calls the chain.
    pub fn alias(&self) -> String {
        format!("main{}", self.number)
    }
}
