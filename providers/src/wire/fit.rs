//! Which wire format can give what a request demands. A table.
//!
//! A target that is passed over here is not asked at all. Finer matters show when the request is written:
//! [`Unsupported`](super::Unsupported).

use understudy_messages::request::{Demand, Endpoint, RequestFacts};
use understudy_messages::settings::Api;

/// What keeps a provider from giving what a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Its wire format knows no such request.
    Endpoint(Endpoint),
    /// Its wire format, reached by translation, has no words for a demand.
    Demand(Demand),
}

impl Obstacle {
    /// What cannot be given, for whoever asked.
    pub const fn as_words(self) -> &'static str {
        match self {
            Self::Endpoint(Endpoint::Embeddings) => "embeddings",
            Self::Endpoint(Endpoint::CountTokens) => "a count of tokens",
            Self::Endpoint(Endpoint::Chat | Endpoint::Responses | Endpoint::Messages | Endpoint::Native) => "an answer",
            Self::Demand(demand) => demand.as_words(),
        }
    }
}

/// What of the request a provider that speaks `api` could not give at all: it is not asked then. Within one wire format
/// the provider itself judges.
pub fn obstacle(endpoint: Endpoint, facts: &RequestFacts, api: Api) -> Option<Obstacle> {
    if endpoint.is_spoken_by(api) {
        return None;
    }
    match endpoint {
        Endpoint::Embeddings | Endpoint::CountTokens => Some(Obstacle::Endpoint(endpoint)),
        Endpoint::Chat | Endpoint::Responses | Endpoint::Messages | Endpoint::Native => {
            let stop = facts.has_stop.then_some(Demand::Stop);
            let mut demands = facts.demands.iter().chain(stop);
            let missing = demands.find(|demand| !gives(endpoint, api, *demand));
            missing.map(Obstacle::Demand)
        }
    }
}

/// Whether `api` gives to a client of another format what `demand` names.
fn gives(endpoint: Endpoint, api: Api, demand: Demand) -> bool {
    match demand {
        Demand::Choices => match api {
            Api::OpenaiChat | Api::Gemini => true,
            Api::OpenaiResponses | Api::AnthropicMessages => false,
        },
        Demand::AudioIn => match api {
            Api::OpenaiChat | Api::Gemini => true,
            Api::OpenaiResponses | Api::AnthropicMessages => false,
        },
        Demand::JsonObject => match api {
            Api::OpenaiChat | Api::OpenaiResponses | Api::Gemini => true,
            Api::AnthropicMessages => false,
        },
        Demand::Stop => match api {
            Api::OpenaiChat | Api::AnthropicMessages | Api::Gemini => true,
            Api::OpenaiResponses => false,
        },
        Demand::Document | Demand::MediaUrl | Demand::JsonSchema => match api {
            Api::OpenaiChat | Api::OpenaiResponses | Api::AnthropicMessages | Api::Gemini => true,
        },
        // both of OpenAI's APIs know the same files
        Demand::ProviderFile => match api {
            Api::OpenaiChat | Api::OpenaiResponses => {
                matches!(endpoint, Endpoint::Chat | Endpoint::Responses | Endpoint::Native)
            }
            Api::AnthropicMessages | Api::Gemini => false,
        },
        // what only its own format has words for
        Demand::Logprobs
        | Demand::AudioOut
        | Demand::HostedTool
        | Demand::CustomTool
        | Demand::Background
        | Demand::ProviderState
        | Demand::ProviderPrompt => false,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use understudy_messages::request::Demands;

    use super::*;
    use crate::wire::scan;

    fn facts(demands: &[Demand]) -> RequestFacts {
        let body = Bytes::from_static(br#"{"model":"m","messages":[{"role":"user"}]}"#);
        let mut set = Demands::default();
        demands.iter().for_each(|demand| set.insert(*demand));
        RequestFacts {
            demands: set,
            ..scan(Endpoint::Chat, &body).expect("good")
        }
    }

    #[test]
    fn within_one_format_everything_passes() {
        let all = facts(&Demand::ALL);
        for (endpoint, api) in [
            (Endpoint::Chat, Api::OpenaiChat),
            (Endpoint::Responses, Api::OpenaiResponses),
            (Endpoint::Messages, Api::AnthropicMessages),
            (Endpoint::Embeddings, Api::OpenaiResponses),
        ] {
            assert_eq!(obstacle(endpoint, &all, api), None);
        }
    }

    #[test]
    fn a_request_without_demands_fits_everywhere_but_counts_and_embeddings_do_not() {
        for api in Api::ALL {
            assert_eq!(obstacle(Endpoint::Responses, &facts(&[]), api), None);
        }
        let counts = obstacle(Endpoint::CountTokens, &facts(&[]), Api::Gemini);
        assert_eq!(counts, Some(Obstacle::Endpoint(Endpoint::CountTokens)));
        let vectors = obstacle(Endpoint::Embeddings, &facts(&[]), Api::AnthropicMessages);
        assert_eq!(vectors, Some(Obstacle::Endpoint(Endpoint::Embeddings)));
    }

    #[test]
    fn the_first_demand_that_is_not_met_is_named() {
        let facts = facts(&[Demand::JsonSchema, Demand::JsonObject, Demand::Choices]);
        let found = obstacle(Endpoint::Chat, &facts, Api::AnthropicMessages);
        assert_eq!(found, Some(Obstacle::Demand(Demand::Choices)));
        assert_eq!(obstacle(Endpoint::Chat, &facts, Api::Gemini), None);
    }

    #[test]
    fn a_file_of_openai_is_known_to_both_of_its_apis_alone() {
        let facts = facts(&[Demand::ProviderFile]);
        assert_eq!(obstacle(Endpoint::Chat, &facts, Api::OpenaiResponses), None);
        for (endpoint, api) in [(Endpoint::Chat, Api::Gemini), (Endpoint::Messages, Api::OpenaiChat)] {
            let found = obstacle(endpoint, &facts, api);
            assert_eq!(found, Some(Obstacle::Demand(Demand::ProviderFile)));
        }
    }
}
