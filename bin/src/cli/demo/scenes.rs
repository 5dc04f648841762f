//! The scenes of the demo: what becomes of a lead, and what its clients may get.

use std::time::Duration;

use super::driver::Got;

/// One kind of turn: the public model that clients ask for, and what becomes of its lead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    pub(super) model: &'static str,
    /// The agent that speaks.
    pub(super) agent: &'static str,
    pub(super) chain: [&'static str; 2],
    pub(super) about: &'static str,
    /// What its clients may get. With a breaker at work, who answers a turn depends on when it comes.
    pub(super) allowed: &'static [Got],
    /// Of twenty sessions, how many play it.
    pub(super) share: usize,
    /// Whether its clients offer a tool.
    pub(super) tools: bool,
    /// Whether only streams play it.
    pub(super) streams_only: bool,
    /// Turns of its own and the time between them, where the scene needs time to happen.
    pub(super) paced: Option<(u16, Duration)>,
}

const SCENE: Scene = Scene {
    model: "",
    agent: USUAL,
    chain: ["", "borealis/second"],
    about: "",
    allowed: &[Got::Understudy],
    share: 2,
    tools: false,
    streams_only: false,
    paced: None,
};

/// The agent of every scene that needs no plugin of its own.
pub(super) const USUAL: &str = "usual";
/// The agent that has a canon; also the model that it asks for.
pub(super) const KEPT: &str = "kept";
/// The agent whose tools are guarded; also the model that it asks for.
pub(super) const GUARDED: &str = "guarded";

/// All of the demo.
pub(super) const SCENES: &[Scene] = playable(&ALL);

/// The scene that is played under `model`.
pub(super) fn scene(model: &str) -> Option<&'static Scene> {
    SCENES.iter().find(|scene| scene.model == model)
}

/// Without its engine there is nobody to guard the last scene.
const fn playable(all: &'static [Scene]) -> &'static [Scene] {
    match all {
        [unguarded @ .., _] if cfg!(not(feature = "js")) => unguarded,
        _ => all,
    }
}

/// Twenty sessions' worth of scenes.
const ALL: [Scene; 11] = [
    Scene {
        model: "steady",
        chain: ["aurora/steady", "borealis/second"],
        about: "the lead answers",
        allowed: &[Got::Lead],
        ..SCENE
    },
    Scene {
        model: "crowded",
        chain: ["aurora/crowded", "borealis/second"],
        about: "overloaded (503)",
        ..SCENE
    },
    Scene {
        model: "limited",
        chain: ["aurora/limited", "borealis/second"],
        about: "429, no word of when to return",
        ..SCENE
    },
    Scene {
        model: "patient",
        chain: ["doria/patient", "borealis/second"],
        about: "429 once, \"retry-after: 1\"",
        allowed: &[Got::Lead, Got::Understudy],
        ..SCENE
    },
    Scene {
        model: "dead-key",
        chain: ["cassini/keyed", "borealis/second"],
        about: "the first of two keys is refused (401)",
        allowed: &[Got::Lead],
        ..SCENE
    },
    Scene {
        model: "mute",
        chain: ["aurora/mute", "borealis/second"],
        about: "the connection breaks before a byte",
        ..SCENE
    },
    Scene {
        model: "torn",
        chain: ["aurora/torn", "borealis/second"],
        about: "streams break in mid-answer",
        allowed: &[Got::Continued, Got::Understudy],
        streams_only: true,
        ..SCENE
    },
    Scene {
        model: "flapping",
        chain: ["aurora/flapping", "borealis/second"],
        about: "down at first, then well again",
        allowed: &[Got::Lead, Got::Understudy],
        paced: Some((16, Duration::from_millis(200))),
        ..SCENE
    },
    Scene {
        model: "hopeless",
        chain: ["aurora/hopeless", "borealis/hopeless"],
        about: "lead and understudy are down (500)",
        allowed: &[Got::Refusal],
        ..SCENE
    },
    Scene {
        model: KEPT,
        agent: KEPT,
        chain: ["aurora/kept", "borealis/kept"],
        about: "overloaded; the agent has a canon",
        share: 1,
        ..SCENE
    },
    Scene {
        model: GUARDED,
        agent: GUARDED,
        chain: ["aurora/guarded", "borealis/second"],
        about: "calls `rm -rf /`; a plugin guards tools",
        allowed: &[Got::Guarded],
        share: 1,
        tools: true,
        ..SCENE
    },
];
