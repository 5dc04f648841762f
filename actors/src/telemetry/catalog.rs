//! Looks at providers' lists of models. No panel shows them: a list that does not come is a finding of the doctor.

use understudy_messages::catalog::CatalogError;
use understudy_messages::ids::Name;
use understudy_messages::settings::Settings;

use super::{CATALOG_REFRESHES, Series, Telemetry};

const OUTCOMES: [&str; 7] = ["ok", "refused", "no_list", "too_long", "deadline", "stalled", "lost"];

const fn outcome(found: Result<(), &CatalogError>) -> &'static str {
    match found {
        Ok(()) => "ok",
        Err(CatalogError::Failed { .. } | CatalogError::Unreached) => "refused",
        Err(CatalogError::NoList) => "no_list",
        Err(CatalogError::TooLong) => "too_long",
        Err(CatalogError::Deadline) => "deadline",
        Err(CatalogError::Stalled { .. }) => "stalled",
        Err(CatalogError::Lost) => "lost",
    }
}

impl Telemetry {
    /// A look at a provider's list has ended.
    pub fn catalog_refreshed(&self, provider: &Name, found: Result<(), &CatalogError>) {
        let labels = [("provider", &**provider), ("outcome", outcome(found))];
        self.series.counter(&CATALOG_REFRESHES, &labels).increment(1);
    }
}

/// All that looks can end with is in the scrape from the start.
pub(super) fn touch(series: &Series, settings: &Settings) {
    for provider in settings
        .providers
        .values()
        .filter(|provider| provider.catalog.is_some())
    {
        for outcome in OUTCOMES {
            let labels = [("provider", &*provider.name), ("outcome", outcome)];
            let _in_the_scrape = series.touched(&CATALOG_REFRESHES, &labels);
        }
    }
}
