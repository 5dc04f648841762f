//! Who keeps an instance, as operators see it.

use tokio::sync::watch;
use understudy_messages::service::{CallRoute, RouteAnswer};
use understudy_plugins::registration::RouteOptions;

use super::*;

/// Hears of turns, and answers its route when it is let. Two of it may be there for a while.
struct Keeper {
    answers: watch::Sender<bool>,
}

impl NativePlugin for Keeper {
    fn id(&self) -> &str {
        "keeper"
    }

    fn manifest(&self) -> Option<&str> {
        Some("{ id: 'keeper', host: 'native', resources: 'shared' }")
    }

    fn register(&self, api: &mut NativeApi, _: &Value) -> Result<(), String> {
        let nothing = |_: &HookEvent, _: &HookContext| Ok(HookResult::None);
        api.on_quick("before_prompt_build", HookOptions::default(), Arc::new(nothing));
        api.service("poller", Arc::new(|_| async { Ok(()) }.boxed()));
        let answers = self.answers.clone();
        let route = move |_: CallRoute| {
            let mut answers = answers.subscribe();
            async move {
                answers.wait_for(|may| *may).await.expect("the test lives");
                RouteAnswer::read(Some(json!({ "body": "well" }))).map_err(|why| why.to_string())
            }
            .boxed()
        };
        api.route("/hook", &RouteOptions::default(), Arc::new(route));
        Ok(())
    }
}

async fn inspected(stage: &Stage) -> Value {
    stage.admin("/admin/v1/plugins/keeper").await.json()
}

/// Each instance: its number, what it is there for, its generations, and what keeps it.
fn kept(inspected: &Value) -> Value {
    let instances = inspected["runtimeRetention"].as_array().expect("instances").iter();
    let kept = instances.map(|it| {
        let holders = it["holders"].as_array().expect("holders").iter();
        let mut holders: Vec<String> = holders.map(|holder| holder["kind"].to_string()).collect();
        holders.sort_unstable();
        assert_eq!(
            (&it["total"], &it["omitted"]),
            (&json!(holders.len()), &json!(0)),
            "{it}"
        );
        assert_eq!(it["replacementPending"], false, "{it}");
        json!([it["instance"], it["state"], it["generations"], holders.join(" ")])
    });
    kept.collect()
}

#[tokio::test]
async fn a_turn_and_a_call_that_keep_an_old_instance_after_a_reload_are_named() {
    let keeper = Keeper {
        answers: watch::Sender::new(false),
    };
    let answers = keeper.answers.clone();
    let stage = hosting(vec![Arc::new(keeper)], "", plan(Duration::from_secs(10)), "").await;
    // how long it takes on this machine is not what is asked
    stage.clock.hold();
    let asked = question(false);
    let turn = stage.ask_as(&asked, |request| request.header("x-session-id", "holder"));
    let call = stage.get("/plugins/keeper/hook");
    let during = async {
        stage.called(&lead(), 1).await;
        while inspected(&stage).await["plugin"]["calls_in_flight"] == 0 {}
        let before = inspected(&stage).await;
        let first = r#""call" "service" "turn""#;
        assert_eq!(kept(&before), json!([[1, "serving", [1], first]]), "{before}");
        let reply = reload(&stage, &json!({ "plugins": ["keeper"] })).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let after = inspected(&stage).await;
        let both = json!([[2, "serving", [2], "\"service\""], [1, "retiring", [1], first]]);
        assert_eq!(kept(&after), both, "{after}");
        let holders = after["runtimeRetention"][1]["holders"].as_array().expect("holders");
        let of = |kind: &str| holders.iter().find(|it| it["kind"] == kind).expect("one");
        assert_eq!(
            (
                &of("turn")["session"],
                &of("turn")["agent"],
                &of("call")["id"],
                &of("service")["id"]
            ),
            (&json!("holder"), &json!("default"), &json!("/hook"), &json!("poller")),
            "{after}"
        );
        answers.send_replace(true);
        stage.clock.advance(Duration::from_secs(10));
    };
    let (turn, call, ()) = tokio::join!(turn, call, during);
    assert_eq!((turn.status, call.status), (200, 200), "{}", call.text());
    while kept(&inspected(&stage).await) != json!([[2, "serving", [2], "\"service\""]]) {}
    assert_eq!(stage.admin("/admin/v1/plugins/nobody").await.status, 404);
}

#[tokio::test]
async fn an_instance_that_a_reload_is_to_replace_says_so() {
    let (_probe, stage, _folder) = exclusive(Duration::from_secs(20)).await;
    let asked = question(false);
    let during = async {
        stage.called(&lead(), 1).await;
        let ask = json!({ "plugins": ["probe"] });
        let look = async {
            until_held(&stage).await;
            let inspected = stage.admin("/admin/v1/plugins/probe").await.json();
            let instance = &inspected["runtimeRetention"][0];
            assert_eq!(
                (&instance["replacementPending"], &instance["holders"][0]["kind"]),
                (&json!(true), &json!("turn")),
                "{inspected}"
            );
            stage.clock.advance(Duration::from_secs(20));
        };
        tokio::join!(reload(&stage, &ask), look).0
    };
    let (turn, reloaded) = tokio::join!(stage.ask(&asked), during);
    assert_eq!((turn.status, reloaded.status), (200, 200), "{}", reloaded.text());
}
