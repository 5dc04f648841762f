"""The real `openai` package against the real gateway, with simulated providers behind it.

Run it with a Python that has `openai`, after `cargo build`. It prints one line per fact; exit code 1 if one does not hold.
"""

import asyncio
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request

import openai

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "understudy"
CLIENT_KEY = "client-key"
ASK = [{"role": "user", "content": "ready?"}]
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
# how long anything may take that should be quick
PATIENCE = 20


def chunk(delta, finish=None):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    data = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return f"data: {json.dumps(data)}\n\n"


def piece(index, arguments, **begun):
    call = {"index": index, "function": {"arguments": arguments}}
    if begun:
        call |= {"id": begun["id"], "type": "function"}
        call["function"]["name"] = begun["name"]
    return {"tool_calls": [call]}


def refusal(status, code, message="simulated", **headers):
    headers = {"content-type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
    error = {"message": message, "type": code, "code": code, "param": None}
    return {"status": status, "headers": headers, "body": {"error": error}}


def stream(*frames, then="close", every=0):
    frames = [[every, frame] for frame in frames]
    return {"headers": {"content-type": "text/event-stream"}, "frames": frames, "then": then}


USAGE = {"prompt_tokens": 7, "completion_tokens": 3}
CALLS = stream(
    chunk({"role": "assistant", "content": None}),
    chunk(piece(0, "", id="call-0", name="weather")),
    chunk(piece(1, "", id="call-1", name="weather")),
    chunk(piece(0, '{"city":')),
    chunk(piece(1, '{"city": "Ro')),
    chunk(piece(0, ' "Oslo"}')),
    chunk(piece(1, 'me"}')),
    chunk({}, "tool_calls"),
    "data: [DONE]\n\n",
)
# what each provider does, and in which chains it stands
PROVIDERS = {
    "good": {"answer": {"text": "I know my lines.", "chunks": 4, "usage": USAGE}},
    "tools": CALLS,
    "crowded": refusal(503, "server_is_overloaded"),
    "full": refusal(503, "server_is_overloaded"),
    "limited": refusal(429, "rate_limit_exceeded", retry_after="40"),
    "capped": refusal(429, "rate_limit_exceeded", retry_after="20"),
    "strict": refusal(400, "invalid_value", "'temperature' must be at most 2"),
    "torn": stream(chunk({"content": "once "}), chunk({"content": "upon"}), then="reset"),
    "mute": {"delay_ms": 600_000},
    "deaf": {"delay_ms": 600_000},
    "long": stream(*[chunk({"content": "and "})] * 1000, then="hang", every=20),
}
CHAINS = {
    "chat": ["good"],
    "tools": ["tools"],
    "rescued": ["crowded", "good"],
    "exhausted": ["crowded", "full"],
    "rate-limited": ["limited", "capped"],
    "refused": ["strict"],
    "torn": ["torn", "good"],
    "mute": ["mute"],
    "deaf": ["deaf"],
    "long": ["long"],
}


def read_json(pipe):
    """The next JSON value on a pipe, over as many lines as it takes."""
    text = ""
    while line := pipe.readline():
        text += line
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            continue
    raise RuntimeError(f"no JSON, but: {text!r}")


class Stage:
    """Simulator and gateway as processes of their own, on free ports."""

    def __init__(self, folder):
        self.folder = folder
        self.processes = []

    def set(self):
        """Starts both."""
        script = self.folder / "script.json"
        script.write_text(json.dumps({f"{name}/m": {"calls": [call]} for name, call in PROVIDERS.items()}))
        self.simulator = self.start("sim", "--listen", "127.0.0.1:0", "--script", script)
        base = read_json(self.simulator.stdout)["base_url"]
        config = {
            "listen": {"api": "127.0.0.1:0", "admin": "127.0.0.1:0"},
            "client_keys": [CLIENT_KEY],
            "providers": {
                name: {"api": "openai-chat", "base_url": base.replace("PROVIDER", name), "api_key": "k", "models": ["m"]}
                for name in PROVIDERS
            },
            "models": {name: {"chain": [f"{provider}/m" for provider in chain]} for name, chain in CHAINS.items()},
        }
        file = self.folder / "understudy.yaml"
        # JSON is YAML
        file.write_text(json.dumps(config))
        self.gateway = self.start("serve", "--config", file)
        addresses = read_json(self.gateway.stdout)
        self.api, self.admin = addresses["api"], addresses["admin"]

    def start(self, command, *args):
        with open(self.folder / f"{command}.log", "w") as log:
            arguments = [BINARY, "--json", command, *args]
            process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, text=True)
        self.processes.append(process)
        return process

    def client(self, **options):
        """A client as everyone makes it: its own retries are on unless `options` say otherwise."""
        return openai.OpenAI(**{"base_url": self.api, "api_key": CLIENT_KEY, "timeout": PATIENCE} | options)

    def count(self, series):
        """The sum of a metric's samples whose line begins with its name and holds every label of `series`."""
        name, *labels = series.split()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.admin}/metrics", timeout=PATIENCE) as response:
            lines = response.read().decode().splitlines()
        matching = [line for line in lines if line.startswith(name + "{") and all(label in line for label in labels)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in matching)

    def attempts(self, provider):
        return self.count(f'understudy_model_attempts_total provider="{provider}"')

    def calls(self):
        """Ends the simulator and returns what it counted."""
        self.simulator.send_signal(signal.SIGINT)
        report = read_json(self.simulator.stdout)
        self.simulator.wait(PATIENCE)
        return report["calls"]

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def eventually(holds):
    """Waits until `holds()`; fails when it does not come true."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


def raised(kind, call):
    """The error of exactly this kind that `call` raises."""
    try:
        call()
    except openai.OpenAIError as error:
        assert type(error) is kind, f"{type(error).__name__}: {error}"
        return error
    raise AssertionError("nothing was raised")


def models_are_listed(stage):
    names = [model.id for model in stage.client().models.list()]
    assert set(CHAINS) <= set(names) and "good/m" in names, names


def a_model_is_retrieved_by_alias_and_by_a_name_with_a_slash(stage):
    for name in ["chat", "good/m"]:
        assert stage.client().models.retrieve(name).id == name
    raised(openai.NotFoundError, lambda: stage.client().models.retrieve("nobody"))


def a_chat_is_answered(stage):
    raw = stage.client().chat.completions.with_raw_response.create(model="chat", messages=ASK)
    completion = raw.parse()
    assert completion.choices[0].message.content == "I know my lines."
    assert completion.usage.total_tokens == 10, completion.usage
    assert raw.headers["x-understudy-served-by"] == "good/m"
    assert completion._request_id == raw.headers["x-request-id"]


def a_stream_ends_with_the_usage_that_was_asked_for(stage):
    options = {"include_usage": True}
    chunks = list(stage.client().chat.completions.create(model="chat", messages=ASK, stream=True, stream_options=options))
    assert "".join(text(chunk) for chunk in chunks) == "I know my lines."
    assert chunks[-1].usage.total_tokens == 10 and not chunks[-1].choices
    chunks = list(stage.client().chat.completions.create(model="chat", messages=ASK, stream=True))
    assert all(chunk.usage is None for chunk in chunks)


def text(chunk):
    return chunk.choices[0].delta.content or "" if chunk.choices else ""


def an_asynchronous_client_streams(stage):
    async def spoken():
        async with openai.AsyncOpenAI(base_url=stage.api, api_key=CLIENT_KEY, timeout=PATIENCE) as client:
            chunks = await client.chat.completions.create(model="chat", messages=ASK, stream=True)
            return "".join([text(chunk) async for chunk in chunks])

    assert asyncio.run(spoken()) == "I know my lines."


def parallel_tool_calls_are_streamed(stage):
    with stage.client().chat.completions.stream(model="tools", messages=ASK, tools=[TOOL]) as events:
        completion = events.get_final_completion()
    choice = completion.choices[0]
    calls = [(call.id, call.function.name, call.function.arguments) for call in choice.message.tool_calls]
    assert choice.finish_reason == "tool_calls"
    assert calls == [("call-0", "weather", '{"city": "Oslo"}'), ("call-1", "weather", '{"city": "Rome"}')], calls


def the_second_answers_for_a_lead_that_is_overloaded(stage):
    for streams in [False, True]:
        raw = stage.client().chat.completions.with_raw_response.create(model="rescued", messages=ASK, stream=streams)
        assert raw.headers["x-understudy-served-by"] == "good/m"
        said = raw.parse()
        said = "".join(map(text, said)) if streams else said.choices[0].message.content
        assert said == "I know my lines."


def a_cut_in_mid_stream_raises_an_api_error_with_our_code(stage):
    said = []

    def read():
        for chunk in stage.client().chat.completions.create(model="torn", messages=ASK, stream=True):
            said.append(text(chunk))

    error = raised(openai.APIError, read)
    assert "".join(said) == "once upon"
    assert (error.code, error.body["reason"]) == ("upstream_timeout", "timeout"), error.body


def exhaustion_raises_once_after_one_walk(stage):
    before = stage.attempts("full"), stage.count("understudy_turns_total")
    create = stage.client().chat.completions.create
    error = raised(openai.InternalServerError, lambda: create(model="exhausted", messages=ASK))
    assert (error.status_code, error.code) == (503, "server_is_overloaded"), error.body
    assert error.response.headers["x-should-retry"] == "false"
    # at most two more tries of the one that is asked last, all in one turn
    assert 1 <= stage.attempts("full") - before[0] <= 3
    assert stage.count("understudy_turns_total") - before[1] == 1, "the client must not ask again"


def a_rate_limit_everywhere_raises_with_a_time_to_come_back(stage):
    create = stage.client().chat.completions.create
    error = raised(openai.RateLimitError, lambda: create(model="rate-limited", messages=ASK))
    assert (error.code, error.body["reason"]) == ("rate_limit_exceeded", "rate_limit"), error.body
    assert 1 <= int(error.response.headers["retry-after"]) <= 20


def a_bad_request_says_what_the_provider_said(stage):
    create = stage.client().chat.completions.create
    error = raised(openai.BadRequestError, lambda: create(model="refused", messages=ASK))
    assert error.code == "invalid_value" and "at most 2" in error.message, error.body


def a_deadline_in_a_header_raises_a_504_once(stage):
    create = stage.client().chat.completions.create
    deadline = {"x-understudy-timeout-ms": "2000"}
    error = raised(openai.InternalServerError, lambda: create(model="mute", messages=ASK, extra_headers=deadline))
    assert (error.status_code, error.body["reason"]) == (504, "timeout"), error.body
    assert stage.attempts("mute") == 1


def a_client_that_times_out_cancels_its_turn(stage):
    before = stage.count('understudy_turns_total outcome="cancelled"')
    client = stage.client(timeout=2, max_retries=0)
    raised(openai.APITimeoutError, lambda: client.chat.completions.create(model="deaf", messages=ASK))
    eventually(lambda: stage.count('understudy_turns_total outcome="cancelled"') == before + 1)


def a_client_that_closes_a_stream_early_cancels_its_turn(stage):
    before = stage.count('understudy_turns_total outcome="cancelled"')
    with stage.client() as client:
        chunks = client.chat.completions.create(model="long", messages=ASK, stream=True)
        assert text(next(iter(chunks))) == "and "
        chunks.close()
        eventually(lambda: stage.count('understudy_turns_total outcome="cancelled"') == before + 1)
        assert client.chat.completions.create(model="chat", messages=ASK).choices, "the client goes on"


def a_wrong_key_raises_an_authentication_error(stage):
    error = raised(openai.AuthenticationError, lambda: list(stage.client(api_key="wrong").models.list()))
    assert error.code == "invalid_api_key"


def an_unknown_model_raises_not_found(stage):
    create = stage.client().chat.completions.create
    error = raised(openai.NotFoundError, lambda: create(model="nobody", messages=ASK))
    assert error.code == "model_not_found"


def the_providers_counted_as_many_calls_as_the_gateway(stage):
    counted = {name: stage.attempts(name) for name in PROVIDERS}
    calls = stage.calls()
    assert {name: calls.get(f"{name}/m", 0) for name in PROVIDERS} == counted, (calls, counted)
    # three walks led to it: two that were rescued, and one to the end
    assert calls["crowded/m"] <= 3, calls
    assert calls["limited/m"] == 1 and calls["torn/m"] == 1, calls


FACTS = [
    models_are_listed,
    a_model_is_retrieved_by_alias_and_by_a_name_with_a_slash,
    a_chat_is_answered,
    a_stream_ends_with_the_usage_that_was_asked_for,
    an_asynchronous_client_streams,
    parallel_tool_calls_are_streamed,
    the_second_answers_for_a_lead_that_is_overloaded,
    exhaustion_raises_once_after_one_walk,
    a_cut_in_mid_stream_raises_an_api_error_with_our_code,
    a_rate_limit_everywhere_raises_with_a_time_to_come_back,
    a_bad_request_says_what_the_provider_said,
    a_deadline_in_a_header_raises_a_504_once,
    a_client_that_times_out_cancels_its_turn,
    a_client_that_closes_a_stream_early_cancels_its_turn,
    a_wrong_key_raises_an_authentication_error,
    an_unknown_model_raises_not_found,
    # ends the simulator, so it comes last
    the_providers_counted_as_many_calls_as_the_gateway,
]


def main():
    # a proxy of the environment has no business between processes of one machine
    os.environ["NO_PROXY"] = "127.0.0.1"
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(pathlib.Path(folder))
        try:
            stage.set()
            for fact in FACTS:
                name = fact.__name__.replace("_", " ")
                try:
                    fact(stage)
                    print(f"ok      {name}", flush=True)
                except Exception:
                    failed += 1
                    print(f"FAILED  {name}\n{traceback.format_exc()}", flush=True)
        finally:
            stage.stop()
    print(f"{len(FACTS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
