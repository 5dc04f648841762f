"""Anthropic's package for Python, before providers of every wire format."""

import anthropic

from stage import API, CLIENT_KEY, FORECAST, LINES, PATIENCE, STORY, UPSTREAMS, raised, tell, walks_once

ASK = [{"role": "user", "content": "ready?"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"name": "weather", "description": "Tells the weather.", "input_schema": SCHEMA}
# this package adds the version to the address by itself
ADDRESS = API.removesuffix("/v1")


def client(**options):
    return anthropic.Anthropic(**{"base_url": ADDRESS, "api_key": CLIENT_KEY, "timeout": PATIENCE} | options)


def ask(model, **options):
    return client().messages.create(**{"model": model, "messages": ASK, "max_tokens": 64} | options)


def said(message):
    return "".join(block.text for block in message.content if block.type == "text")


def streamed(model, **options):
    """The text as it came, and the message as the package put it together."""
    with client().messages.stream(**{"model": model, "messages": ASK, "max_tokens": 64} | options) as events:
        text = "".join(events.text_stream)
        return text, events.get_final_message()


def models_are_listed():
    names = [model.id for model in client().models.list(limit=1000)]
    assert {"messages", "gemini-torn", "chat-good/m"} <= set(names), names


def a_message_is_answered(upstream):
    raw = client().messages.with_raw_response.create(model=upstream, messages=ASK, max_tokens=64)
    message = raw.parse()
    assert (said(message), message.stop_reason) == (LINES, "end_turn"), message
    assert (message.usage.input_tokens, message.usage.output_tokens) == (7, 3), message.usage
    assert raw.headers["x-understudy-served-by"] == f"{upstream}-good/m"


def a_stream_is_put_together(upstream):
    text, message = streamed(upstream)
    assert text == said(message) == LINES
    assert message.stop_reason == "end_turn", message
    assert message.usage.output_tokens == 3, message.usage


def events_come_in_the_order_of_the_protocol(upstream):
    kinds = [event.type for event in ask(upstream, stream=True)]
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop", kinds
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 1, kinds


def a_tool_is_called_and_its_result_is_answered(upstream):
    for streams in [False, True]:

        def answered(messages):
            wish = {"model": f"{upstream}-tools", "messages": messages, "tools": [TOOL]}
            return streamed(**wish)[1] if streams else ask(**wish)

        asked = answered(ASK)
        assert asked.stop_reason == "tool_use", asked
        assert said(asked) == "Let me look."
        [call] = [block for block in asked.content if block.type == "tool_use"]
        assert (call.name, call.input) == ("weather", {"city": "Oslo"}), call
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "rain"}
        turns = [*ASK, {"role": "assistant", "content": asked.content}, {"role": "user", "content": [result]}]
        told = answered(turns)
        assert (said(told), told.stop_reason) == (FORECAST, "end_turn"), told


def parallel_tool_calls_are_streamed(upstream):
    _, message = streamed(f"{upstream}-parallel", tools=[TOOL])
    calls = [block for block in message.content if block.type == "tool_use"]
    assert [call.input for call in calls] == [{"city": "Oslo"}, {"city": "Rome"}], message
    assert len({call.id for call in calls}) == 2, calls


def the_second_answers_for_a_lead_that_is_overloaded(upstream):
    after = UPSTREAMS[(UPSTREAMS.index(upstream) + 1) % len(UPSTREAMS)]
    raw = client().messages.with_raw_response.create(model=f"{upstream}-rescued", messages=ASK, max_tokens=64)
    assert raw.headers["x-understudy-served-by"] == f"{after}-good/m"
    assert said(raw.parse()) == LINES
    assert streamed(f"{upstream}-rescued")[0] == LINES


def a_stream_that_is_cut_is_gone_on_with(upstream):
    for chain in ["torn", "torn-across"]:
        text, message = streamed(f"{upstream}-{chain}")
        assert text == said(message) == STORY, (chain, text, message)
        assert message.stop_reason == "end_turn", message


def a_cut_raises_an_api_error_where_that_is_wanted():
    error = raised(
        anthropic.APIStatusError,
        lambda: streamed("messages-torn", extra_headers={"x-understudy-agent": "plain"}),
    )
    assert error.body["error"]["reason"] == "timeout", error.body


def exhaustion_raises_once_after_one_walk(upstream):
    kind = anthropic.ServiceUnavailableError
    error = walks_once(upstream, lambda model: raised(kind, lambda: ask(model)))
    assert error.status_code == 503, error
    assert error.body["type"] == "error" and error.body["error"]["type"] == "overloaded_error", error.body
    assert error.response.headers["x-should-retry"] == "false"


def a_bad_request_says_what_the_provider_said(upstream):
    error = raised(anthropic.BadRequestError, lambda: ask(f"{upstream}-refused"))
    assert "at most 2" in error.message, error.body
    assert error.body["error"]["type"] == "invalid_request_error", error.body


def a_rate_limit_everywhere_raises_with_a_time_to_come_back():
    error = raised(anthropic.RateLimitError, lambda: ask("rate-limited"))
    assert error.body["error"]["type"] == "rate_limit_error", error.body
    assert 1 <= int(error.response.headers["retry-after"]) <= 20


def a_wrong_key_raises_an_authentication_error():
    wrong = client(api_key="wrong").messages
    error = raised(
        anthropic.AuthenticationError, lambda: wrong.create(model="messages", messages=ASK, max_tokens=64)
    )
    assert error.body["error"]["type"] == "authentication_error", error.body


def an_unknown_model_raises_not_found():
    error = raised(anthropic.NotFoundError, lambda: ask("nobody"))
    assert error.body["error"]["type"] == "not_found_error", error.body


def tokens_are_estimated_where_no_provider_counts_them():
    raw = client().messages.with_raw_response.count_tokens(model="chat", messages=ASK)
    assert raw.headers["x-understudy-estimated"] == "true"
    assert raw.parse().input_tokens > 0


if __name__ == "__main__":
    tell(
        "anthropic",
        [
            models_are_listed,
            a_message_is_answered,
            a_stream_is_put_together,
            events_come_in_the_order_of_the_protocol,
            a_tool_is_called_and_its_result_is_answered,
            parallel_tool_calls_are_streamed,
            the_second_answers_for_a_lead_that_is_overloaded,
            a_stream_that_is_cut_is_gone_on_with,
            a_cut_raises_an_api_error_where_that_is_wanted,
            exhaustion_raises_once_after_one_walk,
            a_bad_request_says_what_the_provider_said,
            a_rate_limit_everywhere_raises_with_a_time_to_come_back,
            a_wrong_key_raises_an_authentication_error,
            an_unknown_model_raises_not_found,
            tokens_are_estimated_where_no_provider_counts_them,
        ],
    )
