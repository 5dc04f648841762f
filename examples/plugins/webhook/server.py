"""A guard as an HTTP service. Needs nothing but Python 3.

    GUARD_SECRET="change me" python3 server.py [port]
"""

import hashlib
import hmac
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = os.environ.get("GUARD_SECRET", "change me").encode()
WORDS = ["rm -rf", "DROP TABLE"]
OLDEST = 300  # seconds


def is_signed(headers, body):
    timestamp = headers.get("x-understudy-timestamp", "")
    if not timestamp.isdigit() or abs(time.time() - int(timestamp)) > OLDEST:
        return False
    signature = hmac.new(SECRET, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest("sha256=" + signature, headers.get("x-understudy-signature", ""))


def before_tool_call(event):
    arguments = json.dumps(event["params"], ensure_ascii=False)
    for word in WORDS:
        if word in arguments:
            # absent unless the operator has set allowConversationAccess
            users = [message for message in event.get("messages", []) if message["role"] == "user"]
            asked = any(word in json.dumps(message["content"], ensure_ascii=False) for message in users)
            also = ", also when the user asks for it" if asked else ""
            return {"block": True, "blockReason": f'The arguments hold "{word}", which is forbidden{also}.'}
    return None


class Hooks(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if not is_signed(self.headers, body):
            return self.answer(401, {"error": "this is not signed with our secret"})
        call = json.loads(body)
        return self.answer(200, before_tool_call(call["event"]))

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8765
    server = ThreadingHTTPServer(("127.0.0.1", port), Hooks)
    print(f"listening on http://127.0.0.1:{server.server_port}/hooks", flush=True)
    server.serve_forever()
