//! Providers among what a plugin registers: only plugins that are compiled in have any.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use reqwest::Url;
use understudy_messages::catalog::CatalogSource;
use understudy_messages::ids::Name;
use understudy_messages::settings::{ModelSettings, ProviderSettings};

use super::Registration;

/// The most providers that one plugin may have.
const MOST: usize = 64;
/// The most models that are known of one provider.
const MOST_MODELS: usize = 4096;
/// The longest name of a provider, in bytes.
const LONGEST: usize = 128;

/// A provider that a plugin brings: it is asked like one of the configuration.
#[derive(Clone)]
pub struct ProviderRegistration {
    /// Who is asked, where, and with which credentials. Its name is what chains call it by.
    pub settings: Arc<ProviderSettings>,
    /// What is known of its models; what the configuration says of one comes first.
    pub models: BTreeMap<Name, ModelSettings>,
    /// Who lists its models, where somebody can.
    pub catalog: Option<Arc<dyn CatalogSource>>,
}

impl ProviderRegistration {
    /// A provider of which no more is known.
    pub fn new(settings: ProviderSettings) -> Self {
        Self {
            settings: Arc::new(settings),
            models: BTreeMap::new(),
            catalog: None,
        }
    }

    fn refusal(&self) -> Option<&'static str> {
        let settings = &self.settings;
        let name = settings.name.as_bytes();
        let plain = |byte: &u8| byte.is_ascii_graphic() && *byte != b'/';
        let models = settings.models.as_ref().map_or(0, Vec::len).max(self.models.len());
        let url = Url::parse(&settings.base_url).ok();
        let is_asked = |url: Url| matches!(url.scheme(), "http" | "https") && url.host_str().is_some();
        if name.is_empty() || name.len() > LONGEST || !name.iter().all(plain) {
            Some("its name is not made of visible ASCII characters without a slash (at most 128)")
        } else if !url.is_some_and(is_asked) || settings.base_url.ends_with('/') {
            Some("its base_url is no http or https URL without a slash at the end")
        } else if settings.models.as_ref().is_some_and(Vec::is_empty) {
            Some("its list of models is empty: name some, or leave out the list so that any name passes")
        } else {
            (models > MOST_MODELS).then_some("it has too many models")
        }
    }
}

impl PartialEq for ProviderRegistration {
    /// Credentials count too; of catalogs only whether it is the same one.
    fn eq(&self, other: &Self) -> bool {
        let same_catalog = match (&self.catalog, &other.catalog) {
            (None, None) => true,
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (Some(_), None) | (None, Some(_)) => false,
        };
        same_catalog && (&self.settings, &self.models) == (&other.settings, &other.models)
    }
}

impl fmt::Debug for ProviderRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderRegistration")
            .field("name", &self.settings.name)
            .finish_non_exhaustive()
    }
}

impl Registration {
    /// Registers a provider; whether it was taken. What is wrong becomes a warning.
    pub fn provider(&mut self, provider: ProviderRegistration) -> bool {
        let name = provider.settings.name.clone();
        let known = self.providers.iter().any(|it| it.settings.name == name);
        let why = match (provider.refusal(), known) {
            (Some(why), _) => Some(why),
            (None, true) => Some("is there already"),
            (None, false) => (self.providers.len() >= MOST).then_some("there are too many"),
        };
        self.take("provider", &name, why, |it| it.providers.push(provider))
    }
}

#[cfg(test)]
mod tests {
    use understudy_messages::settings::Api;

    use super::*;

    fn provider(name: &str) -> ProviderSettings {
        ProviderSettings::new(name.into(), Api::OpenaiChat, "http://127.0.0.1:1/v1".to_owned())
    }

    #[test]
    fn a_provider_has_a_name_that_fits_a_chain_and_is_there_once() {
        let mut registration = Registration::default();
        assert!(registration.provider(ProviderRegistration::new(provider("acme"))));
        for refused in ["acme", "", "two words", "a/b", &"x".repeat(129)] {
            let taken = registration.provider(ProviderRegistration::new(provider(refused)));
            assert!(!taken, "{refused}");
        }
        assert_eq!((registration.providers.len(), registration.warnings.len()), (1, 5));
    }

    #[test]
    fn a_provider_can_be_asked_or_is_refused() {
        let refused: [fn(&mut ProviderSettings); 5] = [
            |it| it.base_url = "ftp://127.0.0.1".to_owned(),
            |it| it.base_url = "nowhere".to_owned(),
            |it| it.base_url.push('/'),
            |it| it.models = Some(Vec::new()),
            |it| it.models = Some((0..=MOST_MODELS).map(|it| it.to_string().into()).collect()),
        ];
        let mut registration = Registration::default();
        for edit in refused {
            let mut settings = provider("acme");
            edit(&mut settings);
            assert!(!registration.provider(ProviderRegistration::new(settings)));
        }
        assert_eq!(registration.warnings.len(), 5);
    }

    #[test]
    fn providers_have_an_end() {
        let mut registration = Registration::default();
        for number in 0..MOST {
            assert!(registration.provider(ProviderRegistration::new(provider(&number.to_string()))));
        }
        assert!(!registration.provider(ProviderRegistration::new(provider("more"))));
    }

    #[test]
    fn another_key_is_another_provider_and_no_key_is_printed() {
        let with = |key: &str| {
            let mut settings = provider("acme");
            settings.api_keys = vec![secrecy::SecretString::from(key)];
            ProviderRegistration::new(settings)
        };
        assert!(with("one") == with("one") && with("one") != with("two"));
        assert!(!format!("{:?} {:?}", with("sk-canary"), with("sk-canary").settings).contains("canary"));
    }
}
