//! What differs between a recording and the app, each difference as one line.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use understudy_messages::hooks::HOOKS;

use crate::recorder::names;
use crate::seen::{Outcome, Seen, Told, Turn};

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
            let once = |rhythms: &Rhythms| rhythms.get(hook).cloned().unwrap_or_default();
            let (recorded, app) = (once(recorded), once(app));
            if recorded.is_disjoint(&app) {
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

/// Pairs of hooks that fired the other way round, of those that fired on both sides.
fn order(theirs: &Turn, ours: &Turn) -> Vec<String> {
    let (theirs, ours) = (theirs.order(), ours.order());
    let place = |hook: &str| ours.iter().position(|other| *other == hook);
    let mut lines = Vec::new();
    for (at, first) in theirs.iter().enumerate() {
        for second in &theirs[at + 1..] {
            if let (Some(one), Some(other)) = (place(first), place(second))
                && one > other
            {
                lines.push(format!("order: recorded {first} before {second}, ours after"));
            }
        }
    }
    lines
}

/// Takes in how often every hook fired in a turn; of what fitted until now stays what fits this one too.
fn beat(rhythms: &mut Rhythms, turn: &Turn) {
    let answers = usize::from(matches!(turn.outcome, Some(Outcome::Answer(_) | Outcome::Continued(_))));
    let known = [
        ("turn", 1),
        ("candidate that is asked", turn.models(&["before_prompt_build"])),
        (
            "candidate",
            turn.models(&["before_model_resolve", "before_prompt_build"]),
        ),
        ("call", turn.count("model_call_started")),
        ("answer", answers),
    ];
    // whoever left early knows of no answer
    for row in HOOKS.iter().filter(|_| turn.outcome.is_some()) {
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
