//! Who answers for models: the providers of the configuration, and those that plugins bring.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use understudy_messages::ids::{ModelRef, Name};
use understudy_messages::settings::{ModelSettings, Settings};
use understudy_plugins::Registration;
use understudy_plugins::manifest::Manifest;
use understudy_plugins::registration::ProviderRegistration;

use super::{Inventory, Plugin};
use crate::catalog::PluginSources;

/// How often a plugin's own list of models is asked for, where the plugin does not say.
const REFRESH: Duration = Duration::from_secs(60 * 60);

/// The settings that are served, and who brings which provider: looked up once for each inventory (contract R-34).
#[derive(Clone, Debug)]
pub(super) struct Offered {
    pub(super) settings: Arc<Settings>,
    owners: BTreeMap<Name, Name>,
}

impl Offered {
    /// Nobody brings any.
    pub(super) fn none(settings: Arc<Settings>) -> Self {
        let owners = BTreeMap::new();
        Self { settings, owners }
    }

    /// Adds what plugins bring to what is configured, and says what of it is refused, by plugin. A name is taken once
    /// (contract §5.7): by the configuration, else by whoever had it `before`, else by the first that registers it.
    pub(super) fn of(
        configured: &Arc<Settings>,
        plugins: &[(&Name, &Registration)],
        before: Option<&Self>,
    ) -> (Self, Vec<(Name, String)>) {
        let mut owners = before.map(|before| before.owners.clone()).unwrap_or_default();
        owners.retain(|provider, owner| {
            let mut own = plugins.iter().filter(|(plugin, _)| *plugin == owner);
            !configured.providers.contains_key(provider) && own.any(|(_, it)| brings(it, provider))
        });
        let mut refusals = Vec::new();
        let mut settings = Settings::clone(configured);
        for (plugin, provider) in plugins
            .iter()
            .flat_map(|(id, it)| it.providers.iter().map(move |p| (*id, p)))
        {
            let name = &provider.settings.name;
            let owner = match configured.providers.contains_key(name) {
                true => "the configuration",
                false => &**owners.entry(name.clone()).or_insert_with(|| plugin.clone()),
            };
            match owner == &**plugin {
                true => add(&mut settings, provider),
                false => refusals.push((
                    plugin.clone(),
                    format!("provider {name} is refused: it belongs to {owner}"),
                )),
            }
        }
        let known = before.map(|before| &before.settings).into_iter().chain([configured]);
        let same = known.into_iter().find(|known| ***known == settings).cloned();
        let settings = same.unwrap_or_else(|| Arc::new(settings));
        (Self { settings, owners }, refusals)
    }
}

fn brings(registration: &Registration, provider: &Name) -> bool {
    registration.providers.iter().any(|it| it.settings.name == *provider)
}

/// What the configuration says of a model stands; a plugin fills in the rest.
fn add(settings: &mut Settings, provider: &ProviderRegistration) {
    let name = &provider.settings.name;
    let mut served = provider.settings.clone();
    if provider.catalog.is_some() && served.catalog.is_none() {
        Arc::make_mut(&mut served).catalog = Some(REFRESH);
    }
    settings.providers.insert(name.clone(), served);
    for (model, facts) in &provider.models {
        let known = settings
            .models
            .entry(ModelRef::new(name.clone(), model.clone()))
            .or_default();
        *known = ModelSettings {
            context: known.context.or(facts.context),
            first_content: known.first_content.or(facts.first_content),
            prefill: known.prefill.or(facts.prefill),
            embedding_space: known.embedding_space.take().or_else(|| facts.embedding_space.clone()),
        };
    }
}

/// Takes those providers out of a registration that its manifest does not name, and says so.
pub(super) fn admit(manifest: Option<&Manifest>, registration: &mut Registration) -> Vec<String> {
    let Some(manifest) = manifest else { return Vec::new() };
    let mut refusals = Vec::new();
    registration.providers.retain(|provider| {
        let name = &provider.settings.name;
        let declared = manifest.providers.contains(name);
        if !declared {
            refusals.push(format!(
                "provider {name} is refused: it is not among providers of its manifest"
            ));
        }
        declared
    });
    refusals
}

/// Providers that a manifest promises and nobody registered.
pub(super) fn absent<'a>(
    manifest: Option<&'a Manifest>,
    registration: &'a Registration,
) -> impl Iterator<Item = String> + 'a {
    let declared = manifest.into_iter().flat_map(|manifest| &manifest.providers);
    let absent = declared.filter(|name| !brings(registration, name));
    absent.map(|name| {
        format!(
            "declares the provider {} and has not registered it",
            name.escape_debug()
        )
    })
}

impl Inventory {
    /// What it was made from.
    pub const fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// What is served: what it was made from, and the providers that its plugins bring.
    pub const fn serves(&self) -> &Arc<Settings> {
        &self.offered.settings
    }

    /// The plugin that brings a provider; `None` for one of the configuration, or one that is nowhere.
    pub fn provider_owner(&self, provider: &str) -> Option<&Name> {
        self.offered.owners.get(provider)
    }

    /// The providers that plugins bring and that are served, each with its plugin.
    pub fn providers(&self) -> impl Iterator<Item = (&Name, &ProviderRegistration)> {
        let working = self.plugins.iter().filter_map(|plugin| plugin.working());
        let brought = working.flat_map(|it| it.loaded.registration.providers.iter().map(|p| (&it.loaded.id, p)));
        brought.filter(|(plugin, provider)| self.provider_owner(&provider.settings.name) == Some(plugin))
    }

    /// Who lists the models of these providers, where a plugin does.
    pub(crate) fn catalog_sources(&self) -> PluginSources {
        let listed = self.providers().filter_map(|(_, provider)| {
            let source = provider.catalog.clone()?;
            Some((provider.settings.name.clone(), source))
        });
        listed.collect()
    }

    /// Providers that plugins name which are on: they may be missing, and still no stranger's name.
    pub fn declared_providers(&self) -> impl Iterator<Item = &Name> {
        let on = self.plugins.iter().filter(|plugin| plugin.cause.enables());
        on.filter_map(|plugin: &Arc<Plugin>| plugin.manifest.as_ref())
            .flat_map(|manifest| &manifest.providers)
    }
}

#[cfg(test)]
mod tests {
    use understudy_messages::settings::{Api, ProviderSettings};

    use super::*;
    use crate::registry::testing::settings;

    fn bringing(providers: &[(&str, &str)]) -> Registration {
        let mut registration = Registration::default();
        for (name, url) in providers {
            let url = format!("http://{url}.example");
            let settings = ProviderSettings::new((*name).into(), Api::OpenaiChat, url);
            assert!(registration.provider(ProviderRegistration::new(settings)));
        }
        registration
    }

    fn url(offered: &Offered, provider: &str) -> String {
        offered.settings.providers[provider].base_url.clone()
    }

    #[test]
    fn the_second_owner_of_a_provider_is_refused_and_the_first_one_named_case_t39() {
        let (one, two) = (
            bringing(&[("acme", "one"), ("a", "one")]),
            bringing(&[("acme", "two"), ("b2", "two")]),
        );
        let (first, second) = (Name::from("first"), Name::from("second"));
        let plugins = [(&first, &one), (&second, &two)];
        let (offered, refusals) = Offered::of(&Arc::new(settings()), &plugins, None);
        let expected = [
            ("first", "provider a is refused: it belongs to the configuration"),
            ("second", "provider acme is refused: it belongs to first"),
        ];
        let told: Vec<(&str, &str)> = refusals.iter().map(|(id, why)| (&**id, &**why)).collect();
        assert_eq!(told, expected);
        assert_eq!(
            (url(&offered, "acme"), url(&offered, "a")),
            ("http://one.example".into(), "http://a.example".into())
        );
        assert_eq!(
            url(&offered, "b2"),
            "http://two.example",
            "the rest of the second one serves"
        );
    }

    #[test]
    fn whoever_had_a_provider_keeps_it_and_what_nobody_has_any_longer_is_free_case_t39() {
        let configured = Arc::new(settings());
        let brings = bringing(&[("acme", "x")]);
        let (old, new) = (Name::from("old"), Name::from("new"));
        let (before, _) = Offered::of(&configured, &[(&old, &brings)], None);
        let (kept, refusals) = Offered::of(&configured, &[(&new, &brings), (&old, &brings)], Some(&before));
        assert_eq!((&kept.owners["acme"], refusals.len()), (&old, 1));
        let (freed, refusals) = Offered::of(&configured, &[(&new, &brings)], Some(&before));
        assert_eq!((&freed.owners["acme"], refusals.len()), (&new, 0));
    }

    #[test]
    fn settings_that_are_the_same_are_the_very_same() {
        let configured = Arc::new(settings());
        let (nothing, _) = Offered::of(&configured, &[], None);
        assert!(Arc::ptr_eq(&nothing.settings, &configured));
        let (brings, plugin) = (bringing(&[("acme", "x")]), Name::from("p"));
        let (before, _) = Offered::of(&configured, &[(&plugin, &brings)], None);
        let (after, _) = Offered::of(&configured, &[(&plugin, &bringing(&[("acme", "x")]))], Some(&before));
        assert!(Arc::ptr_eq(&before.settings, &after.settings));
    }

    #[test]
    fn what_the_configuration_says_of_a_model_stands_and_a_plugin_fills_in_the_rest() {
        let mut configured = settings();
        let model = ModelRef::parse("acme/large").expect("well formed");
        let said = ModelSettings {
            context: Some(8),
            ..ModelSettings::default()
        };
        configured.models.insert(model.clone(), said);
        let mut brings = bringing(&[("acme", "x")]);
        let facts = ModelSettings {
            context: Some(16),
            prefill: Some(true),
            ..ModelSettings::default()
        };
        brings.providers[0].models.insert("large".into(), facts);
        let (offered, _) = Offered::of(&Arc::new(configured), &[(&"p".into(), &brings)], None);
        let known = &offered.settings.models[&model];
        assert_eq!((known.context, known.prefill), (Some(8), Some(true)));
    }

    #[test]
    fn a_provider_stands_in_its_plugins_manifest_and_one_that_is_not_there_is_named() {
        let text = "{ id: 'p', host: 'native', configSchema: {}, providers: ['acme', 'lab'] }";
        let (manifest, _) = Manifest::read(text).expect("a manifest");
        let mut registration = bringing(&[("acme", "x"), ("other", "x")]);
        let refusals = admit(Some(&manifest), &mut registration);
        assert!(
            refusals.len() == 1 && refusals[0].contains("provider other"),
            "{refusals:?}"
        );
        assert_eq!(registration.providers.len(), 1);
        let absent: Vec<String> = absent(Some(&manifest), &registration).collect();
        assert!(absent.len() == 1 && absent[0].contains("provider lab"), "{absent:?}");
        assert!(admit(None, &mut registration).is_empty());
    }
}
