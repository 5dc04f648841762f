//! Model catalogs: what a provider itself says that it serves.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::failure::Reason;
use crate::ids::{ModelRef, Name};

/// The most models that one list may have; what comes after them is left out.
pub const MOST_MODELS: usize = 10_000;

/// One model, as its provider lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogModel {
    /// The name that the provider knows it by.
    pub id: Name,
    /// Its context window in tokens; `None`: the provider does not say.
    pub context: Option<u64>,
}

impl CatalogModel {
    /// A model of `provider` by this name; `None` for a name that no request could ask for.
    pub fn new(provider: &Name, id: &str, context: Option<u64>) -> Option<Self> {
        let reference = ModelRef::parse(&format!("{provider}/{id}"))?;
        let context = context.filter(|tokens| *tokens > 0);
        (id.trim() == id).then_some(Self {
            id: reference.model,
            context,
        })
    }
}

/// What one look at a provider's list found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    models: Vec<CatalogModel>,
    places: HashMap<Name, usize>,
    /// Entries that could not be read and were left out.
    pub skipped: usize,
    /// Whether there are more models than were read: then a name that is not here may still be served.
    pub cut: bool,
}

impl Listing {
    /// Adds a model. Of two by one name the first stands, and takes from the other what it does not say itself. `false`
    /// where there is no room for it.
    pub fn add(&mut self, model: CatalogModel) -> bool {
        if let Some(known) = self.places.get(&model.id).and_then(|place| self.models.get_mut(*place)) {
            known.context = known.context.or(model.context);
            return true;
        }
        if self.models.len() >= MOST_MODELS {
            self.cut = true;
            return false;
        }
        self.places.insert(model.id.clone(), self.models.len());
        self.models.push(model);
        true
    }

    /// The models, in the order in which they came.
    pub fn models(&self) -> &[CatalogModel] {
        &self.models
    }

    /// The model by this name.
    pub fn find(&self, id: &str) -> Option<&CatalogModel> {
        self.places.get(id).and_then(|place| self.models.get(*place))
    }
}

/// How far a look at a list has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Whoever lists is being made ready: a plugin is loaded.
    Admission,
    /// The list is being read.
    Discovery,
}

impl Stage {
    /// As it is spelled to people.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::Admission => "admission",
            Self::Discovery => "discovery",
        }
    }
}

/// Where a source tells that it gets on. Cheap to clone; telling costs little and may be done often.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(Stage) + Send + Sync>);

impl Progress {
    /// Told to `hear`.
    pub fn new(hear: impl Fn(Stage) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }

    /// Something has moved. The first word of [`Stage::Discovery`] ends the admission; there is no way back.
    pub fn note(&self, stage: Stage) {
        (self.0)(stage);
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Progress")
    }
}

/// A list on its way. It runs on the thread that asked for it; dropping it ends it.
pub type Listed = Pin<Box<dyn Future<Output = Result<Listing, CatalogError>>>>;

/// Whoever can say which models a provider serves.
pub trait CatalogSource: Send + Sync {
    /// The plugin that lists; `None` for a provider from configuration.
    fn plugin(&self) -> Option<Name> {
        None
    }

    /// Reads the whole list once. It has no deadline of its own: whoever asks ends it, by `cancel` or by dropping it.
    fn list(&self, progress: Progress, cancel: CancellationToken) -> Listed;
}

/// Why there is no new list. It holds no word of the provider's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// No connection could be made.
    #[error("no connection to the provider could be made: it is down, or its base_url is wrong")]
    Unreached,
    /// The provider refused, or broke.
    #[error("the provider did not list its models ({}{})", .reason.as_label(), shown(*.status))]
    Failed {
        /// What was wrong.
        reason: Reason,
        /// Its status, if it sent one.
        status: Option<u16>,
    },
    /// What came is no list of models.
    #[error("what the provider sent is no list of models")]
    NoList,
    /// More bytes or pages came than are read.
    #[error("the provider's list of models is too long to be read")]
    TooLong,
    /// The list took too long.
    #[error("the list of models did not come within its time")]
    Deadline,
    /// Nothing moved while whoever lists was made ready.
    #[error("{} made no progress at {}", .plugin.as_deref().unwrap_or("the provider"), .stage.as_label())]
    Stalled {
        /// The plugin that did not get on.
        plugin: Option<Name>,
        /// Where it stood.
        stage: Stage,
    },
    /// Whoever read the list is gone.
    #[error("the look at the list of models was lost")]
    Lost,
}

fn shown(status: Option<u16>) -> String {
    status.map_or_else(String::new, |status| format!(", status {status}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(id: &str, context: Option<u64>) -> CatalogModel {
        CatalogModel::new(&"p".into(), id, context).expect("a name")
    }

    #[test]
    fn a_name_that_no_request_could_ask_for_is_no_model() {
        for id in ["", " m", "m\n", &"x".repeat(300)] {
            assert_eq!(CatalogModel::new(&"p".into(), id, None), None, "{id:?}");
        }
        assert_eq!(model("meta/llama", Some(0)).context, None);
    }

    #[test]
    fn of_two_models_by_one_name_the_first_stands_and_learns_from_the_other() {
        let mut listing = Listing::default();
        for context in [None, Some(8), Some(9)] {
            assert!(listing.add(model("m", context)));
        }
        assert_eq!(listing.models(), [model("m", Some(8))]);
        assert_eq!(listing.find("m"), Some(&model("m", Some(8))));
        assert_eq!(listing.find("n"), None);
    }

    #[test]
    fn a_list_has_a_bound_and_says_that_it_was_cut() {
        let mut listing = Listing::default();
        for place in 0..MOST_MODELS {
            assert!(listing.add(model(&format!("m{place}"), None)));
        }
        assert!(!listing.cut);
        assert!(!listing.add(model("one too many", None)));
        assert!(listing.cut);
        assert!(listing.add(model("m0", Some(1))), "one that is there needs no room");
    }

    #[test]
    fn a_failure_names_who_and_where_and_no_word_of_the_providers() {
        let stalled = CatalogError::Stalled {
            plugin: Some("lab".into()),
            stage: Stage::Admission,
        };
        assert_eq!(stalled.to_string(), "lab made no progress at admission");
        let refused = CatalogError::Failed {
            reason: Reason::Auth,
            status: Some(401),
        };
        let words = "the provider did not list its models (auth, status 401)";
        assert_eq!(refused.to_string(), words);
    }
}
