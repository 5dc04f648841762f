//! What providers list, while a plugin that cannot be there twice is waited for.

use super::*;
use crate::catalogs::{catalog, list, names, refresh, until_version};

#[tokio::test]
async fn while_a_reload_drains_lists_are_read_at_once_and_asked_for_after_it_case_t14_t15() {
    let (probe, folder) = (Probe::new("probe"), Folder::of_exclusive(&["probe"]));
    let mut plan = plan(Duration::from_secs(20));
    plan["a/(models)"] = json!({ "calls": [list(&[json!({ "id": "one" })]), list(&[json!({ "id": "two" })])] });
    let stage = staged(&[&probe], &folder.paths(), plan, "").await;
    until_version(&stage, 1).await;
    let lists = understudy_messages::ids::ModelRef::new("a", "(models)");
    let asked = question(false);
    let turn = stage.ask(&asked);
    let during = async {
        stage.called(&lead(), 1).await;
        let ask = json!({ "plugins": ["probe"] });
        let replaced = reload(&stage, &ask);
        let meanwhile = async {
            until_held(&stage).await;
            assert_eq!(refresh(&stage, "a").await.status, 202);
            assert!(names(&stage).await.contains(&"a/one".to_owned()), "at once");
            stage.clock.advance(Duration::from_secs(10));
            assert!(names(&stage).await.contains(&"a/one".to_owned()));
            assert_eq!(catalog(&stage, "a").await["version"], 1);
            stage.calls_are(&lists, 1);
            stage.clock.advance(Duration::from_secs(10));
        };
        tokio::join!(replaced, meanwhile)
    };
    let (turn, (reloaded, ())) = tokio::join!(turn, during);
    assert_eq!((turn.status, reloaded.status), (200, 200), "{}", reloaded.text());
    until_version(&stage, 2).await;
    assert!(names(&stage).await.contains(&"a/two".to_owned()));
}

#[tokio::test]
async fn a_reload_that_gives_up_leaves_lists_as_they_were_case_t14() {
    let (probe, folder) = (Probe::new("probe"), Folder::of_exclusive(&["probe"]));
    let mut plan = plan(Duration::from_secs(100));
    plan["a/(models)"] = json!({ "calls": [list(&[json!({ "id": "one" })])] });
    let stage = staged(&[&probe], &folder.paths(), plan, "").await;
    until_version(&stage, 1).await;
    let asked = question(false);
    let turn = stage.ask(&asked);
    let during = async {
        stage.called(&lead(), 1).await;
        let ask = json!({ "plugins": ["probe"] });
        let given_up = async {
            until_held(&stage).await;
            stage.clock.advance(Duration::from_secs(60));
        };
        let (reloaded, ()) = tokio::join!(reload(&stage, &ask), given_up);
        assert!(names(&stage).await.contains(&"a/one".to_owned()));
        stage.clock.advance(Duration::from_secs(40));
        reloaded
    };
    let (turn, reloaded) = tokio::join!(turn, during);
    assert_eq!((turn.status, reloaded.status), (200, 504), "{}", reloaded.text());
    let kept = catalog(&stage, "a").await;
    assert_eq!((&kept["version"], &kept["state"]), (&json!(1), &json!("idle")));
}
