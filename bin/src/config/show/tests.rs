use super::super::ServerConfig;
use super::*;

const SAMPLE: &str = r#"
providers:
  openai: { api_keys: ["sk-canary-1", "${SECOND}"], quota_group: one, key_order: least_used, ask_usage: true }
  local: { api: openai-chat, base_url: "http://127.0.0.1:9/v1", api_key: sk-canary-3, models: ["odd$${name", "30"], aggregator: true }
  anthropic: { api_key: sk-canary-6 }
  proxied: { api: gemini, base_url: "http://127.0.0.1:9/v1beta", catalog: true }
models:
  fast: { chain: [local/30, openai/gpt-5.5-mini] }
  openai/gpt-5.5: { context: 400000, first_content: 120s, prefill: false }
  local/30: { prefill: true, embedding_space: thirty }
agents:
  support: { model: openai/gpt-5.5, on_broken_stream: hold, on_content_filter: next, failover: { on_status: [404, 418] } }
  another: { model: fast, workspace: ./ws, plugins: [guard] }
plugins:
  load_paths: [./plugins]
  slots: { contextEngine: guard }
  entries:
    guard: { enabled: true, config: { apiKey: sk-canary-7, other: "${SECOND}", words: [a, { rate: 0.5 }] } }
    canon: { hooks: { allowConversationAccess: true, timeouts: { agent_end: 5s } } }
    small: { grants: { fetch: [ "HTTPS://Api.example.com:443/", "*" ] }, limits: { memory: 16MB, load: 5s } }
defaults:
  retry: { short_wait: 1500ms, max_per_target: 2 }
  breaker: { failures: 5, window: 1m }
client_keys: [sk-canary-4]
admin_token: sk-canary-5
"#;

fn read(text: &str) -> ServerConfig {
    let config = ServerConfig::parse(text, &|_| Some("sk-canary-2".to_owned()));
    config.unwrap_or_else(|error| panic!("{}\n{text}", super::super::report::for_people("test", &error)))
}

#[test]
fn every_setting_is_shown_with_its_default_and_every_secret_is_hidden() {
    insta::assert_snapshot!(as_yaml(&read(SAMPLE)).expect("is written"), @r#"
    listen:
      api: "127.0.0.1:4242"
      admin: "127.0.0.1:4243"
    providers:
      anthropic:
        api: anthropic-messages
        base_url: "https://api.anthropic.com/v1"
        api_key: "***"
        aggregator: false
        key_order: listed
        ask_usage: false
        catalog: false
      local:
        api: openai-chat
        base_url: "http://127.0.0.1:9/v1"
        api_key: "***"
        models: ["odd$${name", "30"]
        aggregator: true
        key_order: listed
        ask_usage: false
        catalog: false
      openai:
        api: openai-chat
        base_url: "https://api.openai.com/v1"
        api_keys: ["***", "***"]
        aggregator: false
        quota_group: one
        key_order: least_used
        ask_usage: true
        catalog: false
      proxied:
        api: gemini
        base_url: "http://127.0.0.1:9/v1beta"
        aggregator: false
        key_order: listed
        ask_usage: false
        catalog:
          refresh: 1h
    models:
      fast:
        chain: [local/30, openai/gpt-5.5-mini]
      local/30:
        prefill: true
        embedding_space: thirty
      openai/gpt-5.5:
        context: 400000
        first_content: 2m
        prefill: false
    agents:
      support:
        model: openai/gpt-5.5
        on_broken_stream: hold
        on_content_filter: next
        on_malformed_frame: skip
        failover:
          on_status: [404, 418]
      another:
        model:
          primary: local/30
          fallbacks: [openai/gpt-5.5-mini]
        on_broken_stream: continue
        on_content_filter: surface
        on_malformed_frame: skip
        failover:
          on_status: []
        workspace: "./ws"
        plugins: [guard]
    plugins:
      enabled: true
      load_paths: ["./plugins"]
      allow: []
      deny: []
      slots:
        contextEngine: guard
      entries:
        canon:
          hooks:
            allowConversationAccess: true
            timeouts:
              agent_end: 5s
        guard:
          enabled: true
          config:
            apiKey: "***"
            other: "${SECOND}"
            words: [a, { rate: 0.5 }]
          hooks:
            timeouts: {}
        small:
          hooks:
            timeouts: {}
          grants:
            fetch: ["https://api.example.com", "*"]
          limits:
            memory: 16MB
            load: 5s
    defaults:
      session:
        queue_wait: 30s
        idle: 30m
        ttl: 720h
        durability: turn
        interval: 1s
        resident: 256MiB
        most: 10000000
        disk: 10GiB
      retry:
        short_wait: 1500ms
        max_wait: 10s
        backoff: 500ms
        max_per_target: 2
        max_total: null
      breaker:
        failures: 5
        window: 1m
        cap: 20s
      timeouts:
        connect: 5s
        first_content: 30s
        first_content_last: 2m
        idle: 1m
        whole: 2m
        whole_last: 10m
        turn: 10m
      limits:
        body: 20MB
        in_flight: 10000
        max_queue: 1000
        queue_wait: 1s
        unread: 1m
    client_keys: ["***"]
    admin_token: "***"
    log:
      level: info
      format: pretty
    state:
      store: file
    "#);
}

#[test]
fn what_is_shown_can_be_read_again_and_means_the_same() {
    let config = read(SAMPLE);
    for shown in [as_yaml(&config), as_json(&config)] {
        let again = read(&shown.expect("is written"));
        assert_eq!(
            format!("{config:?}"),
            format!("{again:?}"),
            "secrets are hidden in both"
        );
    }
}

#[test]
fn no_secret_is_shown() {
    let config = read(SAMPLE);
    for shown in [as_yaml(&config), as_json(&config)] {
        let shown = shown.expect("is written");
        assert!(!shown.contains("canary"), "{shown}");
        assert_eq!(shown.matches("***").count(), 7, "{shown}");
    }
}
