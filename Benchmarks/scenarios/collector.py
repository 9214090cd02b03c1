"""A collector of traces (OTLP over HTTP) that can be quick, slow, broken or mute. It counts spans and reads no more.

usage: python3 -m scenarios.collector PORT

POST /v1/traces        takes a batch, as the mode says
POST /mode/NAME        from now on: ok, busy (503), mute (no answer at all)
GET  /count            {"mode", "spans"} so far
"""

import http.server
import json
import sys
import threading
import time

state = {"mode": "ok", "spans": 0}
lock = threading.Lock()


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """Number and bytes of every length-delimited field (https://protobuf.dev/programming-guides/encoding)."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 2:
            length, at = varint(data, at)
            yield tag >> 3, data[at : at + length]
            at += length
        elif kind == 0:
            _, at = varint(data, at)
        else:
            at += 8 if kind == 1 else 4


def spans(request):
    """ExportTraceServiceRequest.resource_spans.scope_spans.spans."""
    return sum(
        1
        for one, resource in fields(request)
        if one == 1
        for two, scope in fields(resource)
        if two == 2
        for three, _ in fields(scope)
        if three == 2
    )


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        with lock:
            self.answer(200, json.dumps(state).encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if self.path.startswith("/mode/"):
            with lock:
                state["mode"] = self.path.removeprefix("/mode/")
            return self.answer(200)
        with lock:
            mode = state["mode"]
            if mode == "ok":
                state["spans"] += spans(body)
        if mode == "mute":
            # Longer than any trial lasts.
            time.sleep(300)
        self.answer(200 if mode == "ok" else 503)

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    http.server.ThreadingHTTPServer.daemon_threads = True
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
