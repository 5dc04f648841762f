//! Plugins that serve stay as they are, whatever lies in their folders by now: nobody has asked about them.

use super::*;

/// A guard that lets everything pass and does not see the conversation, which is said.
const GUARD: &str = "export function register(api) { api.on('before_tool_call', () => undefined); }";
/// One that nobody would miss for safety's sake.
const LISTENER: &str = "export function register(api) { api.on('model_call_ended', () => undefined); }";

/// A gateway with both, and the text of its configuration by the key of its provider.
async fn staged() -> (Place, impl Fn(&str) -> String) {
    let place = Place::new(json!({ "a/m": answers() }), "", understudy::plugins::standard_hosts()).await;
    for (id, code) in [("guard", GUARD), ("listener", LISTENER)] {
        let folder = place.folder.join("plugins").join(id);
        std::fs::create_dir_all(&folder).expect("a folder");
        let manifest = format!("{{ id: '{id}', main: 'index.js', configSchema: {{}} }}");
        std::fs::write(folder.join("openclaw.plugin.json"), manifest).expect("written");
        std::fs::write(folder.join("index.js"), code).expect("written");
    }
    let provider = place.provider("a", "KEY");
    let with = move |key: &str| {
        let entries = "{ guard: { enabled: true }, listener: { enabled: true } }";
        let plugins = format!("plugins: {{ load_paths: [plugins], entries: {entries} }}\n");
        document(&[provider.replace("KEY", key)], &plugins)
    };
    assert_eq!(place.put(&with("one")).await.status, 200);
    (place, with)
}

async fn reload(place: &Place, plugin: &str) -> Reply {
    let path = place.stage.gateway.admin("/admin/v1/plugins/reload");
    let ask = place.stage.gateway.client().post(path);
    let ask = ask.header("content-type", "application/json");
    let body = json!({ "plugins": [plugin] }).to_string();
    read(ask.body(body).send().await.expect("a response")).await
}

/// The plugins that serve, and what is noted about one of them.
async fn serving(place: &Place, noted: &str) -> (Vec<String>, Vec<String>) {
    let report = place.stage.admin("/admin/v1/plugins").await.json();
    let text = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
    let plugins = report["plugins"].as_array().expect("plugins").iter();
    let loaded = plugins.filter(|it| it["status"] == "loaded").map(|it| text(it, "id"));
    let notes = report["diagnostics"].as_array().expect("diagnostics").iter();
    let notes = notes
        .filter(|it| it["plugin_id"] == noted)
        .map(|it| text(it, "message"));
    (loaded.collect(), notes.collect())
}

#[tokio::test]
async fn another_key_is_taken_and_no_plugin_goes_though_the_folders_of_all_are_gone() {
    let (place, with) = staged().await;
    std::fs::rename(place.folder.join("plugins"), place.folder.join("away")).expect("moved");
    let reply = place.put(&with("two")).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.json()["receipt"]["pluginIds"], json!([]), "{}", reply.text());
    let (loaded, notes) = serving(&place, "listener").await;
    assert_eq!(loaded, ["guard", "listener"]);
    assert!(
        notes.len() == 1 && notes[0].contains("serves on from its copy"),
        "{notes:?}"
    );
}

#[tokio::test]
async fn a_reload_of_one_plugin_is_no_reason_to_touch_another_whose_manifest_is_broken() {
    let (place, _) = staged().await;
    let manifest = |id: &str| place.folder.join("plugins").join(id).join("openclaw.plugin.json");
    std::fs::write(manifest("listener"), "{ id: 'list").expect("written");
    let reply = reload(&place, "guard").await;
    assert_eq!(
        (reply.status, &reply.json()["pluginIds"]),
        (200, &json!(["guard"])),
        "{}",
        reply.text()
    );
    assert_eq!(serving(&place, "").await.0, ["guard", "listener"]);
    // whoever is named is looked for
    assert_eq!(reload(&place, "listener").await.status, 400);
    assert_eq!(serving(&place, "").await.0, ["guard", "listener"]);
}

#[tokio::test]
async fn what_is_noted_about_a_plugin_stays_as_long_as_its_instance() {
    let (place, _) = staged().await;
    let (_, before) = serving(&place, "guard").await;
    assert!(before.len() == 1 && before[0].contains("narrow event"), "{before:?}");
    assert_eq!(reload(&place, "listener").await.status, 200);
    assert_eq!(serving(&place, "guard").await.1, before);
}

#[tokio::test]
async fn a_guard_that_is_switched_off_goes_though_its_folder_is_gone() {
    let (place, with) = staged().await;
    std::fs::rename(place.folder.join("plugins"), place.folder.join("away")).expect("moved");
    let off = with("one").replace("guard: { enabled: true }", "guard: { enabled: false }");
    let reply = place.put(&off).await;
    assert_eq!(
        (reply.status, &reply.json()["receipt"]["pluginIds"]),
        (200, &json!(["guard"])),
        "{}",
        reply.text()
    );
    assert_eq!(serving(&place, "").await.0, ["listener"]);
}
