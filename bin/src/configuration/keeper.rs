//! Carries out what is ordered about the configuration, one thing after the other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use understudy_messages::origin::OriginToken;
use understudy_messages::registry::{Receipt, Reload, ReloadError, ReloadOutcome, Trigger};

use super::memory;
use super::revisions::is_deferred;
use super::{Change, Changed, Fault, Order, Refreshed, Refused, Revision, Revisions, busy, not_begun};
use crate::app::Shared;
use crate::config::source::{revision_of, write};
use crate::config::{ConfigError, Problem, ServerConfig, report, restart};

/// How long after the work that held it up, or a busy registry, a revision that waits is tried again.
const AGAIN: Duration = Duration::from_secs(1);

pub(super) struct Keeper {
    shared: Arc<Shared>,
    orders: mpsc::Receiver<Order>,
    /// Saved while another one was about to be applied.
    newer: Option<Arc<Revision>>,
    /// Somebody wanted all folders looked at anew, and that is still to come.
    anew: bool,
}

impl Keeper {
    pub(super) fn new(shared: Arc<Shared>, orders: mpsc::Receiver<Order>) -> Self {
        Self {
            shared,
            orders,
            newer: None,
            anew: false,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            while let Some(newer) = self.newer.take() {
                let trigger = match self.anew {
                    true => Trigger::Signal,
                    false => Trigger::ConfigWatch,
                };
                let _logged = self.install(&newer, trigger, None).await;
                self.keep().await;
            }
            let waiting = self.known().waiting.clone();
            let shared = self.shared.clone();
            let idle = async move {
                shared.published.idle(&shared.clock).await;
                shared.clock.sleep(AGAIN).await;
            };
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    Some(Order::Look(trigger)) => self.look(trigger).await,
                    Some(Order::Change { change, replaces, origin, reply }) => {
                        let _gone_meanwhile = reply.send(self.change(change, &replaces, origin).await);
                    }
                    Some(Order::Refresh { origin, reply }) => {
                        let _gone_meanwhile = reply.send(self.refresh(origin).await);
                    }
                    None => return,
                },
                () = idle, if waiting.is_some() => self.newer = waiting,
            }
        }
    }

    fn known(&self) -> Arc<Revisions> {
        self.shared.configuration.known()
    }

    fn learn(&self, known: Revisions) {
        self.shared.configuration.known.store(Arc::new(known));
    }

    /// The file may have changed; a signal also takes anew what its plugins' folders hold.
    async fn look(&mut self, trigger: Trigger) {
        let known = self.known();
        match self.saved().await {
            Ok(found) if found.id == known.saved().id && !trigger.looks_anew() => self.learn(known.sound()),
            // what held up the one that waits holds up this one too: it is only the newer one that will be tried
            Ok(found) if known.waiting.is_some() && trigger == Trigger::ConfigWatch => {
                self.learn(known.saved_as(found));
                self.keep().await;
            }
            Ok(found) => {
                let _logged = self.install(&found, trigger, None).await;
                self.keep().await;
            }
            Err(fault) => self.refuse(fault, trigger),
        }
    }

    /// What a signal asks for, for somebody who waits for the answer.
    async fn refresh(&mut self, origin: Option<OriginToken>) -> Refreshed {
        match self.saved().await {
            Ok(found) => {
                let ended = self.install(&found, Trigger::Refresh, origin).await;
                let kept = self.keep().await;
                ended.map(|receipt| warned(receipt, kept))
            }
            Err(fault) => {
                self.refuse(fault.clone(), Trigger::Refresh);
                Err(not_begun(fault.message, None))
            }
        }
    }

    /// While another one is being applied: the same text changes nothing, another one supersedes it.
    async fn look_meanwhile(&mut self, applying: &Revision, superseded: &CancellationToken) {
        match self.saved().await {
            Ok(found) if found.id == applying.id => {}
            Ok(found) => {
                self.newer = Some(found);
                superseded.cancel();
            }
            Err(fault) => self.refuse(fault, Trigger::ConfigWatch),
        }
    }

    /// What the file holds; what serves, where there is none.
    async fn saved(&self) -> Result<Arc<Revision>, Fault> {
        let Some(file) = self.shared.config.source.file.clone() else {
            return Ok(self.known().saved().clone());
        };
        let compiled = self.shared.config.source.compiled.clone();
        let read = tokio::task::spawn_blocking(move || (ServerConfig::load_knowing(&file, &compiled), file)).await;
        let Ok((read, file)) = read else {
            return Err(fault("the file could not be read".to_owned(), Vec::new()));
        };
        let told = |error: ConfigError| fault(report::for_people(&file.display().to_string(), &error), problems(error));
        let config = read.map_err(told)?;
        let needs = restart::needed(&self.shared.config, &config);
        match needs.is_empty() {
            true => Ok(Arc::new(Revision::of(config))),
            false => Err(fault(
                report::for_people(&file.display().to_string(), &ConfigError::Invalid(needs.clone())),
                needs,
            )),
        }
    }

    /// The last good one goes on; whoever looks is told why.
    fn refuse(&self, fault: Fault, trigger: Trigger) {
        tracing::error!(
            "the configuration was not taken; what served before goes on\n{}",
            fault.message
        );
        let telemetry = &self.shared.supervision.telemetry;
        telemetry.reloaded(
            trigger,
            ReloadOutcome::Rejected,
            Duration::ZERO,
            self.shared.clock.wall(),
        );
        self.learn(self.known().refused(fault));
    }

    async fn change(
        &mut self,
        change: Change,
        replaces: &str,
        origin: Option<OriginToken>,
    ) -> Result<Changed, Refused> {
        let known = self.known();
        let before = known.saved().clone();
        if replaces != "*" && replaces != before.id {
            return Err(Refused::Replaced(before.id.clone()));
        }
        let revision = match change {
            Change::To(text) => self.read(&text)?,
            Change::Back => back(&known)?,
        };
        // before the file is touched: a start that finds it half done knows what to put back
        let begun = memory::begin(&self.shared, &revision, &before).await;
        begun.map_err(|error| Refused::NotWritten(std::io::Error::other(error)))?;
        if let Err(refused) = self.write(&revision).await {
            self.keep().await;
            return Err(refused);
        }
        let ended = self.install(&revision, Trigger::Api, origin).await;
        let stands = ended
            .as_ref()
            .map_or_else(|error| error.committed || is_deferred(error), |_| true);
        if !stands {
            self.put_back(&revision, &before).await;
        }
        let kept = self.keep().await;
        Ok(self.told(ended.map(|receipt| warned(receipt, kept))))
    }

    /// Keeps what is known, and ends the change that led to it; says what became of it where that failed.
    async fn keep(&self) -> Option<String> {
        let error = memory::keep(&self.shared).await.err()?;
        tracing::error!(%error, "the configuration is not kept over a restart");
        Some(format!("It serves, and is not kept over a restart: {error}"))
    }

    fn read(&self, text: &str) -> Result<Arc<Revision>, Refused> {
        let started = &self.shared.config;
        let source = &started.source;
        let config = ServerConfig::read(text, source.file.as_deref(), &source.compiled);
        let config = config.map_err(|error| Refused::Invalid(problems(error)))?;
        let hidden = restart::hidden(&config);
        if !hidden.is_empty() {
            return Err(Refused::Invalid(hidden));
        }
        let needs = restart::needed(started, &config);
        match needs.is_empty() {
            true => Ok(Arc::new(Revision::of(config))),
            false => Err(Refused::NeedsRestart(needs)),
        }
    }

    async fn write(&self, revision: &Revision) -> Result<(), Refused> {
        let Some(file) = self.shared.config.source.file.clone() else {
            return Ok(());
        };
        let text = revision.config.source.text.clone();
        let written = tokio::task::spawn_blocking(move || write(&file, &text)).await;
        written
            .map_err(std::io::Error::other)
            .flatten()
            .map_err(Refused::NotWritten)
    }

    /// The file holds again what it held, unless somebody has saved another text meanwhile.
    async fn put_back(&self, refused: &Revision, before: &Revision) {
        let Some(file) = self.shared.config.source.file.clone() else {
            return;
        };
        let holds = tokio::task::spawn_blocking(move || ServerConfig::text_of(&file)).await;
        let ours = matches!(&holds, Ok(Ok(text)) if revision_of(text) == refused.id);
        if ours && let Err(Refused::NotWritten(error)) = self.write(before).await {
            tracing::error!(%error, revision = before.id, "the configuration file could not be put back");
        }
    }

    fn told(&self, ended: Result<Receipt, ReloadError>) -> Changed {
        let (receipt, error) = match ended {
            Ok(receipt) => (Some(receipt), None),
            Err(error) => (None, Some(error)),
        };
        Changed {
            applied: error.as_ref().is_none_or(|error| error.committed),
            deferred: error.as_ref().is_some_and(is_deferred),
            revision: self.known().saved().id.clone(),
            receipt,
            error,
        }
    }

    /// Lets a revision serve, if it can, and remembers what came of it.
    async fn install(
        &mut self,
        revision: &Arc<Revision>,
        trigger: Trigger,
        origin: Option<OriginToken>,
    ) -> Result<Receipt, ReloadError> {
        let ended = self.reload(revision, trigger, origin).await;
        // whoever asked for it is told to try again
        let not_begun = |error: &ReloadError| trigger == Trigger::Refresh && error.retry_after_ms.is_some();
        let without_trace = ended.as_ref().err().is_some_and(not_begun);
        // one that was superseded has left no trace: its successor is about to be applied
        if ended.is_ok() || (self.newer.is_none() && !without_trace) {
            self.learn(
                self.known()
                    .after(revision, ended.as_ref().err(), !trigger.is_answered()),
            );
        }
        let is_to_come = self.newer.is_some() || self.known().waiting.is_some();
        self.anew = (trigger.looks_anew() || self.anew) && ended.is_err() && is_to_come;
        ended
    }

    async fn reload(
        &mut self,
        revision: &Arc<Revision>,
        trigger: Trigger,
        origin: Option<OriginToken>,
    ) -> Result<Receipt, ReloadError> {
        let Some(registry) = self.shared.registry.get() else {
            return Err(lost());
        };
        let superseded = CancellationToken::new();
        let reload = registry.reload.send(Reload {
            plugins: Vec::new(),
            digests: BTreeMap::new(),
            settings: Some(revision.settings.clone()),
            wait: false,
            trigger,
            origin,
            requester: CancellationToken::new(),
            superseded: superseded.clone(),
        });
        tokio::pin!(reload);
        loop {
            tokio::select! {
                biased;
                ended = &mut reload => return match ended {
                    Ok(ended) => ended,
                    Err(_mailbox) => Err(lost()),
                },
                Some(order) = self.orders.recv() => match order {
                    Order::Look(_) => self.look_meanwhile(revision, &superseded).await,
                    Order::Change { reply, .. } => {
                        let _gone_meanwhile = reply.send(Err(Refused::Busy));
                    }
                    Order::Refresh { reply, .. } => {
                        let _gone_meanwhile = reply.send(Err(busy()));
                    }
                },
            }
        }
    }
}

fn back(known: &Revisions) -> Result<Arc<Revision>, Refused> {
    let lost = known.lost.clone().map_or(Refused::NothingBefore, Refused::Lost);
    known.before().cloned().ok_or(lost)
}

fn warned(mut receipt: Receipt, warning: Option<String>) -> Receipt {
    receipt.warnings.extend(warning);
    receipt
}

fn fault(message: String, problems: Vec<Problem>) -> Fault {
    Fault { message, problems }
}

pub(super) fn problems(error: ConfigError) -> Vec<Problem> {
    match error {
        ConfigError::Invalid(problems) => problems,
        ConfigError::Unreadable(_) => Vec::new(),
    }
}

fn lost() -> ReloadError {
    let message = "The registry is being started again. Try again in a second.";
    not_begun(message.to_owned(), Some(1_000))
}
