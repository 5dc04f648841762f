"""What the scripts in Python share: where the gateway is, what it counts, and how facts are told."""

import importlib.metadata
import os
import sys
import time
import traceback
import urllib.request

API = os.environ["UNDERSTUDY_API"]
ADMIN = os.environ["UNDERSTUDY_ADMIN"]
CLIENT_KEY = "client-key"
# the wire formats of the providers, as chains and providers are named by them
UPSTREAMS = ["chat", "responses", "messages", "gemini"]
# how long anything may take that should be quick
PATIENCE = 20
LINES = "I know my lines."
STORY = "Once upon a time there was an understudy."
FORECAST = "It rains in Oslo."


def count(series):
    """The sum of a metric's samples whose line begins with its name and holds every label of `series`."""
    name, *labels = series.split()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{ADMIN}/metrics", timeout=PATIENCE) as response:
        lines = response.read().decode().splitlines()
    matching = [line for line in lines if line.startswith(name + "{") and all(label in line for label in labels)]
    return sum(float(line.rsplit(" ", 1)[1]) for line in matching)


def attempts(provider):
    return count(f'understudy_model_attempts_total provider="{provider}"')


def turns():
    return count("understudy_turns_total")


def walks_once(upstream, ask):
    """Asks a chain that leads nowhere, and asserts that it was walked exactly once: its last model is asked three times."""
    before = attempts(f"{upstream}-full"), attempts(f"{upstream}-down"), turns()
    answer = ask(f"{upstream}-exhausted")
    after = attempts(f"{upstream}-full"), attempts(f"{upstream}-down"), turns()
    walked = tuple(now - then for now, then in zip(after, before))
    assert walked == (1, 3, 1), f"lead, last and turns: {walked}"
    return answer


def raised(kind, call):
    """The error of exactly this kind that `call` raises."""
    try:
        call()
    except Exception as error:
        assert type(error) is kind, f"{type(error).__name__}: {error}"
        return error
    raise AssertionError("nothing was raised")


def eventually(holds):
    """Waits until `holds()`; fails when it does not come true."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


def tell(package, facts):
    """Checks every fact; one that takes an `upstream` is checked for each wire format."""
    told = failed = 0
    for fact in facts:
        takes = fact.__code__.co_varnames[: fact.__code__.co_argcount]
        for given in [(upstream,) for upstream in UPSTREAMS] if takes else [()]:
            name = " ".join([fact.__name__.replace("_", " "), *(f"({it})" for it in given)])
            told += 1
            try:
                fact(*given)
                print(f"ok      {name}", flush=True)
            except Exception as error:
                failed += 1
                frames = traceback.extract_tb(error.__traceback__)
                own = [f"{frame.lineno}" for frame in frames if frame.filename == fact.__code__.co_filename]
                print(f"FAILED  {name}: {type(error).__name__} in line {' < '.join(own)}: {error}", flush=True)
    version = importlib.metadata.version(package)
    print(f"{package} {version}: {told - failed} facts hold, {failed} do not")
    sys.exit(1 if failed else 0)
