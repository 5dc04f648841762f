//! The windows that are open, as `GET /admin/v1/providers` tells them.

use std::time::Duration;

use serde::Deserialize;

/// Who is left alone, why, and for how much longer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Window {
    pub(crate) scope: Scope,
    pub(crate) reason: String,
    pub(crate) remaining: Duration,
}

/// Whom a window holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// One target.
    Model(String),
    /// A credential of this provider, and with it every model.
    Credential(String),
}

impl Scope {
    /// Whether the target is left alone.
    pub(crate) fn holds(&self, target: &str) -> bool {
        match self {
            Self::Model(model) => model == target,
            Self::Credential(provider) => target.split('/').next() == Some(provider),
        }
    }
}

#[derive(Deserialize)]
struct Ledger {
    providers: Vec<Provider>,
}

#[derive(Deserialize)]
struct Provider {
    name: String,
    #[serde(default)]
    candidates: Vec<Candidate>,
    #[serde(default)]
    credentials: Vec<Rest>,
}

#[derive(Deserialize)]
struct Candidate {
    model: String,
    #[serde(flatten)]
    rest: Rest,
}

#[derive(Deserialize)]
struct Rest {
    reason: Option<String>,
    until_seconds: Option<f64>,
}

/// Reads the ledger's page: every window whose end is still to come.
pub(crate) fn read(page: &str) -> Result<Vec<Window>, String> {
    let ledger: Ledger = serde_json::from_str(page).map_err(|error| format!("no ledger: {error}: {page}"))?;
    let mut windows = Vec::new();
    for provider in ledger.providers {
        let name = &provider.name;
        let models = provider.candidates.into_iter().map(|candidate| {
            let target = match candidate.model.strip_prefix(&format!("{name}/")) {
                Some(_) => candidate.model,
                None => format!("{name}/{}", candidate.model),
            };
            (Scope::Model(target), candidate.rest)
        });
        let credentials = provider
            .credentials
            .into_iter()
            .map(|rest| (Scope::Credential(name.clone()), rest));
        windows.extend(models.chain(credentials).filter_map(|(scope, rest)| rest.window(scope)));
    }
    Ok(windows)
}

impl Rest {
    fn window(self, scope: Scope) -> Option<Window> {
        let remaining = Duration::try_from_secs_f64(self.until_seconds?).ok()?;
        (remaining > Duration::ZERO).then(|| Window {
            scope,
            reason: self.reason.unwrap_or_default(),
            remaining,
        })
    }
}
