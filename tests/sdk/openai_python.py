"""OpenAI's package for Python: chat completions and Responses, before providers of every wire format."""

import asyncio

import openai

from stage import (
    API,
    CLIENT_KEY,
    FORECAST,
    LINES,
    PATIENCE,
    STORY,
    UPSTREAMS,
    attempts,
    count,
    eventually,
    raised,
    tell,
    walks_once,
)

ASK = [{"role": "user", "content": "ready?"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
FLAT_TOOL = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}
PLAIN = {"x-understudy-agent": "plain"}


def client(**options):
    """A client as everyone makes it: its own retries are on unless `options` say otherwise."""
    return openai.OpenAI(**{"base_url": API, "api_key": CLIENT_KEY, "timeout": PATIENCE} | options)


def chat(model, **options):
    return client().chat.completions.create(model=model, messages=ASK, **options)


def text(chunk):
    return chunk.choices[0].delta.content or "" if chunk.choices else ""


def models_are_listed():
    names = [model.id for model in client().models.list()]
    assert {"chat", "gemini-torn", "messages-good/m"} <= set(names), names


def a_model_is_retrieved_by_alias_and_by_a_name_with_a_slash():
    for name in ["chat", "chat-good/m"]:
        assert client().models.retrieve(name).id == name
    raised(openai.NotFoundError, lambda: client().models.retrieve("nobody"))


def a_chat_is_answered(upstream):
    raw = client().chat.completions.with_raw_response.create(model=upstream, messages=ASK)
    completion = raw.parse()
    assert completion.choices[0].message.content == LINES
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage.total_tokens == 10, completion.usage
    assert raw.headers["x-understudy-served-by"] == f"{upstream}-good/m"
    assert completion._request_id == raw.headers["x-request-id"]


def a_stream_ends_with_the_usage_that_was_asked_for(upstream):
    chunks = list(chat(upstream, stream=True, stream_options={"include_usage": True}))
    assert "".join(map(text, chunks)) == LINES
    assert chunks[-1].usage.total_tokens == 10 and not chunks[-1].choices
    chunks = list(chat(upstream, stream=True))
    assert "".join(map(text, chunks)) == LINES
    assert all(chunk.usage is None for chunk in chunks)


def an_asynchronous_client_streams():
    async def spoken():
        async with openai.AsyncOpenAI(base_url=API, api_key=CLIENT_KEY, timeout=PATIENCE) as client:
            chunks = await client.chat.completions.create(model="chat", messages=ASK, stream=True)
            return "".join([text(chunk) async for chunk in chunks])

    assert asyncio.run(spoken()) == LINES


def a_tool_is_called_and_its_result_is_answered(upstream):
    completions = client().chat.completions
    for streams in [False, True]:

        def answered(messages):
            wish = {"model": f"{upstream}-tools", "messages": messages, "tools": [TOOL]}
            if not streams:
                return completions.create(**wish).choices[0]
            with completions.stream(**wish) as events:
                return events.get_final_completion().choices[0]

        asked = answered(ASK)
        assert asked.finish_reason == "tool_calls", asked
        assert asked.message.content == "Let me look."
        [call] = asked.message.tool_calls
        assert (call.function.name, call.function.arguments) == ("weather", '{"city":"Oslo"}'), call
        result = {"role": "tool", "tool_call_id": call.id, "content": "rain"}
        said = answered([*ASK, asked.message.to_dict(), result])
        assert (said.message.content, said.finish_reason) == (FORECAST, "stop"), said


def parallel_tool_calls_are_streamed(upstream):
    with client().chat.completions.stream(model=f"{upstream}-parallel", messages=ASK, tools=[TOOL]) as events:
        choice = events.get_final_completion().choices[0]
    calls = choice.message.tool_calls
    assert choice.finish_reason == "tool_calls"
    assert [call.function.arguments for call in calls] == ['{"city":"Oslo"}', '{"city":"Rome"}'], calls
    assert len({call.id for call in calls}) == 2, calls


def the_second_answers_for_a_lead_that_is_overloaded(upstream):
    for streams in [False, True]:
        completions = client().chat.completions.with_raw_response
        raw = completions.create(model=f"{upstream}-rescued", messages=ASK, stream=streams)
        after = UPSTREAMS[(UPSTREAMS.index(upstream) + 1) % len(UPSTREAMS)]
        assert raw.headers["x-understudy-served-by"] == f"{after}-good/m"
        said = raw.parse()
        said = "".join(map(text, said)) if streams else said.choices[0].message.content
        assert said == LINES, said


def a_stream_that_is_cut_is_gone_on_with(upstream):
    for chain in ["torn", "torn-across"]:
        chunks = list(chat(f"{upstream}-{chain}", stream=True))
        assert "".join(map(text, chunks)) == STORY, (chain, chunks)
        assert [it.choices[0].finish_reason for it in chunks if it.choices][-1] == "stop"
        assert len({chunk.id for chunk in chunks}) == 1, "the id stays"


def a_cut_raises_an_api_error_with_our_code_where_that_is_wanted():
    said = []

    def read():
        for chunk in chat("chat-torn", stream=True, extra_headers=PLAIN):
            said.append(text(chunk))

    error = raised(openai.APIError, read)
    assert "".join(said) == "Once upon a time there was "
    assert (error.code, error.body["reason"]) == ("upstream_timeout", "timeout"), error.body


def exhaustion_raises_once_after_one_walk(upstream):
    error = walks_once(upstream, lambda model: raised(openai.InternalServerError, lambda: chat(model)))
    assert (error.status_code, error.body["reason"]) == (503, "overloaded"), error.body
    assert error.response.headers["x-should-retry"] == "false"


def a_bad_request_says_what_the_provider_said(upstream):
    error = raised(openai.BadRequestError, lambda: chat(f"{upstream}-refused"))
    assert "at most 2" in error.message and error.body["reason"] == "format", error.body


def a_rate_limit_everywhere_raises_with_a_time_to_come_back():
    error = raised(openai.RateLimitError, lambda: chat("rate-limited"))
    assert (error.code, error.body["reason"]) == ("rate_limit_exceeded", "rate_limit"), error.body
    assert 1 <= int(error.response.headers["retry-after"]) <= 20


def a_deadline_in_a_header_raises_a_504_once():
    deadline = {"x-understudy-timeout-ms": "2000"}
    error = raised(openai.InternalServerError, lambda: chat("mute", extra_headers=deadline))
    assert (error.status_code, error.body["reason"]) == (504, "timeout"), error.body
    assert attempts("mute") == 1


def a_client_that_times_out_cancels_its_turn():
    before = count('understudy_turns_total outcome="cancelled"')
    impatient = client(timeout=2, max_retries=0)
    raised(openai.APITimeoutError, lambda: impatient.chat.completions.create(model="deaf", messages=ASK))
    eventually(lambda: count('understudy_turns_total outcome="cancelled"') == before + 1)


def a_client_that_closes_a_stream_early_cancels_its_turn():
    before = count('understudy_turns_total outcome="cancelled"')
    with client() as own:
        chunks = own.chat.completions.create(model="long", messages=ASK, stream=True)
        assert text(next(iter(chunks))) == "and "
        chunks.close()
        eventually(lambda: count('understudy_turns_total outcome="cancelled"') == before + 1)
        assert own.chat.completions.create(model="chat", messages=ASK).choices, "the client goes on"


def a_wrong_key_raises_an_authentication_error():
    error = raised(openai.AuthenticationError, lambda: list(client(api_key="wrong").models.list()))
    assert error.code == "invalid_api_key"


def an_unknown_model_raises_not_found():
    error = raised(openai.NotFoundError, lambda: chat("nobody"))
    assert error.code == "model_not_found"


def a_response_is_created(upstream):
    response = client().responses.create(model=upstream, input="ready?")
    assert (response.status, response.output_text) == ("completed", LINES)
    assert response.usage.total_tokens == 10, response.usage


def a_response_is_streamed(upstream):
    with client().responses.stream(model=upstream, input="ready?") as events:
        said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        final = events.get_final_response()
    assert said == final.output_text == LINES
    assert (final.status, final.usage.total_tokens) == ("completed", 10)


def a_response_goes_on_from_the_one_before(upstream):
    first = client().responses.create(model=upstream, input="ready?")
    again = client().responses.create(model=upstream, input="sure?", previous_response_id=first.id)
    # a provider that speaks Responses itself is sent the whole conversation: its own words do not name the one before
    named = None if upstream == "responses" else first.id
    assert (again.output_text, again.previous_response_id) == (LINES, named), again
    assert again.id != first.id
    lost = {"model": upstream, "input": "x", "previous_response_id": "resp_that_never_was"}
    error = raised(openai.BadRequestError, lambda: client().responses.create(**lost))
    assert error.code == "previous_response_not_found", error.body


def a_response_calls_a_tool_and_its_result_is_answered(upstream):
    responses = client().responses
    for streams in [False, True]:

        def answered(**wish):
            wish |= {"model": f"{upstream}-tools", "tools": [FLAT_TOOL]}
            if not streams:
                return responses.create(**wish)
            with responses.stream(**wish) as events:
                return events.until_done().get_final_response()

        asked = answered(input="ready?")
        [call] = [item for item in asked.output if item.type == "function_call"]
        assert (call.name, call.arguments) == ("weather", '{"city":"Oslo"}'), call
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
        said = answered(input=[result], previous_response_id=asked.id)
        assert said.output_text == FORECAST, said


def a_response_that_is_cut_is_gone_on_with(upstream):
    for chain in ["torn", "torn-across"]:
        with client().responses.stream(model=f"{upstream}-{chain}", input="ready?") as events:
            said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
            final = events.get_final_response()
        assert said == final.output_text == STORY, (chain, said, final.output_text)


def an_exhausted_response_raises_once_after_one_walk(upstream):
    create = client().responses.create

    def ask(model):
        return raised(openai.InternalServerError, lambda: create(model=model, input="ready?"))

    error = walks_once(upstream, ask)
    assert (error.status_code, error.body["reason"]) == (503, "overloaded"), error.body


def a_refused_response_says_what_the_provider_said(upstream):
    create = client().responses.create
    error = raised(openai.BadRequestError, lambda: create(model=f"{upstream}-refused", input="ready?"))
    assert "at most 2" in error.message, error.body


if __name__ == "__main__":
    tell(
        "openai",
        [
            models_are_listed,
            a_model_is_retrieved_by_alias_and_by_a_name_with_a_slash,
            a_chat_is_answered,
            a_stream_ends_with_the_usage_that_was_asked_for,
            an_asynchronous_client_streams,
            a_tool_is_called_and_its_result_is_answered,
            parallel_tool_calls_are_streamed,
            the_second_answers_for_a_lead_that_is_overloaded,
            a_stream_that_is_cut_is_gone_on_with,
            a_cut_raises_an_api_error_with_our_code_where_that_is_wanted,
            exhaustion_raises_once_after_one_walk,
            a_bad_request_says_what_the_provider_said,
            a_rate_limit_everywhere_raises_with_a_time_to_come_back,
            a_deadline_in_a_header_raises_a_504_once,
            a_client_that_times_out_cancels_its_turn,
            a_client_that_closes_a_stream_early_cancels_its_turn,
            a_wrong_key_raises_an_authentication_error,
            an_unknown_model_raises_not_found,
            a_response_is_created,
            a_response_is_streamed,
            a_response_goes_on_from_the_one_before,
            a_response_calls_a_tool_and_its_result_is_answered,
            a_response_that_is_cut_is_gone_on_with,
            an_exhausted_response_raises_once_after_one_walk,
            a_refused_response_says_what_the_provider_said,
        ],
    )
