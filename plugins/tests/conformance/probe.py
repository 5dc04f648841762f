"""The plugin of the conformance suite, as a child process. What `params.do` of a tool call says is done."""

import json
import os
import sys
import threading
import time

writing = threading.Lock()
cancelled = {}
released = threading.Event()

HOOKS = [
    {"hook": "before_agent_start"},
    {"hook": "before_tool_call", "priority": 5, "timeoutMs": 250, "matcher": ["exec"]},
    {"hook": "before_agent_run"},
    {"hook": "before_prompt_build", "priority": -1},
    {"hook": "before_model_resolve"},
    {"hook": "before_agent_reply"},
    {"hook": "agent_end"},
    {"hook": "before_prompt_build", "requiresToolAuthority": True},
]
ECHO = {"name": "echo", "description": "Says it again.", "parameters": {"type": "object"}, "replaySafe": True}
SERVICES = [{"id": "poller"}, {"id": "broken"}]
ROUTES = [{"path": "/state"}, {"path": "/echo", "match": "prefix", "auth": "gateway"}]
COMMANDS = [{"name": "sync", "description": "Fetches it all."}]
NOTHING = object()
state = "idle"


def say(**line):
    with writing:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def tool_call(call, event):
    params = event["params"]
    do = params["do"]
    if do == "block":
        return {"block": True, "blockReason": "no"}
    if do == "params":
        return {"params": {"a": 2}}
    if do == "null":
        return None
    if do == "throw":
        raise ValueError("thrown\non two lines")
    if do in ("hang", "idle"):
        cancelled[call].wait()
        raise RuntimeError("cancelled")
    if do == "garbage":
        return {"block": "perhaps"}
    if do == "conversation":
        seen = {key: event[key] for key in ("systemPrompt", "messages", "tools") if key in event}
        return {"params": {"seen": seen}}
    if do == "wait":
        released.wait()
        return {"params": {"order": "second"}}
    if do == "release":
        released.set()
        return {"params": {"order": "first"}}
    if do == "crash":
        os._exit(3)
    return NOTHING


def policy(call, event):
    do = event["params"]["do"]
    if do == "deny":
        return {"allow": False, "reason": "no"}
    if do == "allow":
        return {"allow": True}
    if do == "ask":
        return {"requireApproval": {"title": "may it?"}}
    if do == "unheard":
        return {"verdict": "deny"}
    return tool_call(call, event)


def handle(line):
    event, context = line["event"], line["context"]
    if line["type"] == "policy":
        assert line["policy"] == "budget"
        return policy(line["call"], event)
    hook = line["hook"]
    if hook == "before_tool_call":
        return tool_call(line["call"], event)
    if hook == "before_agent_run":
        if event["prompt"] == "stop":
            return {"outcome": "block", "reason": "said so", "status": 451}
        return NOTHING if event["prompt"] == "silence" else {"outcome": "pass"}
    if hook == "before_prompt_build" and "toolAuthority" in context:
        may = {name: str(name in context["toolAuthority"]["tools"]).lower() for name in ("read", "exec")}
        return {"prependContext": f"read {may['read']}, exec {may['exec']}"}
    if hook == "before_prompt_build":
        return {"prependContext": "for " + context["modelId"]}
    if hook == "before_model_resolve":
        return {"modelOverride": "other", "fallbacks": []}
    if hook == "before_agent_reply":
        return {"handled": True, "reply": event["cleanedBody"]}
    return "an observer's answer"


def service(name, turn):
    global state
    if name == "broken":
        raise RuntimeError("as asked")
    state = {"start": "started", "stop": "stopped"}[turn]
    return NOTHING


def route(path, request):
    if path == "/state":
        return {"body": state}
    if request["body"] == "throw":
        raise RuntimeError("as asked")
    if request["body"] == "garbage":
        return {"stauts": 200}
    seen = [request[key] for key in ("method", "path", "query")] + [request["headers"]["x-from"], request["body"]]
    return {"status": 201, "headers": {"X-Probe": "yes"}, "body": seen}


def answer(line):
    if line["type"] == "tool":
        return {"echo": line["params"]}
    if line["type"] == "service":
        return service(line["service"], line["turn"])
    if line["type"] == "route":
        return route(line["route"], line["request"])
    return handle(line)


def work(line):
    call = line["call"]
    try:
        result = answer(line)
        if result is NOTHING:
            say(type="result", call=call)
        else:
            say(type="result", call=call, result=result)
    except Exception as error:
        say(type="error", call=call, message=str(error))
    finally:
        cancelled.pop(call, None)


for text in sys.stdin:
    line = json.loads(text)
    kind = line["type"]
    if kind == "register":
        print("a line that is not of the protocol", flush=True)
        say(type="log", level="info", message="registering")
        serving = {"services": SERVICES, "routes": ROUTES, "commands": COMMANDS}
        say(type="registered", hooks=HOOKS, policies=[{"id": "budget"}] * 2, tools=[ECHO], **serving)
    elif kind == "stop":
        break
    elif kind == "cancel":
        if line["call"] in cancelled:
            cancelled[line["call"]].set()
    elif kind == "hook" and line["event"].get("params", {}).get("do") == "late":
        # on the one thread that reads: whoever comes next has to wait
        time.sleep(0.2)
        say(type="result", call=line["call"], result={"block": True, "blockReason": "too late"})
    else:
        cancelled[line["call"]] = threading.Event()
        threading.Thread(target=work, args=(line,), daemon=True).start()
