//! A provider that is compiled in: whatever speaks OpenAI's chat completions, under the name `acme`.

use std::collections::BTreeMap;

use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;
use understudy_messages::ids::Name;
use understudy_messages::settings::{Api, ModelSettings, ProviderSettings};
use understudy_plugins::native::{NativeApi, NativePlugin};
use understudy_plugins::registration::ProviderRegistration;

/// The plugin.
pub struct AcmeProvider;

/// Its settings.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Acme {
    base_url: String,
    api_key: Option<String>,
    /// Its models, each with its context window in tokens.
    #[serde(default)]
    models: BTreeMap<Name, u64>,
}

impl NativePlugin for AcmeProvider {
    fn id(&self) -> &str {
        "acme-provider"
    }

    fn register(&self, api: &mut NativeApi, settings: &Value) -> Result<(), String> {
        let acme: Acme = serde_json::from_value(settings.clone()).map_err(|_| "settings: baseUrl is missing")?;
        let mut settings = ProviderSettings::new("acme".into(), Api::OpenaiChat, acme.base_url);
        settings.api_keys = acme.api_key.into_iter().map(SecretString::from).collect();
        settings.models = (!acme.models.is_empty()).then(|| acme.models.keys().cloned().collect());
        let mut provider = ProviderRegistration::new(settings);
        provider.models = acme
            .models
            .into_iter()
            .map(|(model, tokens)| (model, facts(tokens)))
            .collect();
        api.provider(provider);
        Ok(())
    }
}

fn facts(tokens: u64) -> ModelSettings {
    ModelSettings {
        context: Some(tokens),
        ..ModelSettings::default()
    }
}
