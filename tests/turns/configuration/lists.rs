//! What providers list, while their configuration changes.

use super::*;
use crate::catalogs::{catalog, list, names, until, until_version};

fn asked(place: &Place, key: &str) -> String {
    let line = place.provider("a", key);
    document(&[line.replace("models: [m]", "catalog: true")], "")
}

#[tokio::test]
async fn another_key_asks_anew_and_what_was_listed_stands_until_then() {
    let lists = json!([
        list(&[json!({ "id": "m" }), json!({ "id": "one" })]),
        list(&[json!({ "id": "two" })])
    ]);
    let place = Place::plain(json!({ "a/m": answers(), "a/(models)": { "calls": lists } })).await;
    let stage = &place.stage;
    assert_eq!(catalog(stage, "a").await, Value::Null);
    assert_eq!(place.put(&asked(&place, "one")).await.status, 200);
    until_version(stage, 1).await;
    assert!(names(stage).await.contains(&"a/one".to_owned()));
    assert_eq!(place.put(&asked(&place, "two")).await.status, 200);
    let shown = until_version(stage, 2).await;
    assert_eq!(shown["models"], 1);
    let shown = names(stage).await;
    assert!(
        shown.contains(&"a/two".to_owned()) && !shown.contains(&"a/one".to_owned()),
        "{shown:?}"
    );
    let target = ModelRef::new("a", "(models)");
    stage.simulator.journal().read(|it| {
        let keys: Vec<_> = it
            .records_of(&target)
            .filter_map(|call| call.credential.as_ref())
            .collect();
        assert!(keys.len() == 2 && keys[0].is("one") && keys[1].is("two"), "{keys:?}");
    });
    let back = document(&[place.provider("a", "two")], "");
    assert_eq!(place.put(&back).await.status, 200);
    assert_eq!(until(stage, "a", Value::is_null).await, Value::Null);
    assert!(!names(stage).await.contains(&"a/two".to_owned()));
}
