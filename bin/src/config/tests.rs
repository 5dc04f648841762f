use std::time::Duration;

use secrecy::ExposeSecret;
use understudy_messages::hooks::Hook;
use understudy_messages::ids::ModelRef;
use understudy_messages::settings::{Api, BrokenStream, ContentFilter, Durability, KeyOrder, MalformedFrame};

use super::*;

const SAMPLE: &str = r#"
listen: { api: 127.0.0.1:4242, admin: 127.0.0.1:4243 }
providers:
  anthropic: { api: anthropic-messages, base_url: "https://api.anthropic.com/v1/", api_key: "${ANTHROPIC_API_KEY}" }
  openai:
    api_keys: ["${OPENAI_KEY_A}", "${OPENAI_KEY_B}"]
    models: [gpt-5.5, gpt-5.5-mini]
    aggregator: true
    quota_group: account
    key_order: least_used
    ask_usage: "true"
    catalog: { refresh: 6h }
    max_concurrent: 8
    max_queue: 0
    queue_wait: 2s
models:
  fast: { chain: [openai/gpt-5.5-mini, anthropic/claude-haiku-5] }
  openai/gpt-5.5: { context: 400000, prefill: false, first_content: 120s, embedding_space: large }
agents:
  support:
    model: { primary: anthropic/claude-opus-5, fallbacks: [openai/gpt-5.5, anthropic/claude-haiku-5] }
    on_broken_stream: error
    on_content_filter: next
    on_malformed_frame: fail
    failover: { on_status: [404, 599] }
  strict: { model: openai/gpt-5.5, max_concurrent: 50 }
  quick: { model: fast }
defaults:
  session:  { queue_wait: 30s, idle: 30m }
  retry:    { short_wait: 3s, max_wait: 10s, backoff: 500ms, max_per_target: null, max_total: null }
  breaker:  { failures: 3, window: 10s, cap: 20s }
  timeouts: { connect: 5s, first_content: 30s, first_content_last: 120s, idle: 60s, whole: 120s, whole_last: 600s, turn: 600s }
  limits:   { body: 20MB, in_flight: 10000, max_queue: 1000, queue_wait: 1s, unread: 1m }
client_keys: ["${CLIENT_KEY}"]
admin_token: "${ADMIN_TOKEN}"
log: { level: debug, format: json }
"#;

/// The smallest document that is valid, for tests that add to it.
const MINIMAL: &str = "providers: { openai: { api_key: k, models: [m] } }\n";

/// Every variable is set, to something that must never be seen.
fn canary(name: &str) -> Option<String> {
    Some(format!("sk-canary-{name}"))
}

fn accepted(text: &str) -> ServerConfig {
    ServerConfig::parse(text, &canary).unwrap_or_else(|error| {
        panic!("{}", report::for_people("test", &error));
    })
}

fn refused(text: &str) -> Vec<Problem> {
    match ServerConfig::parse(text, &|_| None) {
        Err(ConfigError::Invalid(problems)) => problems,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("was accepted:\n{text}"),
    }
}

/// The only problem of a document, as `path: message`, and its fix.
fn only_problem(text: &str) -> (String, String) {
    let problems = refused(text);
    assert_eq!(problems.len(), 1, "{problems:#?}");
    (problems[0].to_string(), problems[0].fix.clone())
}

fn models(text: &[&str]) -> Vec<ModelRef> {
    let parse = |text: &&str| ModelRef::parse(text).expect("is a model");
    text.iter().map(parse).collect()
}

#[test]
fn the_sample_becomes_settings() {
    let config = accepted(SAMPLE);
    let settings = &config.settings;
    let anthropic = &settings.providers["anthropic"];
    assert_eq!(anthropic.base_url, "https://api.anthropic.com/v1");
    assert_eq!(anthropic.api_keys[0].expose_secret(), "sk-canary-ANTHROPIC_API_KEY");
    let openai = &settings.providers["openai"];
    assert_eq!(openai.api_keys.len(), 2);
    assert_eq!((openai.aggregator, openai.ask_usage), (true, true));
    assert_eq!(openai.quota_group.as_deref(), Some("account"));
    assert_eq!(openai.catalog, Some(Duration::from_secs(6 * 3600)));
    assert_eq!(anthropic.catalog, None, "nobody is asked unasked");
    assert_eq!(
        (openai.key_order, anthropic.key_order),
        (KeyOrder::LeastUsed, KeyOrder::Listed)
    );
    assert_eq!(
        settings.aliases["fast"],
        models(&["openai/gpt-5.5-mini", "anthropic/claude-haiku-5"])
    );
    let known = &settings.models[&ModelRef::new("openai", "gpt-5.5")];
    assert_eq!(known.context, Some(400_000));
    assert_eq!(known.first_content, Some(Duration::from_secs(120)));
    assert_eq!(known.prefill, Some(false));
    assert_eq!(known.embedding_space.as_deref(), Some("large"));
    assert_eq!(config.client_keys.len(), 1);
    assert!(config.admin_token.is_some());
    assert_eq!(config.log.format, LogFormat::Json);
    assert_eq!(config.log.level, LevelFilter::DEBUG);
}

#[test]
fn agents_keep_their_order_and_their_models() {
    let settings = accepted(SAMPLE).settings;
    let names: Vec<&str> = settings.agents.iter().map(|agent| &*agent.name).collect();
    assert_eq!(names, ["support", "strict", "quick"]);
    let [support, strict, quick] = &settings.agents[..] else {
        panic!("three agents");
    };
    assert_eq!(support.primary.to_string(), "anthropic/claude-opus-5");
    assert_eq!(
        support.fallbacks,
        models(&["openai/gpt-5.5", "anthropic/claude-haiku-5"])
    );
    assert_eq!(support.on_broken_stream, BrokenStream::Error);
    assert_eq!(support.on_content_filter, ContentFilter::Next);
    assert_eq!(support.on_malformed_frame, MalformedFrame::Fail);
    assert_eq!(support.failover_on_status, [404, 599]);
    assert!(strict.fallbacks.is_empty() && strict.failover_on_status.is_empty());
    assert_eq!(strict.on_content_filter, ContentFilter::Surface);
    assert_eq!(strict.on_malformed_frame, MalformedFrame::Skip);
    assert_eq!(quick.primary.to_string(), "openai/gpt-5.5-mini");
    assert_eq!(quick.fallbacks, models(&["anthropic/claude-haiku-5"]));
    assert_eq!(settings.default_agent, 0);
}

#[test]
fn the_written_defaults_are_the_defaults() {
    let (written, silent) = (accepted(SAMPLE).settings, accepted(MINIMAL).settings);
    assert_eq!(written.session, silent.session);
    assert_eq!(written.timeouts, silent.timeouts);
    assert_eq!(written.retry, silent.retry);
    assert_eq!(written.breaker, silent.breaker);
    assert_eq!(written.limits, silent.limits);
}

#[test]
fn every_default_can_be_changed() {
    let settings = accepted(&format!(
        "{MINIMAL}defaults:\n  \
         session: {{ queue_wait: 1s, idle: 2s }}\n  \
         timeouts: {{ connect: 3s, first_content: 4s, first_content_last: 5s, idle: 6s, whole: 7s, whole_last: 8s, turn: 9s }}\n  \
         limits: {{ body: 10KiB, in_flight: 11, max_queue: 0, queue_wait: 10s, unread: 11s }}\n"
    ))
    .settings;
    let (session, timeouts, limits) = (settings.session, settings.timeouts, settings.limits);
    let seconds = [
        session.queue_wait,
        session.idle,
        timeouts.connect,
        timeouts.first_content,
        timeouts.first_content_last,
        timeouts.idle,
        timeouts.whole,
        timeouts.whole_last,
        timeouts.turn,
        limits.queue_wait,
        limits.unread,
    ]
    .map(|duration| duration.as_secs());
    assert_eq!(seconds, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    assert_eq!((limits.body, limits.in_flight, limits.max_queue), (10_240, 11, 0));
}

#[test]
fn how_sessions_are_kept_can_be_chosen() {
    let session = |text: &str| format!("{MINIMAL}defaults: {{ session: {{ {text} }} }}\n");
    let chosen = accepted(&session(
        "idle: 1m, ttl: 2h, durability: interval, interval: 250ms, resident: 1MiB, most: 7, disk: 3GiB",
    ));
    let chosen = chosen.settings.session;
    assert_eq!(
        (chosen.idle, chosen.ttl),
        (Duration::from_secs(60), Duration::from_secs(7_200))
    );
    assert_eq!(
        (chosen.durability, chosen.interval),
        (Durability::Interval, Duration::from_millis(250))
    );
    assert_eq!((chosen.resident, chosen.most, chosen.disk), (1 << 20, 7, 3 << 30));
    // as YAML reads it, the word is a no
    for off in ["off", "\"off\""] {
        let settings = accepted(&session(&format!("durability: {off}"))).settings;
        assert_eq!(settings.session.durability, Durability::Off);
    }
    for (text, problem) in [
        (
            "durability: always",
            "defaults.session.durability: is none of the known words",
        ),
        (
            "durability: true",
            "defaults.session.durability: is true or false, not text",
        ),
        ("resident: 0", "defaults.session.resident: must be more than zero"),
        ("disk: 0", "defaults.session.disk: must be more than zero"),
        (
            "most: many",
            "defaults.session.most: does not begin with a whole number",
        ),
        (
            "idle: 2h, ttl: 1h",
            "defaults.session.ttl: is shorter than `idle`: a session would be forgotten while it is in memory",
        ),
    ] {
        assert_eq!(only_problem(&session(text)).0, problem);
    }
}

#[test]
fn retries_and_breaker_can_be_tuned() {
    let settings = accepted(&format!(
        "{MINIMAL}defaults:\n  \
         retry: {{ short_wait: 1s, max_wait: 2s, backoff: 3ms, max_per_target: 0, max_total: 100 }}\n  \
         breaker: {{ failures: 1, window: 30s, cap: 5s }}\n"
    ))
    .settings;
    let (retry, breaker) = (settings.retry, settings.breaker);
    assert_eq!(
        (retry.short_wait, retry.max_wait),
        (Duration::from_secs(1), Duration::from_secs(2))
    );
    assert_eq!(retry.backoff, Duration::from_millis(3));
    assert_eq!((retry.max_per_target, retry.max_total), (Some(0), Some(100)));
    // a cap below the window is no mistake: the window holds
    assert_eq!(breaker.failures, 1);
    assert_eq!(
        (breaker.window, breaker.cap),
        (Duration::from_secs(30), Duration::from_secs(5))
    );
}

#[test]
fn settings_of_the_failover_engine_have_bounds() {
    let defaults = |text: &str| only_problem(&format!("{MINIMAL}defaults: {{ {text} }}")).0;
    for (text, problem) in [
        (
            "retry: { max_per_target: 21 }",
            "defaults.retry.max_per_target: is out of range",
        ),
        ("retry: { max_total: 0 }", "defaults.retry.max_total: is out of range"),
        ("retry: { max_total: 101 }", "defaults.retry.max_total: is out of range"),
        (
            "retry: { backoff: 0s }",
            "defaults.retry.backoff: must be more than zero",
        ),
        (
            "breaker: { failures: 0 }",
            "defaults.breaker.failures: must be more than zero",
        ),
        (
            "breaker: { window: 0ms }",
            "defaults.breaker.window: must be more than zero",
        ),
    ] {
        assert_eq!(defaults(text), problem);
    }
    let statuses = |list: &str| {
        only_problem(&format!(
            "{MINIMAL}agents: {{ a: {{ model: openai/m, failover: {{ on_status: {list} }} }} }}"
        ))
    };
    assert_eq!(statuses("[399]").0, "agents.a.failover.on_status[0]: is out of range");
    assert_eq!(statuses("[404, 600]").1, "write a whole number from 400 to 599");
    assert_eq!(
        statuses("[500, 404, 500]").0,
        "agents.a.failover.on_status[2]: lists 500 twice"
    );
    assert_eq!(statuses("[500, null]").0, "agents.a.failover.on_status[1]: is empty");
    let provider = |text: &str| {
        only_problem(&format!(
            "providers: {{ openai: {{ api_key: k, models: [m], {text} }} }}"
        ))
    };
    assert_eq!(
        provider("ask_usage: yess").0,
        "providers.openai.ask_usage: is neither true nor false"
    );
    assert_eq!(
        provider("aggregator: [true]").0,
        "providers.openai.aggregator: is a list, not a plain value"
    );
    assert_eq!(provider("quota_group: ''").0, "providers.openai.quota_group: is empty");
    assert_eq!(provider("key_order: least-used").1, "did you mean `least_used`?");
    assert_eq!(
        provider("catalog: hourly").0,
        "providers.openai.catalog: is neither true nor false"
    );
    assert_eq!(
        provider("catalog: { refresh: 10s }").0,
        "providers.openai.catalog.refresh: is less than a minute"
    );
}

#[test]
fn a_provider_is_asked_for_its_list_every_hour_where_the_time_is_not_said() {
    let of = |written: &str| {
        let text = format!("providers: {{ openai: {{ api_key: k, models: [m], catalog: {written} }} }}");
        accepted(&text).settings.providers["openai"].catalog
    };
    let hour = Duration::from_secs(3600);
    assert_eq!([of("true"), of("{}"), of("{ refresh: 1h }")], [Some(hour); 3]);
    assert_eq!(of("false"), None);
}

#[test]
fn a_provider_with_a_catalog_may_serve_what_its_configuration_does_not_list() {
    let provider = |more: &str| {
        format!(
            "providers: {{ openai: {{ api_key: k, models: [m]{more} }} }}\nmodels: {{ fast: {{ chain: [openai/x] }} }}"
        )
    };
    let problem = only_problem(&provider("")).0;
    assert!(problem.contains("is not in the `models`"), "{problem}");
    assert!(
        accepted(&provider(", catalog: true"))
            .settings
            .aliases
            .contains_key("fast")
    );
}

#[test]
fn an_agent_named_default_is_the_default_agent() {
    let text = format!("{MINIMAL}agents: {{ a: {{ model: openai/m }}, default: {{ model: openai/m }} }}");
    assert_eq!(accepted(&text).settings.default_agent, 1);
}

#[test]
fn without_agents_one_is_made_from_the_first_chain_or_model() {
    let of = |text: &str| {
        let agents = accepted(text).settings.agents;
        assert_eq!((agents.len(), &*agents[0].name), (1, "default"));
        let primary = agents[0].primary.to_string();
        (primary, agents[0].fallbacks.len())
    };
    assert_eq!(of(MINIMAL), ("openai/m".to_owned(), 0));
    let chains =
        format!("{MINIMAL}  \nmodels: {{ openai/m: {{}}, b: {{ chain: [openai/m] }}, a: {{ chain: [openai/m] }} }}");
    assert_eq!(of(&chains), ("openai/m".to_owned(), 0));
    let listed = "providers:\n  z: { api: openai-chat, base_url: 'http://z', models: [z1, z2] }\n  \
                  a: { api: openai-chat, base_url: 'http://a', models: [a1] }";
    assert_eq!(of(listed), ("z/z1".to_owned(), 0));
    let unlisted = "providers: { openai: { api_key: k } }\nmodels: { openai/x: { context: 10 } }";
    assert_eq!(of(unlisted), ("openai/x".to_owned(), 0));
    let none = only_problem("providers: { openai: { api_key: k } }");
    assert!(none.0.starts_with("agents: names no agent"), "{none:?}");
}

#[test]
fn an_alias_among_fallbacks_is_its_chain_without_repetition() {
    let text = "
providers: { openai: { api_key: k } }
models: { fast: { chain: [openai/a, openai/b] } }
agents: { x: { model: { primary: openai/b, fallbacks: [fast, openai/c] } } }";
    let agents = accepted(text).settings.agents;
    assert_eq!(agents[0].primary.to_string(), "openai/b");
    assert_eq!(agents[0].fallbacks, models(&["openai/a", "openai/c"]));
}

#[test]
fn a_bound_of_a_provider_has_a_queue_and_a_queue_needs_a_bound() {
    let bound = |keys: &str| {
        let text = format!("providers: {{ openai: {{ api_key: k, models: [m], {keys} }} }}");
        let providers = accepted(&text).settings.providers;
        let provider = providers.values().next().expect("one");
        provider
            .bound
            .map(|bound| (bound.most, bound.queue, bound.wait.as_secs()))
    };
    assert_eq!(bound(""), None);
    assert_eq!(bound("max_concurrent: 3"), Some((3, 100, 5)));
    assert_eq!(
        bound("max_concurrent: 3, max_queue: 0, queue_wait: 1s"),
        Some((3, 0, 1))
    );
    let text = "providers: { openai: { api_key: k, models: [m], max_queue: 3 } }";
    let problems = refused(text);
    assert_eq!(problems[0].path, "providers.openai.max_queue");
    assert!(
        problems[0].message.contains("without `max_concurrent`"),
        "{problems:#?}"
    );
    let none = refused("providers: { openai: { api_key: k, models: [m], max_concurrent: 0 } }");
    assert_eq!(none[0].path, "providers.openai.max_concurrent");
}

#[test]
fn what_later_releases_bring_is_refused_by_name() {
    for pattern in unsupported::KEYS {
        let (path, document) = document_with(pattern, "{}");
        let problems = refused(&document);
        let named = problems
            .iter()
            .any(|problem| problem.path == path && problem.message.contains("is not supported yet"));
        assert!(named, "{path}: {problems:#?}");
    }
}

/// A document with `value` at a place that fits `pattern`, and that place.
fn document_with(pattern: &str, value: &str) -> (String, String) {
    let path = pattern.replace('*', "x");
    let document = path
        .rsplit('.')
        .fold(value.to_owned(), |inner, key| format!("{{ {key}: {inner} }}"));
    (path, document)
}

#[test]
fn a_vendor_known_by_name_needs_a_key_and_a_server_of_ones_own_does_not() {
    for (vendor, variable) in [
        ("openai", "OPENAI_API_KEY"),
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("gemini", "GEMINI_API_KEY"),
    ] {
        let with = |keys: &str| format!("providers: {{ {vendor}: {{ models: [m], {keys} }} }}");
        let (problem, fix) = only_problem(&with(""));
        assert_eq!(problem, format!("providers.{vendor}.api_key: is missing"));
        assert!(fix.contains(&format!("${{{variable}}}")), "{fix}");
        accepted(&with("api_keys: [a, b]"));
        accepted(&with("base_url: 'http://127.0.0.1:8000/v1'"));
    }
}

#[test]
fn a_vendor_known_by_name_needs_neither_format_nor_address() {
    let provider = |text: &str| {
        let config = accepted(&format!("providers: {{ {text} }}"));
        let provider = config.settings.providers.into_values().next().expect("is one");
        (provider.api, provider.base_url.clone())
    };
    let google = "https://generativelanguage.googleapis.com/v1beta";
    for (text, api, address) in [
        ("openai: { api_key: k", Api::OpenaiChat, "https://api.openai.com/v1"),
        (
            "openai: { api_key: k, api: openai-responses",
            Api::OpenaiResponses,
            "https://api.openai.com/v1",
        ),
        (
            "anthropic: { api_key: k",
            Api::AnthropicMessages,
            "https://api.anthropic.com/v1",
        ),
        ("gemini: { api_key: k", Api::Gemini, google),
        (
            "gemini: { api_key: k, api: openai-chat",
            Api::OpenaiChat,
            &format!("{google}/openai"),
        ),
    ] {
        assert_eq!(
            provider(&format!("{text}, models: [m] }}")),
            (api, address.to_owned()),
            "{text}"
        );
    }
    let elsewhere = only_problem("providers: { gemini: { api: openai-responses, api_key: k, models: [m] } }");
    assert_eq!(elsewhere.0, "providers.gemini.base_url: is missing");
}

#[test]
fn the_way_to_write_an_address_is_told_for_each_format() {
    for (api, before) in [
        ("openai-chat", "`/chat/completions`"),
        ("openai-responses", "`/responses`"),
        ("anthropic-messages", "`/messages`"),
        ("gemini", "`/models`"),
    ] {
        let provider = |url: &str| only_problem(&format!("providers: {{ p: {{ api: {api}, {url} models: [m] }} }}"));
        let (missing, fix) = provider("");
        assert_eq!(missing, "providers.p.base_url: is missing");
        assert!(fix.contains(before), "{fix}");
        let (wrong, fix) = provider("base_url: 'file:///x',");
        assert_eq!(wrong, "providers.p.base_url: is no http or https address");
        assert!(fix.contains(before), "{fix}");
    }
}

#[test]
fn what_becomes_of_a_broken_stream_is_one_of_three_words() {
    let policy = |written: &str| {
        let text = format!("{MINIMAL}agents: {{ a: {{ model: openai/m{written} }} }}");
        accepted(&text).settings.agents[0].on_broken_stream
    };
    assert_eq!(policy(""), BrokenStream::Continue);
    assert_eq!(policy(", on_broken_stream: continue"), BrokenStream::Continue);
    assert_eq!(policy(", on_broken_stream: hold"), BrokenStream::Hold);
    assert_eq!(policy(", on_broken_stream: error"), BrokenStream::Error);
    let wrong = format!("{MINIMAL}agents: {{ a: {{ model: openai/m, on_broken_stream: resume }} }}");
    assert_eq!(
        only_problem(&wrong).0,
        "agents.a.on_broken_stream: is none of the known words"
    );
}

#[test]
fn what_is_known_of_a_model_is_checked() {
    let model = |text: &str| only_problem(&format!("{MINIMAL}models: {{ openai/m: {{ {text} }} }}")).0;
    assert_eq!(
        model("prefill: maybe"),
        "models.openai/m.prefill: is neither true nor false"
    );
    assert_eq!(
        model("embedding_space: ''"),
        "models.openai/m.embedding_space: is empty"
    );
}

#[test]
fn what_is_no_reference_is_told_how_one_is_written() {
    let broken = MINIMAL.replace("api_key: k", "api_key: '${KEY:-none}'");
    let (problem, fix) = only_problem(&broken);
    assert_eq!(
        problem,
        "providers.openai.api_key: `${` does not begin a reference to a variable"
    );
    assert!(fix.starts_with("write `${NAME}`"), "{fix}");
}

#[test]
fn a_typo_is_told_what_was_meant() {
    let (problem, fix) = only_problem("providers: { openai: { api_key: k, models: [m], base_ulr: x } }");
    assert_eq!(problem, "providers.openai.base_ulr: is not a known key");
    assert_eq!(fix, "did you mean `base_url`?");
    let (_, fix) = only_problem(
        "providers: { openai: { api_key: k, models: [gpt-5.5] } }\nagents: { a: { model: openai/gtp-5.5 } }",
    );
    assert_eq!(fix, "did you mean `openai/gpt-5.5`?");
    let (_, fix) = only_problem(&format!("{MINIMAL}agents: {{ a: {{ model: opnai/m }} }}"));
    assert_eq!(fix, "did you mean `openai`?");
}

#[test]
fn all_problems_are_reported_at_once() {
    let text = r#"
listen: { api: "localhost", admin: 0.0.0.0:4243 }
providers:
  openai: { base_url: "ftp://example.com", api_key: "${NOT_SET}", api_keys: [] }
  local: { base_url: "http://user:sk-canary@127.0.0.1:9/v1", models: [] }
models:
  empty: { chain: [] }
  twice: { chain: [openai/a, openai/a, claude, nobody/x] }
  openai/a: { context: many, first_content: 30, chain: [] }
agents:
  a b: { model: { fallbacks: [fst] } }
  c: openai/a
plugins: { allow: [a, A], load_paths: [""], entries: { g: { hooks: { timeout: 11m, timeouts: { agentEnd: 1s } } } } }
defaults:
  timeouts: { idle: 0s, total: 5s }
  limits: { body: 20 mb, in_flight: [] }
log: { level: loud }
colour: red
"#;
    let error = ServerConfig::parse(text, &|_| None).expect_err("is refused");
    insta::assert_snapshot!(report::for_people("understudy.yaml", &error), @r#"
    understudy.yaml: 29 problems

    admin_token: is missing, and the admin listener 0.0.0.0:4243 is not on loopback
      fix:   set a token, or listen on 127.0.0.1

    listen.api: is no address with a port  (understudy.yaml:2)
      found: localhost
      fix:   write an IP address and a port: 127.0.0.1:4242

    providers.openai.base_url: is no http or https address  (understudy.yaml:4)
      found: ftp://example.com
      fix:   write the address that comes before `/chat/completions`: https://api.example.com/v1

    providers.openai.api_keys: stands beside `api_key`  (understudy.yaml:4)
      fix:   keep one of them: `api_keys` is the list

    providers.openai.api_key: environment variable NOT_SET is not set  (understudy.yaml:4)
      fix:   set the variable, or write `$${` for a plain `${`

    providers.local.api: is missing  (understudy.yaml:5)
      fix:   name the wire format: openai-chat, openai-responses, anthropic-messages, gemini

    providers.local.base_url: has a user, a query or a fragment in it  (understudy.yaml:5)
      fix:   keep the plain address here, and the credential in `api_key`

    providers.local.models: lists no model  (understudy.yaml:5)
      fix:   add a model, or remove the key

    models.empty.chain: is empty  (understudy.yaml:7)
      fix:   list the models to ask, best first: [provider/model, provider/model]

    models.twice.chain[1]: is listed twice  (understudy.yaml:8)
      found: openai/a
      fix:   remove one of the two

    models.twice.chain[2]: is no model  (understudy.yaml:8)
      found: claude
      fix:   write provider/model

    models.twice.chain[3]: names a provider that is not configured  (understudy.yaml:8)
      found: nobody/x
      fix:   choose from: local, openai

    models.openai/a.context: does not begin with a whole number  (understudy.yaml:9)
      found: many
      fix:   write a whole number

    models.openai/a.first_content: has no unit  (understudy.yaml:9)
      found: 30
      fix:   write a whole number and a unit: 250ms, 30s, 5m, 2h

    models.openai/a.chain: is not a known key  (understudy.yaml:9)
      fix:   choose from: context, first_content, prefill, embedding_space

    agents.a b: has a name that does not fit a header  (understudy.yaml:11)
      fix:   name it with visible ASCII characters and without a slash

    agents.a b.model.primary: is missing  (understudy.yaml:11)
      fix:   write provider/model

    agents.a b.model.fallbacks[0]: is neither provider/model nor a name in `models`  (understudy.yaml:11)
      found: fst
      fix:   choose from: empty, twice

    agents.c: is text, not a section  (understudy.yaml:12)
      fix:   write a section here

    plugins.load_paths[0]: is empty  (understudy.yaml:13)
      found: 
      fix:   write the path of a folder

    plugins.allow[1]: is listed twice  (understudy.yaml:13)
      found: A
      fix:   remove one of the two

    plugins.entries.g.hooks.timeout: is longer than ten minutes  (understudy.yaml:13)
      fix:   give a handler at most 10m

    plugins.entries.g.hooks.timeouts.agentEnd: is no hook: there is no such hook; agent_end is meant  (understudy.yaml:13)
      fix:   did you mean `agent_end`?

    defaults.timeouts.idle: must be more than zero  (understudy.yaml:15)
      found: 0s
      fix:   write a whole number and a unit: 250ms, 30s, 5m, 2h

    defaults.timeouts.total: is not a known key  (understudy.yaml:15)
      fix:   choose from: connect, first_content, first_content_last, idle, whole, whole_last, turn

    defaults.limits.body: has an unknown unit  (understudy.yaml:16)
      found: 20 mb
      fix:   write bytes, with or without a unit: 20MB, 512KiB, 65536

    defaults.limits.in_flight: is a list, not a plain value  (understudy.yaml:16)
      fix:   write a plain value here

    log.level: is none of the known words  (understudy.yaml:17)
      found: loud
      fix:   choose from: off, error, warn, info, debug, trace

    colour: is not a known key  (understudy.yaml:18)
      fix:   choose from: listen, client_keys, admin_token, log, state, plugins, providers, models, agents, defaults
    "#);
}

#[test]
fn a_syntax_error_has_line_and_column_and_no_text_of_the_file() {
    for text in [
        "providers:\n  openai: { api_key: sk-canary",
        "providers:\n\topenai: sk-canary",
        "a: sk-canary\na: sk-canary",
        "a: *sk-canary",
        "a: \"sk-canary\\q\"",
        "sk-canary: [sk-canary",
        "? [sk-canary]\n: 1",
        "a: !sk-canary 1\n--- \nb",
        "a: %sk-canary\n`",
    ] {
        let problems = refused(text);
        assert_eq!(problems.len(), 1, "{text}: {problems:?}");
        assert!(problems[0].line.is_some(), "{text}: {problems:?}");
        assert!(problems[0].column.is_some(), "{text}: {problems:?}");
        assert!(!format!("{problems:?}").contains("canary"), "{problems:?}");
    }
}

#[test]
fn a_bottomless_document_is_refused() {
    assert_eq!(refused(&"[".repeat(100_000)).len(), 1);
    let deep = refused(&format!("{}{}", "[".repeat(40), "]".repeat(40)));
    let laughs = (1..20).fold("a0: &a0 [1, 1]\n".to_owned(), |text, n| {
        format!("{text}a{n}: &a{n} [*a{0}, *a{0}, *a{0}]\n", n - 1)
    });
    assert!(deep[0].message.contains("nested too deeply"));
    assert!(refused(&laughs)[0].message.contains("repeats too much"));
}

#[test]
fn an_empty_document_lacks_providers() {
    for text in ["", "# nothing\n", "---\n", "{}"] {
        assert_eq!(only_problem(text).0, "providers: names no provider");
    }
    assert_eq!(only_problem("providers").0, "the file is text, not a section");
}

#[test]
fn no_secret_is_ever_shown() {
    let shown = format!("{:?}", accepted(SAMPLE));
    assert!(!shown.contains("canary"), "{shown}");
    let wrong_places = r#"
providers:
  a: { api: openai-chat, base_url: "https://sk-canary@host/v1", api_key: "sk-canary with spaces" }
  b: { api: openai-chat, base_url: "https://host/v1?key=sk-canary", api_keys: sk-canary }
  c: { api: openai-chat, base_url: "${KEY}", api_key: { value: sk-canary } }
  d: { api: "${KEY}", base_url: "http://d", apikey: sk-canary, models: { x: sk-canary } }
agents: { a: { model: "${KEY}" } }
client_keys: [[sk-canary], "", "${sk-canary}"]
admin_token: [sk-canary]
sk: sk-canary
"#;
    let error = ServerConfig::parse(wrong_places, &canary).expect_err("is refused");
    let ConfigError::Invalid(problems) = &error else {
        panic!("{error}");
    };
    assert!(problems.len() >= 12, "{problems:#?}");
    let report = report::for_people("f", &error);
    let json = report::as_json("f", Err(&error)).to_string();
    for shown in [format!("{error:?} {error}"), report, json] {
        assert!(!shown.contains("canary"), "{shown}");
    }
}

#[test]
fn a_missing_variable_is_a_problem_that_names_it() {
    let (problem, _) = only_problem("providers: { openai: { api_key: \"${NO_SUCH}\", models: [m] } }");
    assert_eq!(
        problem,
        "providers.openai.api_key: environment variable NO_SUCH is not set"
    );
}

#[test]
fn an_empty_variable_is_not_a_value() {
    let text = "providers: { openai: { api_key: \"${K}\", base_url: \"${U}\", models: [\"${M}\"] } }";
    let Err(ConfigError::Invalid(problems)) = ServerConfig::parse(text, &|_| Some(String::new())) else {
        panic!("was accepted");
    };
    let empty = |problem: &&Problem| problem.message == "is empty";
    assert_eq!(problems.iter().filter(empty).count(), 3, "{problems:#?}");
}

#[test]
fn a_variable_may_hold_a_number() {
    let env = |_: &str| Some("12".to_owned());
    let text = format!("{MINIMAL}defaults: {{ limits: {{ in_flight: \"${{N}}\", body: \"${{N}}KiB\" }} }}");
    let limits = ServerConfig::parse(&text, &env).expect("is valid").settings.limits;
    assert_eq!((limits.in_flight, limits.body), (12, 12_288));
}

#[test]
fn an_admin_listener_off_loopback_needs_a_token() {
    let open = format!("{MINIMAL}listen: {{ admin: \"0.0.0.0:4243\" }}\n");
    let (problem, _) = only_problem(&open);
    assert!(problem.starts_with("admin_token: is missing"), "{problem}");
    assert!(accepted(&format!("{open}admin_token: t")).admin_token.is_some());
    accepted(&format!("{MINIMAL}listen: {{ admin: \"[::1]:4243\" }}\n"));
}

#[test]
fn both_listeners_cannot_share_an_address() {
    let listen =
        |api: &str, admin: &str| format!("{MINIMAL}admin_token: t\nlisten: {{ api: \"{api}\", admin: \"{admin}\" }}");
    let (problem, _) = only_problem(&listen("127.0.0.1:80", "127.0.0.1:80"));
    assert_eq!(problem, "listen.admin: is the address of the API listener");
    only_problem(&listen("0.0.0.0:80", "127.0.0.1:80"));
    only_problem(&format!("{MINIMAL}listen: {{ api: \"127.0.0.1:4243\" }}"));
    accepted(&listen("127.0.0.1:0", "127.0.0.1:0"));
    accepted(&listen("127.0.0.1:80", "127.0.0.2:80"));
}

#[test]
fn a_file_is_read_and_one_that_is_missing_or_huge_is_not() {
    let folder = std::env::temp_dir().join(format!("understudy-config-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("is created");
    let (good, huge) = (folder.join("good.yaml"), folder.join("huge.yaml"));
    std::fs::write(&good, MINIMAL).expect("is written");
    std::fs::write(&huge, format!("{MINIMAL}#{}", "x".repeat(1 << 20))).expect("is written");
    assert!(ServerConfig::load(&good).is_ok());
    for unreadable in [huge, folder.join("missing.yaml")] {
        let outcome = ServerConfig::load(&unreadable);
        assert!(matches!(outcome, Err(ConfigError::Unreadable(_))));
    }
    std::fs::remove_dir_all(&folder).expect("is removed");
}

#[test]
fn the_sample_in_the_readme_is_valid() {
    let readme = include_str!("../../../README.md");
    let (_, sample) = readme.split_once("```yaml\n").expect("has a sample");
    let (sample, _) = sample.split_once("```").expect("ends");
    accepted(sample);
}

#[test]
fn every_example_is_valid() {
    let folder = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).expect("examples/ is there") {
        let path = entry.expect("is an entry").path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = std::fs::read_to_string(&path).expect("is readable");
            if let Err(error) = ServerConfig::parse(&text, &canary) {
                panic!("{}", report::for_people(&path.display().to_string(), &error));
            }
            names.push(path.file_name().map(std::ffi::OsStr::to_os_string));
        }
    }
    for name in ["minimal.yaml", "failover.yaml", "formats.yaml"] {
        assert!(names.contains(&Some(name.into())), "{name} is missing");
    }
}

#[test]
fn plugins_are_read_with_what_they_may_do() {
    let text = format!(
        "{MINIMAL}{}",
        r#"
agents: { a: { model: openai/m, workspace: ./ws, plugins: [guard] } }
plugins:
  load_paths: [./plugins]
  allow: [guard, canon]
  deny: [other]
  entries:
    guard:
      enabled: true
      required: false
      config: { words: ["a", { n: 2 }], rate: 0.5, token: "${T}" }
      hooks: { allowConversationAccess: true, allowPromptInjection: false, timeout: 5s, timeouts: { agent_end: 9s } }
"#
    );
    let settings = ServerConfig::parse(&text, &|_| Some("sk-canary".to_owned()))
        .expect("is valid")
        .settings;
    let agent = &settings.agents[0];
    assert_eq!(agent.workspace.as_deref(), Some(FilePath::new("./ws")));
    assert_eq!(agent.plugins.as_deref(), Some(&["guard".into()][..]));
    let plugins = &settings.plugins;
    assert_eq!((plugins.allow.len(), plugins.deny.len(), plugins.enabled), (2, 1, true));
    let guard = plugins.entry("GUARD").expect("is there");
    assert_eq!((guard.enabled, guard.required), (Some(true), Some(false)));
    assert_eq!(
        (guard.hooks.conversation, guard.hooks.injection),
        (Some(true), Some(false))
    );
    assert_eq!(guard.hooks.timeout, Some(Duration::from_secs(5)));
    assert_eq!(guard.hooks.timeouts[&Hook::AgentEnd], Duration::from_secs(9));
    let config = guard.config.as_ref().expect("is there");
    let expected = serde_json::json!({ "words": ["a", { "n": 2 }], "rate": 0.5, "token": "sk-canary" });
    assert_eq!(config.value, expected);
    assert_eq!(config.written["token"], "${T}");
}

#[test]
fn what_a_plugins_code_may_reach_is_a_list_of_origins() {
    let entry = |entry: &str| format!("{MINIMAL}plugins: {{ entries: {{ g: {entry} }} }}");
    let text = entry("{ grants: { fetch: ['http://127.0.0.1:8080', '*'] }, limits: { memory: 1MiB, load: 30s } }");
    let settings = ServerConfig::parse(&text, &|_| None).expect("is valid").settings;
    let given = settings.plugins.entry("g").expect("is there");
    assert_eq!(given.grants.fetch, ["http://127.0.0.1:8080", "*"]);
    assert_eq!(
        (given.limits.memory, given.limits.load),
        (Some(1 << 20), Some(Duration::from_secs(30)))
    );
    for none in [
        "example.com",
        "ftp://h",
        "https://h/path",
        "https://h/?q",
        "https://u:sk-canary@h",
        "https://*.h",
    ] {
        let problem = only_problem(&entry(&format!("{{ grants: {{ fetch: ['{none}'] }} }}")));
        assert_eq!(problem.0, "plugins.entries.g.grants.fetch[0]: is no origin", "{none}");
    }
    let problem = only_problem(&entry("{ limits: { load: 31s } }"));
    assert_eq!(
        problem.0,
        "plugins.entries.g.limits.load: is longer than a plugin may take to register"
    );
}

#[test]
fn a_plugins_settings_are_a_section() {
    let problem = only_problem(&format!("{MINIMAL}plugins: {{ entries: {{ g: {{ config: [1] }} }} }}"));
    assert_eq!(problem.0, "plugins.entries.g.config: is a list, not a section");
}

#[test]
fn state_lies_in_a_folder_of_its_own_or_in_memory() {
    let none = accepted(MINIMAL).state;
    assert_eq!((none.store, none.dir), (Store::File, None));
    let folder = accepted(&format!("{MINIMAL}state: {{ dir: ./kept }}\n")).state;
    assert_eq!(folder.dir.as_deref(), Some(FilePath::new("./kept")));
    let memory = accepted(&format!("{MINIMAL}state: {{ store: memory }}\n")).state;
    assert_eq!(memory.store, Store::Memory);
    let both = only_problem(&format!("{MINIMAL}state: {{ store: memory, dir: ./kept }}\n"));
    assert!(
        both.0.starts_with("state.dir: ") && both.1.contains("remove one"),
        "{both:?}"
    );
    let word = only_problem(&format!("{MINIMAL}state: {{ store: redis }}\n"));
    assert!(word.1.contains("file, memory"), "{word:?}");
}
