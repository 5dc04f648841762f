//! Which turns somebody else may go on with after content was delivered: those whose answer is plain text (design §5).

use understudy_messages::request::{Demand, Endpoint, RequestFacts};

/// Whether the turn's answer, as far as the request tells, is plain text that another model can go on with. What was said
/// in it so far and what ran meanwhile is for others to judge.
pub fn continuable(endpoint: Endpoint, facts: &RequestFacts) -> bool {
    let streams = match endpoint {
        Endpoint::Chat | Endpoint::Responses | Endpoint::Messages | Endpoint::Native => facts.stream,
        Endpoint::CountTokens | Endpoint::Embeddings => false,
    };
    let shaped = facts.has_response_format || facts.has_logprobs || facts.has_stop;
    let more_than_text = [
        Demand::Choices,
        Demand::Logprobs,
        Demand::AudioOut,
        Demand::JsonSchema,
        Demand::JsonObject,
        Demand::Background,
    ];
    streams && facts.choices == 1 && !shaped && !more_than_text.iter().any(|demand| facts.demands.contains(*demand))
}

#[cfg(test)]
mod tests {
    use understudy_messages::request::{Demands, Messages};

    use super::*;

    fn plain() -> RequestFacts {
        RequestFacts {
            model: "m".into(),
            model_span: 0..0,
            stream: true,
            include_usage: false,
            usage_edit: None,
            choices: 1,
            has_tools: true,
            has_response_format: false,
            has_logprobs: false,
            has_stop: false,
            fallbacks: None,
            fallbacks_span: None,
            demands: Demands::default(),
            messages: Messages::default(),
            responses: None,
        }
    }

    #[test]
    fn plain_text_may_be_gone_on_with_and_tools_may_be_offered() {
        for endpoint in [Endpoint::Chat, Endpoint::Responses, Endpoint::Messages] {
            assert!(continuable(endpoint, &plain()), "{endpoint:?}");
        }
    }

    #[test]
    fn anything_else_may_not() {
        type Change = fn(&mut RequestFacts);
        let changes: [(&str, Change); 5] = [
            ("a whole answer", |facts| facts.stream = false),
            ("several choices", |facts| facts.choices = 2),
            ("structured output", |facts| facts.has_response_format = true),
            ("log probabilities", |facts| facts.has_logprobs = true),
            ("a stop sequence", |facts| facts.has_stop = true),
        ];
        for (what, change) in changes {
            let mut facts = plain();
            change(&mut facts);
            assert!(!continuable(Endpoint::Chat, &facts), "{what}");
        }
        for demand in [
            Demand::Choices,
            Demand::Logprobs,
            Demand::AudioOut,
            Demand::JsonSchema,
            Demand::JsonObject,
            Demand::Background,
        ] {
            let mut facts = plain();
            facts.demands.insert(demand);
            assert!(!continuable(Endpoint::Responses, &facts), "{demand:?}");
        }
        for endpoint in [Endpoint::Embeddings, Endpoint::CountTokens] {
            assert!(!continuable(endpoint, &plain()), "{endpoint:?}");
        }
    }
}
