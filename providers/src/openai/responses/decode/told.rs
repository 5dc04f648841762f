//! Calls that are told more than once, and whether they are still the same.

use sha2::{Digest, Sha256};

use crate::json::JsonStr;
use crate::openai::responses::response::Item;

/// What was told of a call, as much of it as knows it again: arguments may be long.
#[derive(Debug, Default)]
pub(super) struct Told {
    name: String,
    arguments: Sha256,
}

impl Told {
    /// The call has this name.
    pub(super) fn name(&mut self, name: JsonStr<'_>) {
        self.name = name.decode().into_owned();
    }

    /// Its arguments go on.
    pub(super) fn arguments(&mut self, more: JsonStr<'_>) {
        self.arguments.update(&*more.decode());
    }

    /// Whether one of `many` is the same call, as far as the item tells of it.
    pub(super) fn is_among<'t>(item: &Item<'_>, mut many: impl Iterator<Item = &'t Self>) -> bool {
        let name = item.name.map(JsonStr::decode);
        let arguments = item.arguments.map(|all| Sha256::digest(&*all.decode()));
        many.any(|told| {
            let same = name.as_deref().is_none_or(|name| name == told.name);
            same && arguments.is_none_or(|all| told.arguments.clone().finalize() == all)
        })
    }

    /// Whether these are its arguments.
    pub(super) fn is_given(&self, all: JsonStr<'_>) -> bool {
        self.arguments.clone().finalize() == Sha256::digest(&*all.decode())
    }
}
