//! What of a configuration only counts from the next start on.

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use understudy_messages::settings::SessionSettings;

use super::document::HIDDEN;
use super::{Problem, ServerConfig};

/// What keeps `wanted` from taking the place of what the gateway was started with: every place, and what to do.
pub(crate) fn needed(started: &ServerConfig, wanted: &ServerConfig) -> Vec<Problem> {
    let (was, will) = (&started.settings, &wanted.settings);
    let changes = [
        ("listen.api", started.api != wanted.api),
        ("listen.admin", started.admin != wanted.admin),
        ("client_keys", !same(&started.client_keys, &wanted.client_keys)),
        ("admin_token", !same(&started.admin_token, &wanted.admin_token)),
        ("log", started.log != wanted.log),
        ("state", started.state != wanted.state),
        ("defaults.session", fixed(was.session) != fixed(will.session)),
        ("defaults.limits.body", was.limits.body != will.limits.body),
        (
            "defaults.limits.in_flight",
            was.limits.in_flight != will.limits.in_flight,
        ),
        ("defaults.limits.unread", was.limits.unread != will.limits.unread),
    ];
    let changed = changes.into_iter().filter(|(_, changed)| *changed);
    changed.map(|(path, _)| problem(path)).collect()
}

/// What of the sessions' settings only counts at the start: all but how long a turn waits.
fn fixed(session: SessionSettings) -> SessionSettings {
    SessionSettings {
        queue_wait: Duration::ZERO,
        ..session
    }
}

fn same<'a>(
    one: impl IntoIterator<Item = &'a SecretString>,
    other: impl IntoIterator<Item = &'a SecretString>,
) -> bool {
    let one = one.into_iter().map(ExposeSecret::expose_secret);
    one.eq(other.into_iter().map(ExposeSecret::expose_secret))
}

fn problem(path: &str) -> Problem {
    Problem {
        path: path.to_owned(),
        line: None,
        column: None,
        found: None,
        message: "is different from what the gateway was started with: it needs a restart".to_owned(),
        fix: "put back what it was, or restart the gateway with this file".to_owned(),
    }
}

/// Secrets that are not there: what the configuration shows in their place was written in their place.
pub(crate) fn hidden(wanted: &ServerConfig) -> Vec<Problem> {
    let providers = wanted.settings.providers.values();
    let keys = providers.flat_map(|provider| {
        let path = format!("providers.{}", provider.name);
        provider.api_keys.iter().map(move |key| (path.clone(), key))
    });
    let own = wanted.client_keys.iter().map(|key| ("client_keys".to_owned(), key));
    let token = wanted.admin_token.iter().map(|key| ("admin_token".to_owned(), key));
    let all = keys.chain(own).chain(token);
    all.filter(|(_, key)| key.expose_secret() == HIDDEN)
        .map(|(path, _)| Problem {
            path,
            line: None,
            column: None,
            found: Some(HIDDEN.to_owned()),
            message: "a secret that is hidden was written back".to_owned(),
            fix: "write the key, or better a reference to a variable: ${NAME}".to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(further: &str) -> ServerConfig {
        let text = format!(
            "providers: {{ a: {{ api: openai-chat, base_url: \"http://a.example\", api_key: k, models: [m] }} }}\n\
            models: {{ main: {{ chain: [a/m] }} }}\n{further}"
        );
        ServerConfig::parse(&text, &|_| None)
            .unwrap_or_else(|error| panic!("{}", super::super::report::for_people("", &error)))
    }

    fn paths(problems: &[Problem]) -> Vec<&str> {
        problems.iter().map(|problem| problem.path.as_str()).collect()
    }

    #[test]
    fn what_is_bound_or_counted_at_the_start_needs_a_restart_and_the_rest_does_not() {
        let started = config("");
        let fixed = "listen: { api: \"127.0.0.1:1\", admin: \"127.0.0.1:2\" }\nclient_keys: [x]\n\
            log: { level: debug }\nstate: { store: memory }\ndefaults: { session: { idle: 1m }, limits: { body: 1MB, in_flight: 7, unread: 2m } }\n";
        assert_eq!(
            paths(&needed(&started, &config(fixed))),
            [
                "listen.api",
                "listen.admin",
                "client_keys",
                "log",
                "state",
                "defaults.session",
                "defaults.limits.body",
                "defaults.limits.in_flight",
                "defaults.limits.unread"
            ]
        );
        let free = "defaults: { session: { queue_wait: 1s }, timeouts: { connect: 1s }, breaker: { failures: 9 } }\n";
        assert_eq!(needed(&started, &config(free)), []);
    }

    #[test]
    fn stars_are_no_secret() {
        assert_eq!(hidden(&config("")), []);
        assert_eq!(paths(&hidden(&config("client_keys: [\"***\"]"))), ["client_keys"]);
    }
}
