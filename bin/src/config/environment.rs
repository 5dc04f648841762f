//! A configuration out of the variables that the vendors' own clients read.

use super::{ConfigError, Environment, ServerConfig};

/// A provider that one set variable is enough for.
struct Vendor {
    name: &'static str,
    /// Its key; the first that is set is used.
    keys: &'static [&'static str],
    /// Where it is asked, and the address when that is not set.
    base_url: (&'static str, &'static str),
    /// The model that is asked, and which one when that is not set.
    model: (&'static str, &'static str),
}

/// In the order in which they are asked.
const VENDORS: [Vendor; 3] = [
    Vendor {
        name: "openai",
        keys: &["OPENAI_API_KEY"],
        base_url: ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
        model: ("OPENAI_MODEL", "gpt-5.5-mini"),
    },
    Vendor {
        name: "anthropic",
        keys: &["ANTHROPIC_API_KEY"],
        base_url: ("ANTHROPIC_BASE_URL", "https://api.anthropic.com/v1"),
        model: ("ANTHROPIC_MODEL", "claude-haiku-4-5"),
    },
    Vendor {
        name: "gemini",
        keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        base_url: (
            "GOOGLE_GEMINI_BASE_URL",
            "https://generativelanguage.googleapis.com/v1beta",
        ),
        model: ("GEMINI_MODEL", "gemini-2.5-flash"),
    },
];

pub(super) fn read(env: &Environment<'_>) -> Result<Option<ServerConfig>, ConfigError> {
    let set = |name: &str| env(name).filter(|value| !value.is_empty());
    let mut providers = String::new();
    let mut models = Vec::new();
    for vendor in &VENDORS {
        let Some(key) = vendor.keys.iter().find(|key| set(key).is_some()) else {
            continue;
        };
        let (name, (base_url, _), (model, _)) = (vendor.name, vendor.base_url, vendor.model);
        providers += &format!("  {name}: {{ api_key: \"${{{key}}}\", base_url: \"${{{base_url}}}\" }}\n");
        models.push(format!("\"{name}/${{{model}}}\""));
    }
    let Some((primary, fallbacks)) = models.split_first() else {
        return Ok(None);
    };
    let fallbacks = fallbacks.join(", ");
    let document = format!(
        "providers:\n{providers}agents:\n  default: {{ model: {{ primary: {primary}, fallbacks: [{fallbacks}] }} }}\n"
    );
    let with_defaults = |name: &str| set(name).or_else(|| default_of(name));
    ServerConfig::parse(&document, &with_defaults).map(Some)
}

fn default_of(name: &str) -> Option<String> {
    let mut defaults = VENDORS.iter().flat_map(|vendor| [vendor.base_url, vendor.model]);
    let (_, value) = defaults.find(|(variable, _)| *variable == name)?;
    Some(value.to_owned())
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;
    use understudy_messages::settings::Api;

    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Result<Option<ServerConfig>, ConfigError> {
        read(&|name| {
            let (_, value) = pairs.iter().find(|(variable, _)| *variable == name)?;
            Some((*value).to_owned())
        })
    }

    fn chain(config: &ServerConfig) -> Vec<String> {
        let agent = &config.settings.agents[config.settings.default_agent];
        agent.chain().map(ToString::to_string).collect()
    }

    #[test]
    fn one_key_of_any_vendor_is_enough() {
        for (key, name, api, base_url, model) in [
            (
                "OPENAI_API_KEY",
                "openai",
                Api::OpenaiChat,
                "https://api.openai.com/v1",
                "openai/gpt-5.5-mini",
            ),
            (
                "ANTHROPIC_API_KEY",
                "anthropic",
                Api::AnthropicMessages,
                "https://api.anthropic.com/v1",
                "anthropic/claude-haiku-4-5",
            ),
            (
                "GEMINI_API_KEY",
                "gemini",
                Api::Gemini,
                "https://generativelanguage.googleapis.com/v1beta",
                "gemini/gemini-2.5-flash",
            ),
            (
                "GOOGLE_API_KEY",
                "gemini",
                Api::Gemini,
                "https://generativelanguage.googleapis.com/v1beta",
                "gemini/gemini-2.5-flash",
            ),
        ] {
            let config = with(&[(key, "sk-1")]).expect("is valid").expect("is there");
            assert_eq!(config.settings.providers.len(), 1, "{key}");
            let provider = &config.settings.providers[name];
            assert_eq!((provider.api, &*provider.base_url), (api, base_url));
            assert_eq!(provider.api_keys[0].expose_secret(), "sk-1");
            assert_eq!(chain(&config), [model]);
            assert!(config.admin.ip().is_loopback());
        }
    }

    #[test]
    fn several_keys_make_a_chain_in_a_fixed_order() {
        let all = [
            ("GOOGLE_API_KEY", "sk-4"),
            ("GEMINI_API_KEY", "sk-3"),
            ("ANTHROPIC_API_KEY", "sk-2"),
            ("OPENAI_API_KEY", "sk-1"),
        ];
        let config = with(&all).expect("is valid").expect("is there");
        let models = [
            "openai/gpt-5.5-mini",
            "anthropic/claude-haiku-4-5",
            "gemini/gemini-2.5-flash",
        ];
        assert_eq!(chain(&config), models);
        let gemini = &config.settings.providers["gemini"];
        assert_eq!(gemini.api_keys.len(), 1);
        assert_eq!(gemini.api_keys[0].expose_secret(), "sk-3");
        let two = with(&all[..3]).expect("is valid").expect("is there");
        assert_eq!(chain(&two), &models[1..]);
    }

    #[test]
    fn address_and_model_can_be_chosen() {
        for (key, base_url, model, name) in [
            ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "openai"),
            (
                "ANTHROPIC_API_KEY",
                "ANTHROPIC_BASE_URL",
                "ANTHROPIC_MODEL",
                "anthropic",
            ),
            ("GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GEMINI_MODEL", "gemini"),
        ] {
            let vars = [(key, "sk-1"), (base_url, "http://127.0.0.1:9/v1/"), (model, "llama")];
            let config = with(&vars).expect("is valid").expect("is there");
            assert_eq!(config.settings.providers[name].base_url, "http://127.0.0.1:9/v1");
            assert_eq!(chain(&config), [format!("{name}/llama")]);
        }
    }

    #[test]
    fn without_keys_there_is_no_configuration() {
        assert!(with(&[]).expect("is valid").is_none());
        assert!(with(&[("OPENAI_API_KEY", "")]).expect("is valid").is_none());
        assert!(with(&[("ANTHROPIC_MODEL", "m")]).expect("is valid").is_none());
    }

    #[test]
    fn an_unusable_address_is_a_problem_that_names_the_variable() {
        let vars = [("OPENAI_API_KEY", "sk-1"), ("OPENAI_BASE_URL", "nowhere")];
        let Err(ConfigError::Invalid(problems)) = with(&vars) else {
            panic!("was accepted");
        };
        assert_eq!(problems[0].found.as_deref(), Some("${OPENAI_BASE_URL}"));
    }
}
