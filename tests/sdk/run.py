"""The client libraries that people use, as they come from their registries, against the real gateway and simulated providers.

    python3 tests/sdk/run.py PYTHON NODE_MODULES [NAME ...]

PYTHON is an interpreter that has `requirements.txt`; NODE_MODULES a folder made by `npm ci` from `package-lock.json`. Each
client is a script with a stage of its own: a simulator that plays `upstreams.yaml` and a gateway with `understudy.yaml`. One
line is printed for each; exit code 1 if a fact does not hold, or if the gateway did not count what the simulator did.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
BINARY = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parents[1] / "target")) / "debug" / "understudy"
CLIENTS = {
    "openai-python": "openai_python.py",
    "anthropic-python": "anthropic_python.py",
    "langchain-python": "langchain_python.py",
    "openai-node": "openai_node.mjs",
    "anthropic-node": "anthropic_node.mjs",
    "ai-sdk": "ai_sdk.mjs",
}
# how long a process may take to start or to end
PATIENCE = 20
# how long a client's whole script may take
SCRIPT_PATIENCE = 300


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
        self.folder = pathlib.Path(folder)
        self.processes = []

    def __enter__(self):
        try:
            self.simulator = self.start({}, "sim", "--listen", "127.0.0.1:0", "--script", HERE / "upstreams.yaml")
            base = read_json(self.simulator.stdout)["base_url"]
            sim = {"SIM": base.removesuffix("/PROVIDER/v1")}
            gateway = self.start(sim, "serve", "--config", HERE / "understudy.yaml")
            addresses = read_json(gateway.stdout)
            self.api, self.admin = addresses["api"], addresses["admin"]
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self, variables, command, *args):
        with open(self.folder / f"{command}.log", "w") as log:
            arguments = [BINARY, "--json", command, *args]
            environment = os.environ | variables
            process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
        self.processes.append(process)
        return process

    def attempts(self):
        """What the gateway counted, by provider."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.admin}/metrics", timeout=PATIENCE) as response:
            lines = response.read().decode().splitlines()
        counted = {}
        for line in lines:
            if line.startswith("understudy_model_attempts_total{"):
                labels, count = line.rsplit(" ", 1)
                provider = labels.split('provider="', 1)[1].split('"', 1)[0]
                counted[provider] = counted.get(provider, 0) + int(float(count))
        return {provider: count for provider, count in counted.items() if count}

    def calls(self):
        """Ends the simulator and returns what it counted, by provider."""
        self.simulator.send_signal(signal.SIGINT)
        report = read_json(self.simulator.stdout)
        self.simulator.wait(PATIENCE)
        return {target.split("/")[0]: calls for target, calls in report["calls"].items() if calls}

    def __exit__(self, *_):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def play(script, python, modules):
    """Runs one client's script; whether all holds, and what is to be told of it."""
    with tempfile.TemporaryDirectory() as folder, Stage(folder) as stage:
        # a proxy of the environment has no business between processes of one machine
        variables = {"UNDERSTUDY_API": stage.api, "UNDERSTUDY_ADMIN": stage.admin, "NO_PROXY": "127.0.0.1"}
        if script.endswith(".py"):
            command = [python, HERE / script]
        else:
            variables["SDK_MODULES"] = str(pathlib.Path(modules).resolve())
            command = ["node", HERE / script]
        try:
            done = subprocess.run(
                command, env=os.environ | variables, capture_output=True, text=True, timeout=SCRIPT_PATIENCE
            )
        except subprocess.TimeoutExpired as late:
            return False, f"does not end\n{late.stdout or ''}"
        lines = done.stdout.splitlines()
        summary = lines[-1] if lines else "says nothing"
        if done.returncode != 0:
            log = (stage.folder / "serve.log").read_text().splitlines()[-30:]
            failures = [line for line in lines[:-1] if not line.startswith("ok ")]
            return False, "\n".join([summary, *failures, done.stderr, *log])
        # what the script knows of attempts it knows from the gateway: that must be what came in
        counted, calls = stage.attempts(), stage.calls()
        if counted != calls:
            return False, f"{summary}\nthe gateway counted {counted}\nthe simulator got {calls}"
        return True, f"{summary}, {sum(calls.values())} upstream calls"


def main():
    python, modules, *names = sys.argv[1:]
    failed = False
    for name in names or CLIENTS:
        holds, told = play(CLIENTS[name], python, modules)
        failed |= not holds
        print(f"{'ok' if holds else 'FAILED':7} {name}: {told}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
