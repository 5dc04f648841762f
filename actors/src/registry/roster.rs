//! Who may answer which request: names resolved to chains, by the settings of one generation. Pure.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use understudy_messages::catalog::CatalogModel;
use understudy_messages::ids::{ModelRef, Name};
use understudy_messages::settings::{AgentSettings, Settings};
use understudy_messages::turn::{Absent, Candidate, Cast, FallbackPolicy};

use crate::catalog::{Catalogs, Facts};

/// As many models of catalogs are shown.
const MOST_SHOWN: usize = 10_000;

/// Everything that a name in a request may stand for: what configuration says, and beside it what providers list.
#[derive(Debug)]
pub struct Roster {
    settings: Arc<Settings>,
    providers: HashMap<Name, usize>,
    listed: HashMap<ModelRef, Arc<Candidate>>,
    bare: HashMap<Name, Vec<ModelRef>>,
    catalogs: Arc<Catalogs>,
    /// Providers that are named and are not there: a plugin has to bring them.
    expected: HashSet<Name>,
}

/// A name that stands for nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CastError {
    /// No alias, agent, listed model or open provider has this name.
    #[error("no such model")]
    UnknownModel,
    /// No agent has this name.
    #[error("no such agent")]
    UnknownAgent,
    /// Every model that it stands for is one whose provider a plugin brings, and none of these serves; this is the first.
    #[error("the provider of {0} is not there")]
    NotServing(ModelRef),
}

impl Roster {
    /// Resolves every name in the settings.
    pub fn new(settings: Arc<Settings>) -> Self {
        let providers: HashMap<Name, usize> = settings
            .providers
            .keys()
            .enumerate()
            .map(|(place, name)| (name.clone(), place))
            .collect();
        let mut roster = Self {
            providers,
            listed: HashMap::new(),
            bare: HashMap::new(),
            catalogs: Arc::default(),
            expected: HashSet::new(),
            settings: settings.clone(),
        };
        for provider in settings.providers.values() {
            for model in provider.models.iter().flatten() {
                let reference = ModelRef::new(provider.name.clone(), model.clone());
                roster.bare.entry(model.clone()).or_default().push(reference);
            }
        }
        let listed = settings.listed();
        for model in &listed {
            roster.list(model);
        }
        roster.expecting(listed.iter().map(|model| &model.provider))
    }

    /// This one, in which providers of these names are no strangers' though they may be missing.
    #[must_use]
    pub fn expecting<'a>(mut self, providers: impl Iterator<Item = &'a Name>) -> Self {
        let missing = providers.filter(|name| !self.settings.providers.contains_key(*name));
        self.expected.extend(missing.cloned());
        self
    }

    /// Knows what these catalogs know, whenever they know it.
    pub fn reading(self, catalogs: Catalogs) -> Self {
        let catalogs = Arc::new(catalogs);
        Self { catalogs, ..self }
    }

    /// What the providers say that they serve.
    pub fn catalogs(&self) -> &Arc<Catalogs> {
        &self.catalogs
    }

    /// The settings that this roster was made from.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// The agent that speaks: the one named, else the one whose name the model is, else the default.
    ///
    /// # Errors
    /// [`CastError::UnknownAgent`] for a name that configuration does not know.
    pub fn agent(&self, named: Option<&str>, model: &str) -> Result<&Arc<AgentSettings>, CastError> {
        let place = self.agent_place(named, model);
        place
            .and_then(|place| self.settings.agents.get(place))
            .ok_or(CastError::UnknownAgent)
    }

    /// The place of that agent among the agents; `None` for a name that configuration does not know.
    pub fn agent_place(&self, named: Option<&str>, model: &str) -> Option<usize> {
        let by_name = |name: &str| self.settings.agents.iter().position(|agent| &*agent.name == name);
        match named {
            Some(name) => by_name(name),
            None => by_name(model).or(Some(self.settings.default_agent)),
        }
    }

    /// Who speaks, and whose model is asked first: the places of the agent and of the provider. `None` for names that stand for
    /// nothing.
    pub(super) fn chosen(&self, named: Option<&str>, model: &str) -> Option<(usize, usize)> {
        let agent = self.agent_place(named, model)?;
        let lead = self.chain(model)?.into_iter().next()?;
        Some((agent, *self.providers.get(&lead.provider)?))
    }

    /// The chain behind `model` (design §2.1). Duplicates are dropped, the first place is kept.
    ///
    /// An alias or an agent's name stands for its chain. A single model goes first, then the default agent's fallbacks and,
    /// last, its primary.
    ///
    /// `fallbacks` that came with the request replace the chain's rest; none at all make it strict. Of them a name that
    /// stands for nothing is passed over (contract §5.1).
    ///
    /// # Errors
    /// [`CastError::UnknownModel`] for a name that stands for nothing, [`CastError::NotServing`] where nobody is there.
    pub fn cast(&self, model: &str, fallbacks: Option<&[String]>) -> Result<Cast, CastError> {
        let mut chain = self.chain(model).ok_or(CastError::UnknownModel)?;
        if let Some(fallbacks) = fallbacks {
            chain.truncate(1);
            chain.extend(fallbacks.iter().filter_map(|name| self.stands_for(name)).flatten());
        }
        let mut candidates: Vec<Arc<Candidate>> = Vec::with_capacity(chain.len());
        let mut absent: Vec<Absent> = Vec::new();
        for model in chain {
            let known = candidates.iter().any(|seen| seen.model == model);
            if known || absent.iter().any(|seen| seen.model == model) {
                continue;
            }
            match self.candidate(&model) {
                Some(candidate) => candidates.push(candidate),
                None if self.expected.contains(&model.provider) => {
                    let before = candidates.len();
                    absent.push(Absent { model, before });
                }
                None => return Err(CastError::UnknownModel),
            }
        }
        if let (true, Some(first)) = (candidates.is_empty(), absent.first()) {
            return Err(CastError::NotServing(first.model.clone()));
        }
        let policy = match (fallbacks, candidates.len() + absent.len()) {
            (_, 1) => FallbackPolicy::Strict,
            (Some(_), _) => FallbackPolicy::List,
            (None, _) => FallbackPolicy::Inherited,
        };
        Ok(Cast {
            policy,
            candidates,
            absent,
        })
    }

    /// The names that a client may ask for, in the order in which they are shown: aliases, agents, listed models, and what
    /// providers list beside, each with who owns it.
    pub fn names(&self) -> Vec<(String, String)> {
        let aliases = self
            .settings
            .aliases
            .keys()
            .map(|name| (name.to_string(), "understudy".to_owned()));
        let agents = self.settings.agents.iter();
        let agents = agents.map(|agent| (agent.name.to_string(), "understudy".to_owned()));
        let mut listed: Vec<&ModelRef> = self.listed.keys().collect();
        listed.sort();
        let listed = listed
            .into_iter()
            .map(|model| (model.to_string(), model.provider.to_string()));
        let catalogs = self.catalogs.iter().flat_map(|catalog| {
            let provider = catalog.provider();
            let known = catalog
                .facts()
                .into_iter()
                .flat_map(|facts| facts.listing.models().to_vec());
            known.map(move |model| (format!("{provider}/{}", model.id), provider.to_string()))
        });
        let mut seen = std::collections::HashSet::new();
        let names = aliases.chain(agents).chain(listed).chain(catalogs.take(MOST_SHOWN));
        names.filter(|(name, _)| seen.insert(name.clone())).collect()
    }

    /// The chain of an alias or an agent, or a single model.
    fn stands_for(&self, name: &str) -> Option<Vec<ModelRef>> {
        if let Some(chain) = self.settings.aliases.get(name) {
            return Some(chain.clone());
        }
        if let Some(agent) = self.settings.agents.iter().find(|agent| &*agent.name == name) {
            return Some(agent.chain().cloned().collect());
        }
        self.single(name).map(|model| vec![model])
    }

    fn chain(&self, model: &str) -> Option<Vec<ModelRef>> {
        let named =
            self.settings.aliases.contains_key(model) || self.settings.agents.iter().any(|agent| &*agent.name == model);
        if named {
            return self.stands_for(model);
        }
        let lead = self.single(model)?;
        let agent = self.settings.agents.get(self.settings.default_agent)?;
        let rest = agent.fallbacks.iter().chain(std::iter::once(&agent.primary));
        Some(std::iter::once(lead).chain(rest.cloned()).collect())
    }

    /// `provider/model`, or a bare name that exactly one provider lists. A name that configuration lists stands for what it
    /// stands for there, whatever a provider lists one day.
    fn single(&self, model: &str) -> Option<ModelRef> {
        let listing = self.bare.get(model).map(Vec::as_slice);
        if let Some([only]) = listing {
            return Some(only.clone());
        }
        let reference = ModelRef::parse(model);
        let named =
            reference.filter(|it| self.providers.contains_key(&it.provider) || self.expected.contains(&it.provider));
        match named {
            Some(reference) => {
                let known = self.expected.contains(&reference.provider) || self.candidate(&reference).is_some();
                known.then_some(reference)
            }
            None => listing.is_none().then(|| self.listed_by_one(model)).flatten(),
        }
    }

    /// A bare name that exactly one provider's own list has.
    fn listed_by_one(&self, model: &str) -> Option<ModelRef> {
        let mut lists = self.catalogs.iter().filter_map(|catalog| {
            let facts = catalog.facts()?;
            let known = facts.listing.find(model)?;
            Some(ModelRef::new(catalog.provider().clone(), known.id.clone()))
        });
        lists.next().filter(|_| lists.next().is_none())
    }

    /// One that configuration names, that its provider lists, or of a provider of which nobody says what it serves.
    fn candidate(&self, model: &ModelRef) -> Option<Arc<Candidate>> {
        let place = *self.providers.get(&model.provider)?;
        let facts = self.catalogs.get(place).and_then(|catalog| catalog.facts());
        let known = facts.as_ref().and_then(|facts| facts.listing.find(&model.model));
        if let Some(listed) = self.listed.get(model) {
            return Some(told(listed.clone(), known));
        }
        let is_open = self.settings.providers.get(&model.provider)?.models.is_none() && is_open(facts.as_deref());
        let passes = known.is_some() || is_open;
        passes.then(|| self.unlisted(model)).flatten().map(|it| told(it, known))
    }

    fn unlisted(&self, model: &ModelRef) -> Option<Arc<Candidate>> {
        Some(Arc::new(Candidate {
            model: model.clone(),
            api: self.settings.providers.get(&model.provider)?.api,
            provider: *self.providers.get(&model.provider)?,
            settings: self.settings.models.get(model).cloned().unwrap_or_default(),
        }))
    }

    fn list(&mut self, model: &ModelRef) {
        if let Some(candidate) = self.unlisted(model) {
            self.listed.entry(model.clone()).or_insert(candidate);
        }
    }
}

/// Whether a provider may serve what its list does not have: it has more, or there is no list yet.
fn is_open(facts: Option<&Facts>) -> bool {
    facts.is_none_or(|facts| facts.listing.cut)
}

/// With what its provider says of it, where configuration is silent.
fn told(candidate: Arc<Candidate>, known: Option<&CatalogModel>) -> Arc<Candidate> {
    let context = known.and_then(|known| known.context);
    if candidate.settings.context.is_some() || context.is_none() {
        return candidate;
    }
    let mut told = Candidate::clone(&candidate);
    told.settings.context = context;
    Arc::new(told)
}

#[cfg(test)]
mod tests;
