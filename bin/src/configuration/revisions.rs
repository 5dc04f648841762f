//! Which revision of the configuration serves, which was before, which waits. Pure.

use std::sync::Arc;

use serde::Serialize;
use understudy_actors::state::records::Stored;
use understudy_messages::registry::{ReloadError, ReloadOutcome};
use understudy_messages::settings::Settings;

use crate::config::{Problem, ServerConfig};

/// One configuration that was found valid.
#[derive(Debug)]
pub(crate) struct Revision {
    /// Its name: a hash of its text.
    pub(crate) id: String,
    /// The whole of it.
    pub(crate) config: ServerConfig,
    /// What generations are built from.
    pub(crate) settings: Arc<Settings>,
}

impl Revision {
    /// A revision of what was read.
    pub(crate) fn of(config: ServerConfig) -> Self {
        Self {
            id: config.source.revision(),
            settings: Arc::new(config.settings.clone()),
            config,
        }
    }
}

/// Why what was saved last does not serve.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Fault {
    /// In a sentence.
    pub(crate) message: String,
    /// Every place that is wrong, and what to do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) problems: Vec<Problem>,
}

/// A revision that served before an earlier start, and why there is no way back to it.
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    /// What was kept of it.
    pub(crate) stored: Stored,
    /// Why.
    pub(crate) why: String,
}

/// What is known of the configuration.
#[derive(Clone, Debug)]
pub(crate) struct Revisions {
    /// It serves.
    pub(crate) serving: Arc<Revision>,
    /// It served before.
    pub(crate) previous: Option<Arc<Revision>>,
    /// What served before, where there is no way back to it.
    pub(crate) lost: Option<Lost>,
    /// It was accepted, and will serve as soon as the work that holds it up has ended.
    pub(crate) waiting: Option<Arc<Revision>>,
    /// Why what was saved last does not serve, and will not by itself.
    pub(crate) fault: Option<Fault>,
}

impl Revisions {
    pub(crate) fn new(first: Revision) -> Self {
        Self {
            serving: Arc::new(first),
            previous: None,
            lost: None,
            waiting: None,
            fault: None,
        }
    }

    /// The newest that was accepted.
    pub(crate) fn saved(&self) -> &Arc<Revision> {
        self.waiting.as_ref().unwrap_or(&self.serving)
    }

    /// One step back from the newest that was accepted.
    pub(crate) fn before(&self) -> Option<&Arc<Revision>> {
        match &self.waiting {
            Some(_) => Some(&self.serving),
            None => self.previous.as_ref(),
        }
    }

    /// After an attempt to let `revision` serve. A registry that is busy is asked again where nobody waits for an answer.
    pub(crate) fn after(&self, revision: &Arc<Revision>, failed: Option<&ReloadError>, patient: bool) -> Self {
        match failed {
            None => self.applied(revision),
            Some(error) if error.committed => self.applied(revision),
            Some(error) if is_deferred(error) || (patient && error.retry_after_ms.is_some()) => Self {
                waiting: Some(revision.clone()),
                fault: None,
                ..self.clone()
            },
            Some(error) => Self {
                // one that failed when its turn came waits no longer
                waiting: self.waiting.clone().filter(|waiting| waiting.id != revision.id),
                ..self.refused(Fault {
                    message: error.message.clone(),
                    problems: Vec::new(),
                })
            },
        }
    }

    fn applied(&self, revision: &Arc<Revision>) -> Self {
        let same = self.serving.id == revision.id;
        Self {
            previous: match same {
                true => self.previous.clone(),
                false => Some(self.serving.clone()),
            },
            lost: self.lost.clone().filter(|_| same),
            serving: revision.clone(),
            waiting: None,
            fault: None,
        }
    }

    /// While one waits another was saved: that waits in its place, unless it is what serves.
    pub(crate) fn saved_as(&self, found: Arc<Revision>) -> Self {
        Self {
            waiting: (found.id != self.serving.id).then_some(found),
            fault: None,
            ..self.clone()
        }
    }

    /// What was saved last cannot serve; what serves or waits goes on.
    pub(crate) fn refused(&self, fault: Fault) -> Self {
        Self {
            fault: Some(fault),
            ..self.clone()
        }
    }

    /// What was saved last is what is known already.
    pub(crate) fn sound(&self) -> Self {
        Self {
            fault: None,
            ..self.clone()
        }
    }
}

/// Whether a reload will be tried again by itself.
pub(crate) fn is_deferred(error: &ReloadError) -> bool {
    error.outcome == ReloadOutcome::Deferred
}

#[cfg(test)]
mod tests {
    use understudy_messages::registry::Phase;

    use super::*;

    fn revision(key: &str) -> Arc<Revision> {
        let text = format!(
            "providers: {{ a: {{ api: openai-chat, base_url: \"http://a.example\", api_key: {key}, models: [m] }} }}\n\
             models: {{ main: {{ chain: [a/m] }} }}\n"
        );
        Arc::new(Revision::of(ServerConfig::parse(&text, &|_| None).expect("good")))
    }

    fn failed(outcome: ReloadOutcome, retry_after_ms: Option<u64>) -> ReloadError {
        ReloadError {
            operation_id: None,
            outcome,
            phase: Phase::Drain,
            committed: false,
            generation: None,
            plugin_ids: Vec::new(),
            message: "as its test wants".to_owned(),
            retry_after_ms,
            holders: Vec::new(),
            omitted: 0,
        }
    }

    fn first() -> Revisions {
        Revisions {
            serving: revision("one"),
            previous: None,
            lost: None,
            waiting: None,
            fault: None,
        }
    }

    #[test]
    fn what_is_applied_serves_and_the_one_before_can_be_gone_back_to() {
        let (two, first) = (revision("two"), first());
        assert!(first.before().is_none());
        let after = first.after(&two, None, false);
        assert_eq!((&after.serving.id, &after.saved().id), (&two.id, &two.id));
        assert_eq!(after.before().map(|it| &it.id), Some(&first.serving.id));
        let again = after.after(&two, None, false);
        assert_eq!(
            again.before().map(|it| &it.id),
            Some(&first.serving.id),
            "no step forward"
        );
    }

    #[test]
    fn what_is_deferred_waits_and_going_back_from_it_is_what_serves() {
        let (two, first) = (revision("two"), first());
        let after = first.after(&two, Some(&failed(ReloadOutcome::Deferred, None)), false);
        assert_eq!((&after.serving.id, &after.saved().id), (&first.serving.id, &two.id));
        assert_eq!(after.before().map(|it| &it.id), Some(&first.serving.id));
        let three = revision("three");
        assert_eq!(after.saved_as(three.clone()).saved().id, three.id);
        assert!(after.saved_as(first.serving.clone()).waiting.is_none());
        let over = after.after(&two, Some(&failed(ReloadOutcome::RolledBack, None)), true);
        assert!(
            over.waiting.is_none() && over.fault.is_some(),
            "it is not tried for ever"
        );
        let back = after.after(&first.serving, None, false);
        assert!(back.waiting.is_none() && back.previous.is_none());
    }

    #[test]
    fn a_failure_is_kept_and_a_busy_registry_is_asked_again_only_where_nobody_waits() {
        let (two, first) = (revision("two"), first());
        let busy = failed(ReloadOutcome::Rejected, Some(1_000));
        assert!(first.after(&two, Some(&busy), true).waiting.is_some());
        for ended in [busy, failed(ReloadOutcome::RolledBack, None)] {
            let after = first.after(&two, Some(&ended), false);
            assert!(after.waiting.is_none() && after.fault.is_some());
            assert!(after.sound().fault.is_none());
        }
    }
}
