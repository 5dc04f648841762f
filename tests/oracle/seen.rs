//! What was seen of a scenario, whoever was looked at: turns, the hooks that fired in them, the requests that went out.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// One scenario.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) turns: Vec<Turn>,
}

/// One turn.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    pub(crate) hooks: Vec<Told>,
    pub(crate) calls: Vec<Call>,
    /// What the model was given for the calls of tools that it made.
    pub(crate) returned: Vec<String>,
    /// `None`: the observer did not wait for it.
    pub(crate) outcome: Option<Outcome>,
}

/// One event that a plugin was told.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) hook: String,
    pub(crate) event: Map<String, Value>,
    pub(crate) context: Map<String, Value>,
}

/// One request that an upstream got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    pub(crate) target: Target,
    /// Whether it carried the canon, as the plugin writes it.
    pub(crate) canon: bool,
}

/// The two models of every scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    A,
    B,
}

/// What a client got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A whole answer of this one and nothing else.
    Answer(Target),
    /// Something of an answer, and this one went on with it to its end.
    Continued(Target),
    /// Something of an answer, then an error.
    Broken,
    /// An error alone.
    Error,
}

impl Turn {
    /// The models in the order in which they were first asked.
    pub(crate) fn targets(&self) -> Vec<Target> {
        let mut targets: Vec<Target> = self.calls.iter().map(|call| call.target).collect();
        let mut known = Vec::new();
        targets.retain(|target| {
            !known.contains(target) && {
                known.push(*target);
                true
            }
        });
        targets
    }

    /// Whether the first request to `target` carried the canon.
    pub(crate) fn first_canon(&self, target: Target) -> Option<bool> {
        self.calls
            .iter()
            .find(|call| call.target == target)
            .map(|call| call.canon)
    }

    /// How often a hook fired.
    pub(crate) fn count(&self, hook: &str) -> usize {
        self.hooks.iter().filter(|told| told.hook == hook).count()
    }

    /// How many calls of models were answered.
    pub(crate) fn answers(&self) -> usize {
        let ended = self.hooks.iter().filter(|told| told.hook == "model_call_ended");
        ended
            .filter(|told| told.event.get("outcome").is_some_and(|outcome| outcome == "completed"))
            .count()
    }

    /// How many models these hooks name as about to answer.
    pub(crate) fn models(&self, hooks: &[&str]) -> usize {
        let told = self.hooks.iter().filter(|told| hooks.contains(&&*told.hook));
        let named = told.filter_map(|told| told.context.get("modelProviderId")?.as_str());
        named.collect::<BTreeSet<_>>().len()
    }

    /// The arguments with which tools ran, and those of calls that came to nothing.
    pub(crate) fn ran(&self) -> [Vec<Value>; 2] {
        let ended = self.hooks.iter().filter(|told| told.hook == "after_tool_call");
        let (failed, ran): (Vec<&Told>, Vec<&Told>) = ended.partition(|told| told.event.contains_key("error"));
        [ran, failed].map(|told| told.iter().map(|told| told.event["params"].clone()).collect())
    }

    /// Hooks in the order in which they first fired.
    pub(crate) fn order(&self) -> Vec<&str> {
        let mut order: Vec<&str> = Vec::new();
        for told in &self.hooks {
            if !order.contains(&&*told.hook) {
                order.push(&told.hook);
            }
        }
        order
    }

    /// Whether the request that was answered carried the canon.
    pub(crate) fn answering_canon(&self) -> Option<bool> {
        let answered = matches!(self.outcome, Some(Outcome::Answer(_) | Outcome::Continued(_)));
        self.calls.last().filter(|_| answered).map(|call| call.canon)
    }
}

impl Outcome {
    /// What the text of an answer and the presence of an error say.
    pub(crate) fn of(text: &str, error: bool) -> Self {
        let said = |target: &str| text.contains(&format!("CANARY-{target}"));
        let whole = match text.contains("PARTIAL") {
            true => Self::Continued,
            false => Self::Answer,
        };
        match (error, said("up-a"), said("up-b")) {
            (false, true, false) => whole(Target::A),
            (false, false, true) => whole(Target::B),
            (true, false, false) if !text.contains("PARTIAL") => Self::Error,
            (true | false, true | false, true | false) => Self::Broken,
        }
    }
}
