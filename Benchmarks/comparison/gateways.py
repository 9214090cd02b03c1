"""The gateways that the product is compared with."""

from harness.command import Failure
from harness.environment import MeasuredGateway
from harness.gateway import version_of

REFERENCES = ("nginx", "haproxy")
"""The product is compared with the better of these two."""

BASELINES = ("nginx", "haproxy", "envoy", "caddy")


def baseline(environment, name, envoy):
    """A gateway for comparison, by its name."""
    if name == "nginx":
        return MeasuredGateway(environment, name, "nginx.conf", "nginx -c CONFIG", version_of(["nginx", "-v"]))
    if name == "haproxy":
        return MeasuredGateway(environment, name, "haproxy.cfg", "haproxy -f CONFIG", version_of(["haproxy", "-v"]))
    if name == "caddy":
        command = "caddy run --adapter caddyfile --config CONFIG"
        cores = {"GOMAXPROCS": "WORKERS"}
        return MeasuredGateway(environment, name, "Caddyfile", command, version_of(["caddy", "version"]), cores)
    if name == "envoy":
        command = f"{envoy} --config-path CONFIG --concurrency WORKERS --log-level error --use-dynamic-base-id"
        # Its line begins with the path of the binary.
        version = version_of([envoy, "--version"]).rpartition("version: ")[2]
        return MeasuredGateway(environment, name, "envoy.yaml", command, version)
    raise Failure(f"no baseline {name}; choose from {', '.join(BASELINES)}")


def more_routes(count):
    """Routes for the product's configuration, in YAML."""
    return "".join(
        f"  - name: other-{number}\n"
        "    methods: [GET]\n"
        f"    path: /services/area-{number % 50}/resource-{number}/{{id}}\n"
        "    requiresAuthorization: true\n"
        "    inject: [apiToken, bearer]\n"
        for number in range(count)
    )


def file_route(folder):
    """A route for the product's configuration that serves a folder."""
    return (
        "  - name: files\n"
        "    path: /files/*\n"
        "    requiresAuthorization: false\n"
        f"    files: {{ root: {folder} }}\n"
    )
