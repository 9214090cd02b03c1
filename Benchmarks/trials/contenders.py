"""Configurations of the gateways that take part, for one policy and one list of targets (host, port)."""

import shutil

from harness.command import Failure
from harness.gateway import version_of, write_configuration
from trials import envoy
from trials.policy import CONNECT_TIMEOUT, LOOPS

PEERS = ("envoy", "haproxy", "nginx")


def milliseconds(seconds):
    return f"{round(seconds * 1000)}ms"


def installed():
    """The peers that are on this machine."""
    return [name for name in PEERS if (envoy.binary() if name == "envoy" else shutil.which(name))]


# Cloakroom


def gateway(folder, port, admin_port, targets, policy, is_baseline, binary, changes):
    """Cloakroom: keys are written only where the policy differs from the defaults.

    With `is_baseline` the keys that older versions reject are omitted. `changes` are further keys, merged one level
    deep; `upstream` changes the upstream.
    """
    scheme = "https" if policy.protocol == "http2" else "http"
    urls = [f"{scheme}://{host}:{each}" for host, each in targets]
    upstream = {"targets": urls, "pool": {"maxConnections": policy.max_connections}}
    if not is_baseline:
        upstream |= new_keys(policy)
    # All clients have one address. A cancelled request counts for it until its stream at the upstream is closed.
    limits = {"connectionsPerAddress": 20_000, "inFlightPerAddress": 0, "body": "1GiB"}
    config = {
        "listeners": [{"address": f"127.0.0.1:{port}", "http2": policy.listens == "h2c"}],
        "admin": {"address": f"127.0.0.1:{admin_port}"},
        "upstreams": {"api": upstream},
        "routes": [
            {"name": "all", "methods": ["GET", "POST"], "path": "/*", "upstream": "api", "requiresAuthorization": False}
        ],
        "limits": limits,
        "timeouts": {
            "connect": milliseconds(CONNECT_TIMEOUT),
            "responseHead": milliseconds(policy.head_timeout),
            "bodyIdle": milliseconds(policy.body_timeout),
        },
        "session": {"cookie": {"name": "cloakroom", "secure": False}},
        "logging": {"accessLog": False},
        "tracing": {"exporter": "none"},
        "eventLoops": LOOPS,
    }
    upstream |= changes.pop("upstream", {})
    for key, value in changes.items():
        config[key] = {**config.get(key, {}), **value} if isinstance(value, dict) else value
    file = write_configuration(folder / "cloakroom.yaml", config)
    return [str(binary), "serve", "--config", str(file)]


def new_keys(policy):
    keys = {}
    if policy.protocol != "http1":
        keys["protocol"] = policy.protocol
    if policy.balance != "latency":
        keys["balance"] = {"policy": policy.balance}
    retry = {"attempts": policy.attempts} if policy.attempts != 2 else {}
    if policy.statuses:
        retry["statuses"] = list(policy.statuses)
    if retry:
        keys["retry"] = retry
    if not policy.is_ejecting:
        keys["eject"] = {"consecutive": 0, "share": 0}
    if policy.has_checks:
        keys["health"] = {"path": "/health", "interval": "1s", "timeout": "500ms", "fall": 2}
    if policy.name:
        keys["dns"] = {"interval": milliseconds(policy.interval), "keep": milliseconds(2)}
    return keys


# Peers


def haproxy(folder, port, targets, policy):
    """HAProxy: fewest connections, checks each second, and traffic that is observed too."""
    conditions = ["conn-failure", "empty-response", *map(str, policy.statuses)]
    balance = "roundrobin" if policy.balance == "roundRobin" else "leastconn"
    protocol = " proto h2" if policy.protocol == "h2c" else ""
    server = f"pool-max-conn {policy.max_connections}{protocol}"
    if policy.protocol == "http1":
        server += " check inter 1s fall 2 rise 2"
    if policy.is_ejecting and policy.protocol == "http1":
        server += " observe layer7 error-limit 5 on-error mark-down"
    if policy.max_connections < 1024:
        server += f" maxconn {policy.max_connections // max(1, len(targets))}"
    if policy.name:
        host, dns_port = policy.name_server
        resolvers = f"""
resolvers names
    nameserver trial {host}:{dns_port}
    resolve_retries 2
    timeout resolve {milliseconds(policy.interval)}
    timeout retry 500ms
    hold valid {milliseconds(policy.interval)}
    hold obsolete 2s
"""
        servers = (
            f"    server-template s 3 {policy.name}:{targets[0][1]} resolvers names resolve-prefer ipv4 init-addr none"
        )
    else:
        resolvers = ""
        servers = "\n".join(f"    server s{number} {host}:{each}" for number, (host, each) in enumerate(targets))
    text = f"""
global
    nbthread {LOOPS}
    maxconn 8192
    stats socket {folder}/haproxy.sock level admin expose-fd listeners
defaults
    mode http
    option http-keep-alive
    option abortonclose
    http-reuse always
    timeout connect {milliseconds(CONNECT_TIMEOUT)}
    timeout client {milliseconds(policy.body_timeout)}
    timeout server {milliseconds(policy.body_timeout if policy.has_long_bodies else policy.head_timeout)}
    timeout http-request {milliseconds(policy.body_timeout)}
    timeout http-keep-alive 60s
    timeout queue 10s
    timeout check 500ms
    {"option redispatch 1" if policy.attempts > 1 else ""}
    retries {policy.attempts - 1}
    retry-on {" ".join(conditions) if policy.attempts > 1 else "none"}
{resolvers}
frontend clients
    bind 127.0.0.1:{port} backlog 4096 {"proto h2" if policy.listens == "h2c" else ""}
    {"option http-buffer-request" if policy.max_connections < 1024 else ""}
    default_backend api
backend api
    balance {balance}
    option httpchk GET /health
    default-server {server}
{servers}
"""
    file = folder / "haproxy.cfg"
    file.write_text(text)
    return ["haproxy", "-W", "-f", str(file)]


def nginx(folder, port, targets, policy):
    """nginx: fewest connections, passive checks by its defaults (one failure in 10 s)."""
    if policy.name or policy.protocol != "http1":
        raise Failure("nginx 1.22 has neither upstreams that follow DNS nor HTTP/2 to upstreams")
    if policy.attempts > 1:
        again = " ".join(["error", *(f"http_{status}" for status in policy.statuses)])
    else:
        again = "off"
    limit = f" max_conns={policy.max_connections // len(targets)}" if policy.max_connections < 1024 else ""
    failures = "" if policy.is_ejecting else " max_fails=0"
    servers = "\n".join(f"        server {host}:{each}{limit}{failures};" for host, each in targets)
    paths = "\n".join(
        f"    {name}_temp_path {folder}/nginx-{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    text = f"""
worker_processes {LOOPS};
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log crit;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    keepalive_timeout 600s;
    keepalive_requests 1000000000;
    client_max_body_size 0;
    client_header_timeout {milliseconds(policy.body_timeout)};
    client_body_timeout {milliseconds(policy.body_timeout)};
    send_timeout {milliseconds(policy.body_timeout)};
{paths}
    upstream api {{
        zone api 256k;
        {"" if policy.balance == "roundRobin" else "least_conn;"}
{servers}
        keepalive 64;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=4096 reuseport;
        location / {{
            proxy_pass http://api;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_connect_timeout {milliseconds(CONNECT_TIMEOUT)};
            proxy_read_timeout {milliseconds(policy.head_timeout)};
            proxy_next_upstream {again};
            proxy_next_upstream_tries {policy.attempts};
        }}
    }}
}}
"""
    file = folder / "nginx.conf"
    file.write_text(text)
    return ["nginx", "-c", str(file)]


COMMANDS = {"envoy": envoy.configure, "haproxy": haproxy, "nginx": nginx}


def version(name, binary):
    """The version of a contender, or why it cannot take part."""
    if name == "cloakroom":
        return version_of([str(binary), "--version"])
    if name == "envoy":
        return version_of([envoy.binary() or "envoy", "--version"]).rpartition("version: ")[2].partition("/")[2]
    return version_of([name, "-v"])
