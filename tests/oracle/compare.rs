//! What differs between a recording and the app, each difference as one line.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use understudy_messages::hooks::{HOOKS, Hook, Kind};

use crate::recorder::names;
use crate::seen::{Seen, Told, Turn};

/// How often a hook fires, by hook: what fits all turns.
type Rhythms = BTreeMap<String, Kinds>;
/// The names and kinds of members, by hook.
type Shapes = BTreeMap<String, BTreeMap<String, Kinds>>;
/// Kinds of values.
type Kinds = BTreeSet<&'static str>;

/// What all scenarios together show of hooks: how often they fire, and what they tell.
#[derive(Default)]
pub(crate) struct Hooks {
    rhythms: [Rhythms; 2],
    events: [Shapes; 2],
    contexts: [Shapes; 2],
}

impl Hooks {
    /// Takes in one scenario: what was recorded, and what the app told.
    pub(crate) fn add(&mut self, recorded: &Seen, app: &Seen) {
        for (side, seen) in [recorded, app].into_iter().enumerate() {
            seen.turns.iter().for_each(|turn| beat(&mut self.rhythms[side], turn));
            for told in seen
                .turns
                .iter()
                .flat_map(|turn| &turn.hooks)
                .filter(|told| is_ours(&told.hook))
            {
                take_in(&mut self.events[side], told, &told.event);
                take_in(&mut self.contexts[side], told, &told.context);
            }
        }
    }

    /// Hooks that fire more or less often, and members that only one side has, or that are of another kind: of hooks that
    /// both have fired.
    pub(crate) fn differences(&self) -> BTreeSet<String> {
        let mut lines = BTreeSet::new();
        let [recorded, app] = &self.rhythms;
        for hook in self.events[0].keys().filter(|hook| self.events[1].contains_key(*hook)) {
            if let (Some(recorded), Some(app)) = (recorded.get(hook), app.get(hook))
                && recorded.is_disjoint(app)
            {
                lines.insert(format!("once for each: {hook}: recorded {recorded:?}, ours {app:?}"));
            }
        }
        for (place, [recorded, app]) in [("event", &self.events), ("context", &self.contexts)] {
            let mut hooks: BTreeMap<String, Vec<&str>> = BTreeMap::new();
            for (hook, theirs) in recorded {
                let Some(ours) = app.get(hook) else { continue };
                for member in members(theirs, ours) {
                    hooks.entry(member).or_default().push(hook);
                }
            }
            lines.extend(
                hooks
                    .into_iter()
                    .map(|(member, hooks)| format!("{place} {member}: {}", hooks.join(", "))),
            );
        }
        lines
    }
}

/// The members of one hook that differ, and how.
fn members(theirs: &BTreeMap<String, Kinds>, ours: &BTreeMap<String, Kinds>) -> Vec<String> {
    let names: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
    let difference = |name: &String| match (theirs.get(name), ours.get(name)) {
        (Some(_), None) => Some(format!("{name}, recorded only")),
        (None, Some(_)) => Some(format!("{name}, ours only")),
        (Some(theirs), Some(ours)) if !ours.is_subset(theirs) => {
            Some(format!("{name}, recorded {theirs:?} and ours {ours:?}"))
        }
        (Some(_), Some(_)) | (None, None) => None,
    };
    names.into_iter().filter_map(difference).collect()
}

fn take_in(shapes: &mut Shapes, told: &Told, members: &Map<String, Value>) {
    let shape = shapes.entry(told.hook.clone()).or_default();
    for (name, kind) in names(members) {
        shape.entry(name.to_owned()).or_default().insert(kind);
    }
}

/// Whether the app fires a hook of this name.
fn is_ours(hook: &str) -> bool {
    HOOKS.iter().any(|row| row.name == hook)
}

/// How one scenario differs in its turns.
pub(crate) fn turns(name: &str, recorded: &Seen, app: &Seen) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for (at, (theirs, ours)) in recorded.turns.iter().zip(&app.turns).enumerate() {
        let at = format!("{name} turn {}", at + 1);
        lines.extend(order(theirs, ours));
        let (recorded, app) = (theirs.targets(), ours.targets());
        // an observer who left early saw no more than the beginning
        if recorded != app && (theirs.outcome.is_some() || !app.starts_with(&recorded)) {
            lines.insert(format!("{at}: asked: recorded {recorded:?}, ours {app:?}"));
        }
        for target in theirs.targets() {
            if let (Some(recorded), Some(app)) = (theirs.first_canon(target), ours.first_canon(target))
                && recorded != app
            {
                lines.insert(format!(
                    "{at}: first request to {target:?} has the canon: recorded {recorded}, ours {app}"
                ));
            }
        }
        if theirs.returned != ours.returned {
            let (recorded, app) = (&theirs.returned, &ours.returned);
            lines.insert(format!("{at}: told of its calls: recorded {recorded:?}, ours {app:?}"));
        }
        let ran = |turn: &Turn| turn.ran().map(|params| Value::from(params).to_string());
        let judged = |turn: &Turn| turn.count("before_tool_call");
        if (ran(theirs), judged(theirs)) != (ran(ours), judged(ours)) {
            let show = |turn: &Turn| format!("ran and not {:?}, {} seen by the last guard", ran(turn), judged(turn));
            lines.insert(format!("{at}: tools: recorded {}, ours {}", show(theirs), show(ours)));
        }
        if let (Some(recorded), Some(app)) = (theirs.answering_canon(), ours.answering_canon())
            && recorded != app
        {
            lines.insert(format!(
                "{at}: whoever answered had the canon: recorded {recorded}, ours {app}"
            ));
        }
        if let (Some(recorded), Some(app)) = (theirs.outcome, ours.outcome)
            && recorded != app
        {
            lines.insert(format!("{at}: client: recorded {recorded:?}, ours {app:?}"));
        }
    }
    lines
}

/// Pairs of hooks that fired the other way round, of those that fired on both sides. What nobody waits for may be told late: it
/// has an order among its like alone.
fn order(theirs: &Turn, ours: &Turn) -> Vec<String> {
    let (theirs, ours) = (theirs.order(), ours.order());
    let place = |hook: &str| ours.iter().position(|other| *other == hook);
    let mut lines = Vec::new();
    for (at, first) in theirs.iter().enumerate() {
        for second in &theirs[at + 1..] {
            if let (Some(one), Some(other)) = (place(first), place(second))
                && one > other
                && is_waited_for(first) == is_waited_for(second)
            {
                lines.push(format!("order: recorded {first} before {second}, ours after"));
            }
        }
    }
    lines
}

fn is_waited_for(hook: &str) -> bool {
    let row = HOOKS.iter().find(|row| row.name == hook);
    row.is_some_and(|row| row.kind != Kind::Observe)
}

/// Takes in how often every hook fired in a turn; of what fitted until now stays what fits this one too.
fn beat(rhythms: &mut Rhythms, turn: &Turn) {
    // after the result of its tool, which is one at a time in these scenarios, a model is called again in the same try
    let calls = turn.count("model_call_started");
    let known = [
        ("turn", 1),
        ("candidate that is asked", turn.models(&["before_prompt_build"])),
        (
            "candidate",
            turn.models(&["before_model_resolve", "before_prompt_build"]),
        ),
        ("try", calls.saturating_sub(turn.count("after_tool_call"))),
        ("call", calls),
        ("answer", turn.answers()),
    ];
    // whoever left early knows of no answer
    let of_models = |hook: Hook| !matches!(hook, Hook::BeforeToolCall | Hook::AfterToolCall);
    for row in HOOKS.iter().filter(|row| turn.outcome.is_some() && of_models(row.hook)) {
        let count = turn.count(row.name);
        let fits: BTreeSet<&str> = known
            .iter()
            .filter(|(_, times)| *times == count)
            .map(|(name, _)| *name)
            .collect();
        let rhythm = rhythms.entry(row.name.to_owned()).or_insert_with(|| fits.clone());
        rhythm.retain(|name| fits.contains(name));
    }
}
