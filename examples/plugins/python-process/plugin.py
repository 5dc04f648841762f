"""A guard as a child process: JSON lines on stdin and stdout. Needs nothing but Python 3.

Lines on stderr, and lines on stdout that are not JSON, go to the gateway's log.
"""

import json
import sys


def say(**line):
    print(json.dumps(line), flush=True)


def before_tool_call(event, context, config):
    arguments = json.dumps(event["params"], ensure_ascii=False)
    for word in config.get("words", ["rm -rf"]):
        if word in arguments:
            # absent unless the operator has set allowConversationAccess
            users = [message for message in event.get("messages", []) if message["role"] == "user"]
            asked = any(word in json.dumps(message["content"], ensure_ascii=False) for message in users)
            also = ", also when the user asks for it" if asked else ""
            return {"block": True, "blockReason": f'The arguments hold "{word}", which is forbidden{also}.'}
    return None


def main():
    config = {}
    for text in sys.stdin:
        line = json.loads(text)
        if line["type"] == "register":
            config = line["config"]
            say(type="registered", hooks=[{"hook": "before_tool_call", "timeoutMs": 2000}])
        elif line["type"] == "hook":
            try:
                result = before_tool_call(line["event"], line["context"], config)
                say(type="result", call=line["call"], result=result)
            except Exception as error:  # the gateway blocks the call, as a guard that fails must
                say(type="error", call=line["call"], message=repr(error))
        elif line["type"] == "stop":
            break
        # "cancel" comes too late for a guard that answers at once


main()
