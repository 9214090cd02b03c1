"""A collector of traces (OTLP over HTTP) that can be busy or silent. It only counts spans.

usage: python3 -m scenarios.collector PORT

POST /v1/traces        receives a batch, responds according to the mode
POST /mode/NAME        sets the mode: ok, busy (503), silent (no response)
GET  /count            {"mode", "spans"}

It stands for the OpenTelemetry Collector, which neither Debian nor PyPI has with a receiver of OTLP: so nothing here was checked
against a real one. The format of spans is checked by tests with OpenTelemetry's own definitions (`opentelemetry-proto`).
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
            self.respond(200, json.dumps(state).encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if self.path.startswith("/mode/"):
            with lock:
                state["mode"] = self.path.removeprefix("/mode/")
            return self.respond(200)
        with lock:
            mode = state["mode"]
            if mode == "ok":
                state["spans"] += spans(body)
        if mode == "silent":
            # Longer than any scenario.
            time.sleep(300)
        self.respond(200 if mode == "ok" else 503)

    def respond(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    http.server.ThreadingHTTPServer.daemon_threads = True
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
