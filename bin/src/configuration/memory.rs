//! What of the configuration outlives the process.

use std::path::{Path, absolute};
use std::sync::Arc;

use secrecy::ExposeSecret;
use understudy_actors::state::records::{self, Pending, Published, Stored};
use understudy_actors::state::{State, StateError};

use super::beginning::is_of;
use super::revisions::Lost;
use super::{Fault, Revision, Revisions};
use crate::app::Shared;
use crate::config::{ServerConfig, report, restart, show};

/// What is known at a start: what serves first, and what an earlier process has kept of the same file.
pub(crate) fn recall(first: Revision, fault: Option<Fault>, state: &State) -> Result<Revisions, StateError> {
    let (published, _settled) = records::kept(state.file())?;
    let mut known = Revisions::new(first);
    known.fault = fault;
    let started = known.serving.config.clone();
    let file = started.source.file.as_deref();
    let Some(published) = published.filter(|published| file.is_some_and(|file| is_of(published, file))) else {
        return Ok(known);
    };
    let same = published.serving.id == known.serving.id;
    let before = if same {
        published.previous
    } else {
        Some(published.serving)
    };
    match before.map(|before| revive(before, &started)).transpose() {
        Ok(before) => known.previous = before,
        Err(lost) => known.lost = Some(lost),
    }
    // a file that can be read holds what waits, and is what serves
    let waiting = published.waiting.filter(|_| known.fault.is_some());
    known.waiting = waiting.and_then(|waiting| revive(waiting, &started).ok());
    Ok(known)
}

fn revive(stored: Stored, started: &ServerConfig) -> Result<Arc<Revision>, Lost> {
    let lost = |stored, why: String| Err(Lost { stored, why });
    let Some(text) = stored.text.clone() else {
        return lost(
            stored,
            "a secret is written out in it, so its text was not kept".to_owned(),
        );
    };
    let source = &started.source;
    let config = match ServerConfig::read(&text, source.file.as_deref(), &source.compiled) {
        Ok(config) => config,
        Err(error) => {
            let why = report::for_people(&stored.id, &error);
            return lost(stored, format!("it is not valid any longer: {}", why.trim_end()));
        }
    };
    match restart::needed(started, &config).is_empty() {
        true => Ok(Arc::new(Revision::of(config))),
        false => lost(stored, "it needs a restart".to_owned()),
    }
}

/// Keeps what is known now; returns when it is kept. What belongs to no file ends with the process.
pub(crate) async fn keep(shared: &Shared) -> Result<(), StateError> {
    let known = shared.configuration.known();
    let Some(file) = file_of(shared) else { return Ok(()) };
    let generation = shared.published.load().map_or(0, |serving| serving.id.0);
    let lost = known.lost.as_ref().map(|lost| lost.stored.clone());
    let published = Published {
        file,
        serving: stored(&known.serving),
        previous: known.previous.as_deref().map(stored).or(lost),
        waiting: known.waiting.as_deref().map(stored),
        generation,
        at: crate::unix_seconds(&shared.clock),
    };
    records::publish(shared.state.file(), published).await
}

/// Keeps what is about to be done to the file.
pub(super) async fn begin(shared: &Shared, wanted: &Revision, before: &Revision) -> Result<(), StateError> {
    let Some(file) = file_of(shared) else { return Ok(()) };
    let pending = Pending {
        file,
        wanted: wanted.id.clone(),
        before: stored(before),
    };
    records::begin(shared.state.file(), pending).await
}

fn file_of(shared: &Shared) -> Option<std::path::PathBuf> {
    let file: &Path = shared.config.source.file.as_deref()?;
    absolute(file).ok()
}

fn stored(revision: &Revision) -> Stored {
    Stored {
        id: revision.id.clone(),
        text: (!holds_a_secret(&revision.config)).then(|| revision.config.source.text.clone()),
    }
}

/// Whether a secret is written out in a text: what would be shown as stars, and what stands somewhere else again.
fn holds_a_secret(config: &ServerConfig) -> bool {
    let keys = config.settings.providers.values().flat_map(|it| &it.api_keys);
    let mut secrets = keys.chain(&config.client_keys).chain(&config.admin_token);
    show::hides(config) || secrets.any(|secret| config.source.text.contains(secret.expose_secret()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(key: &str, further: &str) -> Revision {
        let text = format!(
            "providers: {{ a: {{ api: openai-chat, base_url: \"http://a.example\", {key} models: [m] }} }}\n{further}"
        );
        let env = |name: &str| (name == "KEY").then(|| "sk-canary-1234".to_owned());
        let mut config =
            ServerConfig::parse(&text, &env).unwrap_or_else(|error| panic!("{}", report::for_people("", &error)));
        config.source.file = Some(Path::new("/etc/understudy.yaml").into());
        Revision::of(config)
    }

    fn kept(key: &str, further: &str) -> bool {
        stored(&revision(key, further)).text.is_some()
    }

    #[test]
    fn a_text_in_which_a_secret_is_written_out_is_not_kept() {
        assert!(kept("", "") && kept("api_key: \"${KEY}\",", ""));
        assert!(!kept("api_key: sk-literal,", ""));
        assert!(!kept("api_key: \"sk-${KEY}\",", ""), "part of it is written out");
        assert!(!kept("api_key: \"s\\u006b-escaped\",", ""), "in another notation");
        assert!(!kept("api_key: \"${KEY}\",", "# it was sk-canary-1234\n"));
        assert!(!kept("", "client_keys: [abcdef]\n") && !kept("", "admin_token: abcdef\n"));
        let plugin = |key: &str| format!("plugins: {{ entries: {{ p: {{ config: {{ apiKey: \"{key}\" }} }} }} }}\n");
        assert!(!kept("", &plugin("abcdef")) && kept("", &plugin("${KEY}")));
    }

    async fn state(serving: Stored, previous: Option<Stored>, waiting: Option<Stored>) -> State {
        let state = State::in_memory().expect("state");
        let published = Published {
            file: "/etc/understudy.yaml".into(),
            serving,
            previous,
            waiting,
            generation: 1,
            at: 0,
        };
        records::publish(state.file(), published).await.expect("kept");
        state
    }

    fn broken() -> Option<Fault> {
        Some(Fault {
            message: "as its test wants".to_owned(),
            problems: Vec::new(),
        })
    }

    #[tokio::test]
    async fn the_step_back_is_what_served_before_whether_the_file_was_edited_meanwhile_or_not() {
        let (one, two) = (revision("", "# one\n"), revision("", "# two\n"));
        let kept = state(stored(&two), Some(stored(&one)), None).await;
        let same = recall(revision("", "# two\n"), None, &kept).expect("read");
        assert_eq!(same.before().map(|it| &it.id), Some(&one.id));
        let edited = recall(revision("", "# three\n"), None, &kept).expect("read");
        assert_eq!(edited.before().map(|it| &it.id), Some(&two.id));
    }

    #[tokio::test]
    async fn what_cannot_be_gone_back_to_is_named_with_the_reason() {
        let secret = Stored {
            id: "0123".to_owned(),
            text: None,
        };
        let restart = stored(&revision("", "log: { level: debug }\n"));
        let wrong = Stored {
            id: "4567".to_owned(),
            text: Some("unknown: 1".into()),
        };
        for (before, why) in [(secret, "a secret"), (restart, "a restart"), (wrong, "not valid")] {
            let kept = state(stored(&revision("", "# two\n")), Some(before.clone()), None).await;
            let known = recall(revision("", "# two\n"), None, &kept).expect("read");
            let lost = known.lost.expect("it is lost");
            assert!(
                known.previous.is_none() && lost.stored == before && lost.why.contains(why),
                "{}",
                lost.why
            );
        }
    }

    #[tokio::test]
    async fn what_waits_goes_on_waiting_where_the_file_is_gone() {
        let (one, two) = (revision("", "# one\n"), revision("", "# two\n"));
        let kept = state(stored(&one), None, Some(stored(&two))).await;
        let known = recall(revision("", "# one\n"), broken(), &kept).expect("read");
        assert_eq!(known.saved().id, two.id);
        let read = recall(revision("", "# two\n"), None, &kept).expect("read");
        assert_eq!(
            (read.waiting.is_none(), read.before().map(|it| &it.id)),
            (true, Some(&one.id))
        );
    }
}
