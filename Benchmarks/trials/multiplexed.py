"""Trial 9: HTTP/2 to origins of several makes: many requests, few streams, connections that end often."""

import collections
import json
import math
import re
import shutil
import subprocess
import time

from harness.command import Failure
from harness.gateway import make_certificate
from harness.measure import precise_cpu_seconds
from harness.ports import free_port
from harness.process import Process
from trials import envoy
from trials.policy import Policy
from trials.trial import Trial

CLIENTS = 32
BODY = 650


class Multiplexed(Trial):
    """Clients of HTTP/1.1, one origin of HTTP/2."""

    contenders = ("cloakroom", "envoy", "haproxy")
    policy = Policy(protocol="h2c")
    has_load = False

    def adapt(self, lane):
        if lane.contender == "cloakroom" and self.options.baseline:
            raise Failure("HTTP/2 to upstreams needs keys that older versions reject")
        if not shutil.which("wrk"):
            raise Failure("wrk is missing: deploy/packages.sh wrk=wrk")
        lane.origins = []
        port = free_port()
        process = Process("origin", self.command(lane.folder, port), lane.folder / "origin.log")
        lane.helpers.append(process)
        process.wait_for_port(port)
        lane.names = [("127.0.0.1", port)]

    def command(self, folder, port):
        raise NotImplementedError

    def script(self, lane):
        """wrk has no number of requests, so it runs for a second at a time."""
        before = precise_cpu_seconds(lane.gateway.pid)
        deadline = time.monotonic() + 300
        facts = collections.Counter()
        while facts["requests"] < self.options.h2_requests and time.monotonic() < deadline:
            command = ["wrk", "-t", "1", "-c", str(CLIENTS), "-d", "1s", f"http://127.0.0.1:{lane.port}/document"]
            text = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
            found = re.search(r"(\d+) requests in", text)
            if not found:
                raise Failure(f"wrk: {text[-300:]}")
            facts["requests"] += int(found[1])
            if found := re.search(r"Non-2xx or 3xx responses: (\d+)", text):
                facts["unexpected"] += int(found[1])
            if found := re.search(r"connect (\d+), read (\d+), write (\d+), timeout (\d+)", text):
                facts["cut"] += sum(int(each) for each in found.groups())
        lane.facts["cpu"] = (precise_cpu_seconds(lane.gateway.pid) - before) / max(1, facts["requests"]) * 1e6
        lane.facts |= {"requests": facts["requests"], "unexpected": facts["unexpected"], "cut": facts["cut"]}

    def judge(self, lane, machine):
        facts = lane.facts
        figures = f"{facts['unexpected']} other statuses, {facts['cut']} connections cut or silent"
        figures += f", of {facts['requests']} requests"
        is_complete = facts["requests"] >= self.options.h2_requests and not facts["unexpected"] and not facts["cut"]
        lane.goal(f"{self.options.h2_requests} requests, 0 errors", is_complete, figures)

    def row(self, lane):
        failed = lane.facts["unexpected"] + lane.facts["cut"]
        unknown = {"p50": math.nan, "p99": math.nan, "attempts": math.nan}
        return {"errors": failed, "victims": failed, **unknown, "cpu": lane.facts["cpu"]}


class Nghttpd(Multiplexed):
    name = "9 nghttpd"
    title = "HTTP/2 to nghttpd with at most 10 streams a connection"

    def command(self, folder, port):
        if not shutil.which("nghttpd"):
            raise Failure("nghttpd is missing: deploy/packages.sh nghttpd=nghttp2-server")
        (folder / "document").write_bytes(b"x" * BODY)
        return ["nghttpd", "--no-tls", "-a", "127.0.0.1", "-m", "10", "-d", str(folder), str(port)]


NGINX = """
worker_processes 1;
daemon off;
pid {folder}/origin.pid;
error_log {folder}/origin-error.log crit;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_requests {requests};
{paths}
    server {{
        listen 127.0.0.1:{port} {options};
        ssl_certificate {folder}/certificate.pem;
        ssl_certificate_key {folder}/key.pem;
        # Over TLS, HTTP/1.1 could be negotiated instead.
        if ($server_protocol != "HTTP/2.0") {{ return 505; }}
        location / {{ return 200 "{body}"; }}
    }}
}}
"""


def nginx_origin(folder, port, options, requests):
    make_certificate(folder)
    paths = "\n".join(
        f"    {name}_temp_path {folder}/origin-{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file = folder / "origin.conf"
    file.write_text(
        NGINX.format(folder=folder, port=port, options=options, requests=requests, paths=paths, body="x" * BODY)
    )
    return ["nginx", "-c", str(file)]


class Nginx(Multiplexed):
    name = "9 nginx"
    title = "HTTP/2 to nginx, which ends a connection after 100 requests"

    def command(self, folder, port):
        return nginx_origin(folder, port, "http2", 100)


class NginxOverTLS(Multiplexed):
    name = "9 nginx, TLS"
    title = "the same over TLS"
    contenders = ("cloakroom",)
    policy = Policy(protocol="http2")

    def adapt(self, lane):
        super().adapt(lane)
        lane.names = [("localhost", lane.names[0][1])]
        lane.changes = {"upstream": {"tls": {"caFile": str(lane.folder / "certificate.pem")}}}

    def command(self, folder, port):
        return nginx_origin(folder, port, "ssl http2", 100)


class HAProxyOrigin(Multiplexed):
    name = "9 HAProxy"
    title = "HTTP/2 to HAProxy"

    def command(self, folder, port):
        file = folder / "origin.cfg"
        file.write_text(f"""
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend all
    bind 127.0.0.1:{port} proto h2
    http-request return status 200 content-type text/plain string "{"x" * BODY}"
""")
        return ["haproxy", "-f", str(file)]


class EnvoyOrigin(Multiplexed):
    name = "9 Envoy"
    title = "HTTP/2 to Envoy"

    def command(self, folder, port):
        if not envoy.binary():
            raise Failure("Envoy is missing: Benchmarks/upstreams.sh installs it")
        manager = {
            "@type": envoy.MANAGER,
            "stat_prefix": "origin",
            "codec_type": "HTTP2",
            "route_config": {
                "virtual_hosts": [{
                    "name": "all", "domains": ["*"],
                    "routes": [{
                        "match": {"prefix": "/"},
                        "direct_response": {"status": 200, "body": {"inline_string": "x" * BODY}},
                    }],
                }],
            },
            "http_filters": [{
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{envoy.TYPES}.extensions.filters.http.router.v3.Router"},
            }],
        }  # fmt: skip
        filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
        listener = {
            "name": "all",
            "address": envoy.socket_address("127.0.0.1", port),
            "filter_chains": [{"filters": filters}],
        }
        file = folder / "origin.json"
        file.write_text(json.dumps({"static_resources": {"listeners": [listener]}}))
        options = ["--concurrency", "1", "--log-level", "error", "--use-dynamic-base-id"]
        return [envoy.binary(), "--config-path", str(file), *options]


TRIALS = (Nghttpd, Nginx, NginxOverTLS, HAProxyOrigin, EnvoyOrigin)
