//! A configuration out of the variables that OpenAI's own clients read.

use super::{ConfigError, Environment, Problem, ServerConfig};

/// The document that such a configuration stands for.
const OPENAI: &str = r#"
providers:
  openai: { api_key: "${OPENAI_API_KEY}", base_url: "${OPENAI_BASE_URL}" }
agents:
  default: { model: "openai/${OPENAI_MODEL}" }
"#;

/// What the document's variables are when they are not set.
const DEFAULTS: [(&str, &str); 2] = [
    ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
    ("OPENAI_MODEL", "gpt-5.5-mini"),
];

/// Keys of providers whose wire formats are not supported yet.
const UNSUPPORTED: [&str; 3] = ["ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"];

pub(super) fn read(env: &Environment<'_>) -> Result<Option<ServerConfig>, ConfigError> {
    let set = |name: &str| env(name).filter(|value| !value.is_empty());
    if set("OPENAI_API_KEY").is_some() {
        let with_defaults = |name: &str| set(name).or_else(|| default_of(name));
        return ServerConfig::parse(OPENAI, &with_defaults).map(Some);
    }
    let unsupported: Vec<Problem> = UNSUPPORTED
        .into_iter()
        .filter(|name| set(name).is_some())
        .map(not_supported)
        .collect();
    if unsupported.is_empty() {
        Ok(None)
    } else {
        Err(ConfigError::Invalid(unsupported))
    }
}

fn default_of(name: &str) -> Option<String> {
    let (_, value) = DEFAULTS.iter().find(|(variable, _)| *variable == name)?;
    Some((*value).to_owned())
}

fn not_supported(name: &str) -> Problem {
    Problem {
        path: name.to_owned(),
        line: None,
        column: None,
        found: None,
        message: "is set, but this provider's wire format is not supported yet".to_owned(),
        fix: "set OPENAI_API_KEY, or write a configuration file with an openai-chat provider".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Result<Option<ServerConfig>, ConfigError> {
        read(&|name| {
            let (_, value) = pairs.iter().find(|(variable, _)| *variable == name)?;
            Some((*value).to_owned())
        })
    }

    #[test]
    fn an_openai_key_is_enough() {
        let config = with(&[("OPENAI_API_KEY", "sk-1")])
            .expect("is valid")
            .expect("is there");
        let provider = &config.settings.providers["openai"];
        assert_eq!(provider.base_url, "https://api.openai.com/v1");
        assert_eq!(provider.api_keys[0].expose_secret(), "sk-1");
        let agent = &config.settings.agents[config.settings.default_agent];
        assert_eq!(agent.primary.to_string(), "openai/gpt-5.5-mini");
        assert!(config.admin.ip().is_loopback());
    }

    #[test]
    fn address_and_model_can_be_chosen() {
        let config = with(&[
            ("OPENAI_API_KEY", "sk-1"),
            ("OPENAI_BASE_URL", "http://127.0.0.1:9/v1/"),
            ("OPENAI_MODEL", "llama"),
        ])
        .expect("is valid")
        .expect("is there");
        let settings = config.settings;
        assert_eq!(settings.providers["openai"].base_url, "http://127.0.0.1:9/v1");
        assert_eq!(settings.agents[0].primary.to_string(), "openai/llama");
    }

    #[test]
    fn without_keys_there_is_no_configuration() {
        assert!(with(&[]).expect("is valid").is_none());
        assert!(with(&[("OPENAI_API_KEY", "")]).expect("is valid").is_none());
    }

    #[test]
    fn a_key_for_another_provider_alone_is_refused_by_name() {
        for name in UNSUPPORTED {
            let Err(ConfigError::Invalid(problems)) = with(&[(name, "sk-canary")]) else {
                panic!("{name} was ignored");
            };
            assert_eq!(problems[0].path, name);
            assert!(problems[0].message.contains("not supported yet"));
            assert!(!format!("{problems:?}").contains("canary"));
        }
        let both = with(&[("OPENAI_API_KEY", "sk-1"), ("ANTHROPIC_API_KEY", "sk-2")]);
        assert!(both.expect("is valid").is_some());
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
