"""LangChain's ChatOpenAI: chat completions and Responses, before providers of every wire format."""

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langchain_openai.chat_models.base import OpenAIAPIError, OpenAIInvalidRequestError

from stage import API, CLIENT_KEY, FORECAST, LINES, PATIENCE, STORY, UPSTREAMS, raised, tell, walks_once


@tool
def weather(city: str) -> str:
    """Tells the weather."""
    return "rain"


def model(name, **options):
    """A model as everyone makes it: its own retries are on."""
    return ChatOpenAI(**{"model": name, "base_url": API, "api_key": CLIENT_KEY, "timeout": PATIENCE} | options)


def both_ways(name):
    """By chat completions and by Responses."""
    return [model(name), model(name, use_responses_api=True)]


def streamed(llm, said):
    """The chunks of a stream, added up."""
    total = None
    for chunk in llm.stream(said):
        total = chunk if total is None else total + chunk
    return total


def a_model_is_invoked(upstream):
    for llm in both_ways(upstream):
        message = llm.invoke("ready?")
        assert message.text == LINES, message
        assert message.usage_metadata["total_tokens"] == 10, message


def a_stream_is_added_up(upstream):
    for llm in both_ways(upstream):
        message = streamed(llm, "ready?")
        assert message.text == LINES, message
        # without an own address it would ask for it by itself
        assert streamed(model(upstream, stream_usage=True), "ready?").usage_metadata["total_tokens"] == 10


def a_tool_is_called_and_its_result_is_answered(upstream):
    llm = model(f"{upstream}-tools").bind_tools([weather])
    for answered in [llm.invoke, lambda said: streamed(llm, said)]:
        ask = HumanMessage("ready?")
        asked = answered([ask])
        [call] = asked.tool_calls
        assert (call["name"], call["args"]) == ("weather", {"city": "Oslo"}), asked
        told = answered([ask, asked, ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"])])
        assert told.text == FORECAST, told


def parallel_tool_calls_are_streamed(upstream):
    message = streamed(model(f"{upstream}-parallel").bind_tools([weather]), "ready?")
    assert [call["args"] for call in message.tool_calls] == [{"city": "Oslo"}, {"city": "Rome"}], message


def the_second_answers_for_a_lead_that_is_overloaded(upstream):
    llm = model(f"{upstream}-rescued", include_response_headers=True)
    message = llm.invoke("ready?")
    after = UPSTREAMS[(UPSTREAMS.index(upstream) + 1) % len(UPSTREAMS)]
    assert message.response_metadata["headers"]["x-understudy-served-by"] == f"{after}-good/m"
    assert message.text == streamed(llm, "ready?").text == LINES


def a_stream_that_is_cut_is_gone_on_with(upstream):
    for chain in ["torn", "torn-across"]:
        for llm in both_ways(f"{upstream}-{chain}"):
            assert streamed(llm, "ready?").text == STORY, chain


def exhaustion_raises_once_after_one_walk(upstream):
    kind = OpenAIAPIError
    error = walks_once(upstream, lambda name: raised(kind, lambda: model(name).invoke("ready?")))
    assert (error.status_code, error.body["reason"]) == (503, "overloaded"), error.body


def a_bad_request_says_what_the_provider_said(upstream):
    for llm in both_ways(f"{upstream}-refused"):
        error = raised(OpenAIInvalidRequestError, lambda: llm.invoke("ready?"))
        assert "at most 2" in error.message, error.body


if __name__ == "__main__":
    tell(
        "langchain-openai",
        [
            a_model_is_invoked,
            a_stream_is_added_up,
            a_tool_is_called_and_its_result_is_answered,
            parallel_tool_calls_are_streamed,
            the_second_answers_for_a_lead_that_is_overloaded,
            a_stream_that_is_cut_is_gone_on_with,
            exhaustion_raises_once_after_one_walk,
            a_bad_request_says_what_the_provider_said,
        ],
    )
