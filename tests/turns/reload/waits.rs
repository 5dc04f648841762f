//! Who waits for whom while a plugin that cannot be there twice is replaced, and for how long.

use understudy_messages::events::Event;

use super::*;
use crate::stage::{refusal, second};

/// A lead that refuses after `first`, and a second that answers `then` later.
fn in_two_calls(first: Duration, then: Duration) -> Value {
    let mut refuses = refusal(401, "invalid_api_key");
    refuses["delay_ms"] = json!(first.as_millis() as u64);
    let answers = json!({ "answer": { "text": "hi" }, "delay_ms": then.as_millis() as u64 });
    json!({ "a/m": { "calls": [refuses], "repeat_last": true }, "b/m": { "calls": [answers], "repeat_last": true } })
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A turn of a plugin that is replaced meanwhile; `moves` moves the clock while the turn is held.
async fn replaced_during<T>(stage: &Stage, ask: &Value, moves: impl Future<Output = T>) -> (Reply, Reply, T) {
    let asked = question(false);
    let turn = stage.ask(&asked);
    let during = async {
        stage.called(&lead(), 1).await;
        let moves = async {
            until_held(stage).await;
            moves.await
        };
        tokio::join!(reload(stage, ask), moves)
    };
    let (turn, (reloaded, done)) = tokio::join!(turn, during);
    (turn, reloaded, done)
}

#[tokio::test]
async fn all_that_is_waited_for_has_one_budget_together_case_t4() {
    let (probe, folder) = (Probe::new("probe"), Folder::of_exclusive(&["probe"]));
    let stage = staged(&[&probe], &folder.paths(), in_two_calls(secs(40), secs(30)), "").await;
    let moves = async {
        stage.clock.advance(secs(40));
        stage.called(&second(), 1).await;
        stage.clock.advance(secs(19));
        assert_eq!(stage.admin("/readyz").await.status, 503, "59 s are over");
        stage.clock.advance(secs(1));
        while stage.admin("/readyz").await.status != 200 {}
        stage.clock.advance(secs(30));
    };
    let (turn, reloaded, ()) = replaced_during(&stage, &json!({ "plugins": ["probe"] }), moves).await;
    assert_eq!((turn.status, reloaded.status), (200, 504), "{}", reloaded.text());
    assert_eq!(reloaded.json()["error"]["outcome"], "drain_timeout");
    assert_eq!((probe.made(), generation(&stage).await), (1, 1));
}

/// A turn that takes longer than turns may take usually.
async fn patient(delay: Duration) -> (Probe, Stage, Folder) {
    let (probe, folder) = (Probe::new("probe"), Folder::of_exclusive(&["probe"]));
    let lines = "defaults: { timeouts: { first_content_last: 20m, whole_last: 20m, turn: 20m } }\n";
    let stage = staged(&[&probe], &folder.paths(), plan(delay), lines).await;
    (probe, stage, folder)
}

#[tokio::test]
async fn who_wants_to_wait_waits_for_ten_minutes_case_t5() {
    let ask = json!({ "plugins": ["probe"], "wait": true });
    let (probe, stage, _folder) = patient(secs(9 * 60)).await;
    let moves = async { stage.clock.advance(secs(9 * 60)) };
    let (turn, reloaded, ()) = replaced_during(&stage, &ask, moves).await;
    assert_eq!((turn.status, reloaded.status), (200, 200), "{}", reloaded.text());
    assert_eq!(probe.made(), 2);

    let (probe, stage, _folder) = patient(secs(11 * 60)).await;
    let moves = async {
        stage.clock.advance(secs(10 * 60 - 1));
        assert_eq!(stage.admin("/readyz").await.status, 503);
        stage.clock.advance(secs(1));
        while stage.admin("/readyz").await.status != 200 {}
        stage.clock.advance(secs(60));
    };
    let (turn, reloaded, ()) = replaced_during(&stage, &ask, moves).await;
    assert_eq!((turn.status, reloaded.status), (200, 504), "{}", reloaded.text());
    assert_eq!(probe.made(), 1, "the old one serves");
}

#[tokio::test]
async fn who_goes_away_while_it_waits_takes_the_reload_back_case_t6() {
    let (probe, stage, _folder) = patient(secs(300)).await;
    let asked = question(false);
    let turn = stage.ask(&asked);
    let during = async {
        stage.called(&lead(), 1).await;
        let ask = json!({ "plugins": ["probe"], "wait": true });
        let leaves = async {
            until_held(&stage).await;
            stage.clock.advance(secs(120));
        };
        tokio::select! {
            reloaded = reload(&stage, &ask) => panic!("{}", reloaded.text()),
            () = leaves => {}
        }
        while ended(&stage, "cancelled").await == 0 {}
        assert_eq!(stage.admin("/readyz").await.status, 200);
        assert_eq!(stage.ask(&question(false)).await.status, 200, "admission is open");
        stage.clock.advance(secs(180));
    };
    let (turn, ()) = tokio::join!(turn, during);
    assert_eq!(turn.status, 200);
    assert_eq!((probe.made(), generation(&stage).await), (1, 1));
    assert!(probe.turns().iter().all(|turn| probe.seen_by(turn) == [1]));
}

#[tokio::test]
async fn who_goes_away_after_the_publication_takes_nothing_back_case_t7() {
    for folder in [None, Some(Folder::of_exclusive(&["probe"]))] {
        let probe = Probe::new("probe");
        let paths = folder.as_ref().map(Folder::paths).unwrap_or_default();
        let stage = stage(&[&probe], &paths, Duration::ZERO).await;
        let mut events = stage.gateway.events();
        let published = async {
            while !matches!(
                &*events.recv().await.expect("the gateway tells"),
                Event::GenerationPublished { .. }
            ) {}
        };
        let ask = json!({ "plugins": ["probe"] });
        tokio::select! {
            biased;
            () = published => {}
            reloaded = reload(&stage, &ask) => assert_eq!(reloaded.status, 200, "{}", reloaded.text()),
        }
        while ended(&stage, "applied").await == 0 {}
        assert_eq!(stage.ask(&question(false)).await.status, 200);
        assert_eq!((probe.asked_last(), generation(&stage).await), (Some(2), 2));
    }
}

#[tokio::test]
async fn what_settles_after_the_time_is_over_closes_nothing_case_t8() {
    let (one, other) = (Probe::called("one"), Probe::called("other"));
    let folder = Folder::of_exclusive(&["one", "other"]);
    let stage = stage(&[&one, &other], &folder.paths(), secs(100)).await;
    let moves = async {
        stage.clock.advance(secs(60));
        while stage.admin("/readyz").await.status != 200 {}
        stage.clock.advance(secs(40));
    };
    let (turn, reloaded, ()) = replaced_during(&stage, &json!({ "plugins": ["one", "other"] }), moves).await;
    assert_eq!((turn.status, reloaded.status), (200, 504), "{}", reloaded.text());
    for probe in [&one, &other] {
        let before = probe.turns().len();
        assert_eq!(stage.ask(&question(false)).await.status, 200);
        assert_eq!(
            (probe.turns().len(), probe.made()),
            (before + 1, 1),
            "{} answers",
            probe.id
        );
    }
}

#[tokio::test]
async fn whoever_came_meanwhile_runs_on_the_old_one_when_the_time_is_over_case_t13() {
    let (probe, stage, _folder) = exclusive(secs(100)).await;
    let moves = async {
        // later than the reload, as whoever is held by it is
        stage.clock.advance(secs(1));
        let asked = question(false);
        let held = stage.ask(&asked);
        let over = async {
            stage.clock.advance(secs(59));
            while stage.admin("/readyz").await.status != 200 {}
        };
        let (held, ()) = tokio::join!(held, over);
        stage.clock.advance(secs(100));
        held
    };
    let (turn, reloaded, held) = replaced_during(&stage, &json!({ "plugins": ["probe"] }), moves).await;
    assert_eq!(
        (turn.status, held.status, reloaded.status),
        (200, 200, 504),
        "{}",
        held.text()
    );
    assert!(probe.turns().iter().all(|turn| probe.seen_by(turn) == [1]));
}

/// A reload that waits for ten minutes, and a turn that comes a second after it.
#[tokio::test]
async fn whoever_is_held_by_one_that_waits_longer_waits_as_long_and_runs_case_t5_t13() {
    for (minutes, status, instance) in [(9, 200, 2), (11, 504, 1)] {
        let (probe, stage, _folder) = patient(secs(minutes * 60)).await;
        let moves = async {
            stage.clock.advance(secs(1));
            let asked = question(false);
            let held = stage.ask(&asked);
            let over = async {
                stage
                    .counts("understudy_registry_admissions_total", &[("result", "held")], 1)
                    .await;
                let last = minutes.min(10) * 60 - 2;
                for part in [120, last - 120] {
                    stage.clock.advance(secs(part));
                    assert_eq!(stage.admin("/readyz").await.status, 503, "nobody is refused first");
                }
                stage.clock.advance(secs(1));
                while stage.admin("/readyz").await.status != 200 {}
            };
            let (held, ()) = tokio::join!(held, over);
            stage.clock.advance(secs(60));
            held
        };
        let ask = json!({ "plugins": ["probe"], "wait": true });
        let (turn, reloaded, held) = replaced_during(&stage, &ask, moves).await;
        assert_eq!((turn.status, reloaded.status), (200, status), "{}", reloaded.text());
        assert_eq!(held.status, 200, "{}", held.text());
        assert_eq!(probe.seen_by(probe.turns().last().expect("two turns")), [instance]);
    }
}

#[tokio::test]
async fn a_turn_waits_at_the_gate_no_longer_than_its_caller() {
    let (_probe, stage, _folder) = patient(secs(300)).await;
    let moves = async {
        let asked = question(false);
        let held = stage.ask_as(&asked, |request| request.header("x-understudy-timeout-ms", "100000"));
        let over = async {
            stage
                .counts("understudy_registry_admissions_total", &[("result", "held")], 1)
                .await;
            stage.clock.advance(secs(100));
        };
        let (held, ()) = tokio::join!(held, over);
        stage.clock.advance(secs(200));
        held
    };
    let ask = json!({ "plugins": ["probe"], "wait": true });
    let (_, reloaded, held) = replaced_during(&stage, &ask, moves).await;
    assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    assert_eq!((held.status, &held.json()["error"]["code"]), (504, &json!("timeout")));
}

#[tokio::test]
async fn an_exclusive_one_hears_of_its_end_before_it_comes() {
    for probe in [Probe::new("probe"), Probe::called("probe")] {
        let folder = Folder::of_exclusive(&["probe"]);
        let stage = stage(&[&probe], &folder.paths(), Duration::ZERO).await;
        assert_eq!(reload(&stage, &json!({ "plugins": ["probe"] })).await.status, 200);
        let told = probe.told_in("");
        assert_eq!(told, [(1, "gateway_stop")], "told in time, and once");
    }
}

#[tokio::test]
async fn a_turn_that_is_waited_for_goes_on_with_all_that_it_calls_case_t17() {
    let (probe, folder) = (Probe::called("probe"), Folder::of_exclusive(&["probe"]));
    let stage = staged(&[&probe], &folder.paths(), in_two_calls(secs(20), secs(20)), "").await;
    let moves = async {
        stage.clock.advance(secs(20));
        stage.called(&second(), 1).await;
        assert_eq!(stage.admin("/readyz").await.status, 503, "it is still waited for");
        stage.clock.advance(secs(20));
    };
    let (turn, reloaded, ()) = replaced_during(&stage, &json!({ "plugins": ["probe"] }), moves).await;
    assert_eq!((turn.status, reloaded.status), (200, 200), "{}", reloaded.text());
    let told = probe.told_in(&probe.turns()[0]);
    assert!(told.iter().all(|(instance, _)| *instance == 1), "{told:?}");
    let count = |hook| told.iter().filter(|(_, it)| *it == hook).count();
    assert_eq!((count("model_call_started"), count("agent_end")), (2, 1), "{told:?}");
}

#[tokio::test]
async fn of_two_reloads_at_once_the_second_is_told_to_try_again_case_t21() {
    let (probe, stage, _folder) = exclusive(secs(20)).await;
    let moves = async {
        let busy = reload(&stage, &json!({ "plugins": ["probe"] })).await;
        assert_eq!((busy.status, busy.header("retry-after")), (503, "1"), "{}", busy.text());
        let error = &busy.json()["error"];
        assert_eq!(
            (&error["outcome"], &error["retryAfterMs"]),
            (&json!("rejected"), &json!(1_000))
        );
        stage.clock.advance(secs(20));
    };
    let (turn, reloaded, ()) = replaced_during(&stage, &json!({ "plugins": ["probe"] }), moves).await;
    assert_eq!((turn.status, reloaded.status), (200, 200), "{}", reloaded.text());
    assert_eq!(
        (probe.made(), generation(&stage).await),
        (2, 2),
        "only the first one counted"
    );
}

/// A turn of the first generation, and two generations after it.
#[tokio::test]
async fn an_instance_serves_turns_of_every_generation_that_has_it() {
    let (one, other) = (Probe::called("one"), Probe::called("other"));
    let stage = stage(&[&one, &other], "", secs(20)).await;
    let asked = question(false);
    let during = async {
        stage.called(&lead(), 1).await;
        for plugin in ["other", "one"] {
            let reply = reload(&stage, &json!({ "plugins": [plugin] })).await;
            assert_eq!(reply.status, 200, "{}", reply.text());
        }
        assert_eq!(stage.ask(&question(false)).await.status, 200);
        stage.clock.advance(secs(20));
    };
    let (turn, ()) = tokio::join!(stage.ask(&asked), during);
    assert_eq!(turn.status, 200);
    for probe in [&one, &other] {
        let first = &probe.turns()[0];
        while probe.told_in(first).len() < 4 {
            tokio::task::yield_now().await;
        }
        assert_eq!(probe.seen_by(first), [1], "{}", probe.id);
    }
}

#[tokio::test]
async fn an_exclusive_one_waits_for_turns_of_earlier_generations_too() {
    let (one, other) = (Probe::new("one"), Probe::called("other"));
    let folder = Folder::of_exclusive(&["other"]);
    let stage = stage(&[&one, &other], &folder.paths(), secs(20)).await;
    let asked = question(false);
    let during = async {
        stage.called(&lead(), 1).await;
        let reply = reload(&stage, &json!({ "plugins": ["one"] })).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let ask = json!({ "plugins": ["other"] });
        let moves = async {
            until_held(&stage).await;
            assert_eq!(other.made(), 1, "the old one is in use");
            stage.clock.advance(secs(20));
        };
        tokio::join!(reload(&stage, &ask), moves).0
    };
    let (turn, reloaded) = tokio::join!(stage.ask(&asked), during);
    assert_eq!((turn.status, reloaded.status), (200, 200), "{}", reloaded.text());
    assert_eq!((other.seen_by(&other.turns()[0]), other.made()), (vec![1], 2));
}

#[tokio::test]
async fn a_turn_that_waited_behind_its_session_waits_as_long_at_the_gate_as_any() {
    let (probe, folder) = (Probe::new("probe"), Folder::of_exclusive(&["probe"]));
    let slow = |delay: u64| json!({ "answer": { "text": "hi" }, "delay_ms": delay * 1000 });
    let plan = json!({ "a/m": { "calls": [slow(100), slow(24), slow(0)], "repeat_last": true } });
    let stage = staged(&[&probe], &folder.paths(), plan, "").await;
    let asked = question(false);
    let in_session = |session| stage.ask_as(&asked, move |request| request.header("x-session-id", session));
    let queued = async {
        stage.counts("understudy_turns_in_flight", &[], 3).await;
        stage.clock.advance(secs(20));
        let moves = async {
            until_held(&stage).await;
            stage.clock.advance(secs(4));
            let held = [("result", "held")];
            stage.counts("understudy_registry_admissions_total", &held, 1).await;
            stage.clock.advance(secs(55));
            assert_eq!(stage.admin("/readyz").await.status, 503, "59 s are over");
            stage.clock.advance(secs(1));
        };
        let ask = json!({ "plugins": ["probe"] });
        tokio::join!(reload(&stage, &ask), moves).0
    };
    let behind = async {
        stage.called(&lead(), 2).await;
        tokio::join!(in_session("s"), queued)
    };
    let ahead = async {
        stage.called(&lead(), 1).await;
        let (ahead, (behind, reloaded)) = tokio::join!(in_session("s"), behind);
        stage.clock.advance(secs(20));
        (ahead, behind, reloaded)
    };
    let (holder, (ahead, behind, reloaded)) = tokio::join!(in_session("holder"), ahead);
    assert_eq!((holder.status, ahead.status, reloaded.status), (200, 200, 504));
    assert_eq!(behind.status, 200, "{}", behind.text());
}
