//! Where an endpoint is and what it does, and where that is written.

use reqwest::Client;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;
use understudy_messages::clock::Clock;
use understudy_messages::ids::Name;

use crate::declared::Declared;
use crate::hosts::Load;

/// Where an endpoint is, and what it does.
#[derive(Clone, Debug)]
pub struct WebhookOptions {
    /// The plugin's id.
    pub id: Name,
    /// Where calls are sent.
    pub url: String,
    /// What calls are signed with.
    pub secret: Option<SecretString>,
    /// Its hooks and tools, as its manifest lists them.
    pub declared: Declared,
    /// The longest answer, in bytes.
    pub longest_answer: usize,
    /// How many calls it may be at work on; more have to wait.
    pub calls: usize,
    /// The client that all webhooks share: see [`http_client`].
    pub client: Client,
    /// Time.
    pub clock: Clock,
}

impl WebhookOptions {
    /// The usual ones: no secret, answers of 1 MiB, 64 calls.
    pub const fn new(id: Name, url: String, declared: Declared, client: Client, clock: Clock) -> Self {
        Self {
            id,
            url,
            secret: None,
            declared,
            longest_answer: 1 << 20,
            calls: 64,
            client,
            clock,
        }
    }
}

/// What the settings of a webhook may say beside what its schema asks for.
#[derive(Default, Deserialize)]
struct Given {
    url: Option<String>,
    secret: Option<String>,
}

impl WebhookOptions {
    /// The options that a manifest asks for. The settings' `url` comes before the manifest's; the secret is in the settings
    /// alone.
    ///
    /// # Errors
    /// What is wrong with the manifest or the settings.
    pub fn read(load: Load, client: Client) -> Result<Self, String> {
        let manifest = load.manifest.ok_or("has no manifest, and so no url")?;
        // no words of the settings: the secret is among them
        let given = Given::deserialize(&load.settings).map_err(|_| "its settings' url or secret is no text")?;
        let url = given
            .url
            .or_else(|| Some(manifest.all.get("url")?.as_str()?.to_owned()));
        let url = url.ok_or("has no url: neither its manifest nor its settings say one")?;
        let declared = serde_json::from_value(Value::Object(manifest.all.clone()));
        let declared: Declared = declared.map_err(|why| format!("its manifest is wrong: {why}"))?;
        let mut options = Self::new(load.id, url, declared, client, load.clock);
        options.secret = given.secret.map(SecretString::from);
        Ok(options)
    }
}
