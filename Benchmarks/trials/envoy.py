"""Envoy's configuration for one policy and one list of targets (host, port)."""

import json
import os
import pathlib
import shutil

from trials.policy import CONNECT_TIMEOUT, LOOPS

TYPES = "type.googleapis.com/envoy"
MANAGER = f"{TYPES}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
HTTP2 = {
    "initial_stream_window_size": 131_072,
    "initial_connection_window_size": 1_048_576,
    "connection_keepalive": {"interval": "10s", "timeout": "5s"},
}
"""To upstreams: windows and pings as the gateway has them."""


def binary():
    """Envoy from the path, or where compare.sh and upstreams.sh install it; None if there is none."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    installed = cache / "cloakroom-benchmarks/envoy/envoy/_bin/envoy"
    return shutil.which("envoy") or (str(installed) if installed.is_file() else None)


def configure(folder, port, targets, policy):
    """Envoy: fewest requests of two, outlier detection by gateway failures, a retry budget, routes from a file."""
    route = {
        "cluster": "api",
        "timeout": "0s" if policy.has_long_bodies else f"{policy.head_timeout}s",
        "idle_timeout": f"{policy.body_timeout}s",
    }
    if policy.attempts > 1:
        on = ["connect-failure", "refused-stream", "reset", *(["retriable-status-codes"] if policy.statuses else [])]
        route["retry_policy"] = {
            "retry_on": ",".join(on),
            "num_retries": policy.attempts - 1,
            "retriable_status_codes": list(policy.statuses),
            "retry_host_predicate": [
                {
                    "name": "envoy.retry_host_predicates.previous_hosts",
                    "typed_config": {
                        "@type": f"{TYPES}.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"
                    },
                }
            ],
            "host_selection_retry_max_attempts": "5",
        }
    write_routes(folder, route)
    manager = {
        "@type": MANAGER,
        "stat_prefix": "clients",
        "rds": {
            "route_config_name": "routes",
            "config_source": {"path_config_source": {"path": str(folder / "routes.json")}},
        },
        "stream_idle_timeout": f"{policy.body_timeout}s",
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{TYPES}.extensions.filters.http.router.v3.Router"},
            }
        ],
    }
    if policy.max_connections < 1024:
        # Bodies are collected before a connection is used, and have a limit of time.
        manager["request_timeout"] = f"{policy.body_timeout}s"
        manager["http_filters"].insert(0, {
            "name": "envoy.filters.http.buffer",
            "typed_config": {
                "@type": f"{TYPES}.extensions.filters.http.buffer.v3.Buffer",
                "max_request_bytes": 1_048_576,
            },
        })  # fmt: skip
    listener = {
        "name": "clear",
        "address": socket_address("127.0.0.1", port),
        "filter_chains": [
            {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
        ],
    }
    document = {
        "node": {"id": "trial", "cluster": "trial"},
        "static_resources": {"listeners": [listener], "clusters": [cluster_of(targets, policy)]},
    }
    file = folder / "envoy.json"
    file.write_text(json.dumps(document, indent=1))
    options = ["--concurrency", str(LOOPS), "--log-level", "error", "--use-dynamic-base-id"]
    return [binary(), "--config-path", str(file), *options]


def write_routes(folder, route, number=0):
    """Writes the file of routes in one step, as its watcher requires. `number` is a change without effect."""
    virtual_host = {
        "name": "everything",
        "domains": ["*"],
        "routes": [
            {"match": {"path": f"/unused-{number}"}, "direct_response": {"status": 404}},
            {"match": {"prefix": "/"}, "route": route},
        ],
    }
    resource = {
        "@type": f"{TYPES}.config.route.v3.RouteConfiguration",
        "name": "routes",
        "virtual_hosts": [virtual_host],
    }
    new = folder / "routes.json.new"
    new.write_text(json.dumps({"version_info": str(number), "resources": [resource]}))
    new.rename(folder / "routes.json")
    (folder / "route.json").write_text(json.dumps(route))


def socket_address(host, port):
    return {"socket_address": {"address": host, "port_value": port}}


def cluster_of(targets, policy):
    limit = policy.max_connections
    thresholds = {
        "max_connections": limit,
        "max_pending_requests": 1024,
        "max_requests": 16_384,
        "retry_budget": {"budget_percent": {"value": 20.0}, "min_retry_concurrency": 3},
    }
    cluster = {
        "name": "api",
        "connect_timeout": f"{CONNECT_TIMEOUT}s",
        "lb_policy": "ROUND_ROBIN" if policy.balance == "roundRobin" else "LEAST_REQUEST",
        "circuit_breakers": {"thresholds": [thresholds]},
        "type": "STATIC",
        "load_assignment": {
            "cluster_name": "api",
            "endpoints": [
                {"lb_endpoints": [{"endpoint": {"address": socket_address(host, port)}} for host, port in targets]}
            ],
        },
    }
    if policy.name:
        host, port = policy.name_server
        resolver = {
            "@type": f"{TYPES}.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig",
            "resolvers": [socket_address(host, port)],
        }
        cluster |= {
            "type": "STRICT_DNS",
            "dns_refresh_rate": f"{policy.interval}s",
            "dns_lookup_family": "V4_ONLY",
            "respect_dns_ttl": False,
            "typed_dns_resolver_config": {"name": "envoy.network.dns_resolver.cares", "typed_config": resolver},
        }
    if policy.is_ejecting:
        cluster["outlier_detection"] = {
            "interval": "1s",
            "consecutive_gateway_failure": 5,
            "enforcing_consecutive_gateway_failure": 100,
            "enforcing_consecutive_5xx": 0,
            "base_ejection_time": "10s",
            "max_ejection_time": "300s",
            "max_ejection_percent": 50,
        }
    if policy.has_checks:
        cluster["health_checks"] = [{
            "timeout": "0.5s",
            "interval": "1s",
            "no_traffic_interval": "1s",
            "unhealthy_threshold": 2,
            "healthy_threshold": 2,
            "http_health_check": {"path": "/health"},
        }]  # fmt: skip
    if policy.protocol != "http1":
        cluster["typed_extension_protocol_options"] = {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": f"{TYPES}.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": HTTP2},
            }
        }
    return cluster
