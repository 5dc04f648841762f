//! SIGKILL in each phase of a change, and at moments that nobody chose.

use std::fs::File;

use super::place::{Place, captures, unfinished};

/// The phases that a plugin can be held in: two while the old instance ends, two while the new one begins.
const HELD: [&str; 4] = ["stop", "dispose", "register", "start"];

#[tokio::test]
async fn a_gateway_killed_while_a_configuration_is_put_serves_what_was_published_last() {
    for phase in HELD {
        let place = Place::new().await;
        let (one, two) = (place.configuration("one", 1), place.configuration("two", 2));
        place.write(&one);
        let gateway = place.serve();
        let first = gateway.serving().await;
        place.hold(phase);
        let _never_answered = gateway.put(&two);
        while !place.is_at(phase) {
            gateway.get("/livez").await;
        }
        assert_eq!(place.text(), two, "{phase}: it is under way");
        gateway.kill();
        place.release();
        let gateway = place.serve();
        assert_eq!(gateway.serving().await, first, "{phase}");
        gateway.serves(&place, &one, "one").await;
    }
}

#[tokio::test]
async fn a_gateway_killed_before_anything_was_touched_serves_what_was_published_last() {
    let place = Place::new().await;
    let (one, two) = (place.configuration("one", 1), place.configuration("two", 2));
    place.write(&one);
    let gateway = place.serve();
    // what is to come cannot be looked at to its end before the file holds it
    let _never_answered = gateway.put(&two);
    while place.text() != two {
        tokio::task::yield_now().await;
    }
    gateway.kill();
    let gateway = place.serve();
    let served = place.text();
    let model = if served == one { "one" } else { "two" };
    gateway.serves(&place, &served, model).await;
}

#[tokio::test]
async fn a_gateway_killed_while_turns_are_waited_for_serves_what_was_published_last() {
    let place = Place::new().await;
    let (one, two) = (place.configuration("one", 1), place.configuration("two", 2));
    place.write(&one);
    let gateway = place.serve();
    gateway.held_turn().await;
    let _never_answered = gateway.put(&two);
    while gateway.get("/admin/v1/plugins/reload").await.1["holders"].is_null() {}
    gateway.kill();
    place.serve().serves(&place, &one, "one").await;
}

#[tokio::test]
async fn what_was_acknowledged_as_published_serves_after_a_kill() {
    let place = Place::new().await;
    let (one, two) = (place.configuration("one", 1), place.configuration("two", 2));
    place.write(&one);
    let gateway = place.serve();
    let answered = gateway.put(&two).await.expect("no panic").expect("answered");
    assert_eq!(answered.1["applied"], true, "{answered:?}");
    gateway.kill();
    place.serve().serves(&place, &two, "two").await;
}

#[tokio::test]
async fn a_gateway_killed_while_a_plugin_is_reloaded_serves_whole_and_leaves_no_capture() {
    for phase in HELD {
        let place = Place::new().await;
        let one = place.configuration("one", 1);
        place.write(&one);
        let gateway = place.serve();
        place.hold(phase);
        let _never_answered = gateway.reload("stage");
        while !place.is_at(phase) {
            gateway.get("/livez").await;
        }
        // the old code and the new; of a plugin that takes too long to let go the old one may be gone by now
        let held = captures(&place.state());
        assert!((1..=2).contains(&held), "{phase}: {held}");
        gateway.kill();
        place.release();
        let gateway = place.serve();
        gateway.serves(&place, &one, "one").await;
        assert_eq!(captures(&place.state()), 1, "{phase}: what the dead one left is gone");
    }
}

#[tokio::test]
async fn a_gateway_killed_while_a_plugin_is_copied_serves_whole_and_leaves_no_capture() {
    let place = Place::new().await;
    let one = place.configuration("one", 1);
    place.write(&one);
    let gateway = place.serve();
    // it comes before all that the plugin needs, and copying it takes seconds
    let large = place.plugins().join("stage/a-large-file");
    File::create(&large)
        .and_then(|file| file.set_len(64 << 20))
        .expect("made");
    let _never_answered = gateway.reload("stage");
    while captures(&place.state()) < 2 {
        gateway.get("/livez").await;
    }
    gateway.kill();
    assert_eq!(unfinished(&place.state()), 1, "nothing had been stopped yet");
    std::fs::remove_file(&large).expect("gone");
    let gateway = place.serve();
    gateway.serves(&place, &one, "one").await;
    assert_eq!(captures(&place.state()), 1, "what the dead one left is gone");
}

#[tokio::test]
async fn a_gateway_killed_while_a_plugin_waits_for_turns_or_was_just_reloaded_serves_whole() {
    let place = Place::new().await;
    let one = place.configuration("one", 1);
    place.write(&one);
    let gateway = place.serve();
    gateway.held_turn().await;
    let _never_answered = gateway.reload("stage");
    while gateway.get("/admin/v1/plugins/reload").await.1["holders"].is_null() {}
    gateway.kill();
    let gateway = place.serve();
    gateway.serves(&place, &one, "one").await;
    let status = gateway.reload("stage").await.expect("no panic").expect("answered");
    assert!(status.is_success(), "{status}");
    gateway.kill();
    place.serve().serves(&place, &one, "one").await;
}

/// How many kills; more where somebody has the time.
pub(crate) fn kills() -> u32 {
    std::env::var("UNDERSTUDY_KILLS").map_or(20, |kills| kills.parse().expect("a number"))
}

/// Numbers that nobody chose; the seed is printed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn seeded() -> Self {
        let seed = u64::from(std::process::id());
        println!("seed {seed}");
        Self(seed)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[tokio::test]
async fn at_whatever_moment_it_is_killed_there_is_no_half_state() {
    let place = Place::new().await;
    let mut serving = (place.configuration("one", 0), "one");
    place.write(&serving.0);
    let mut dice = Dice::seeded();
    for round in 1..=kills() {
        let gateway = place.serve();
        gateway.serves(&place, &serving.0, serving.1).await;
        let model = if serving.1 == "one" { "two" } else { "one" };
        let next = (place.configuration(model, round), model);
        let put = gateway.put(&next.0);
        // each takes a fraction of a millisecond, and the change some tens of them
        for _ in 0..dice.below(120) {
            gateway.get("/livez").await;
        }
        let answered = put.is_finished();
        gateway.kill();
        let applied = answered
            && put
                .await
                .expect("no panic")
                .is_some_and(|(_, told)| told["applied"] == true);
        let gateway = place.serve();
        let found = gateway.serving().await;
        let text = place.text();
        assert!(
            text == next.0 || (text == serving.0 && !applied),
            "round {round}: neither the old nor the new"
        );
        serving = if text == next.0 { next } else { serving };
        gateway.serves(&place, &serving.0, serving.1).await;
        assert_eq!(gateway.get("/admin/v1/config").await.1["revision"], found.as_str());
        gateway.kill();
    }
}
