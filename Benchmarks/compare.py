#!/usr/bin/env python3
"""Compares the CPU time per request of gateways that do the same work, side by side in one run. See README.md."""

import argparse
import dataclasses
import pathlib
import re
import statistics
import subprocess
import sys

from harness.command import Failure, run_command
from harness.environment import BenchmarkEnvironment, MeasuredGateway
from harness.gateway import release_build, version_of
from harness.http import request
from harness.measure import cpu_seconds, tree_resident_bytes
from harness.process import two_cores

PATH = "/videos/1"
WARM_UP_SECONDS = 1


@dataclasses.dataclass
class Load:
    """The counts of a load generator."""

    requests: int
    unexpected: int
    seconds: float

    @property
    def rate(self):
        return self.requests / self.seconds


@dataclasses.dataclass
class Sample:
    """One measurement of one gateway in one scenario."""

    cpu: float
    user: float
    rate: float
    unexpected: int
    resident: int


class Scenario:
    """A kind of load: 64 persistent connections in clear text."""

    title = "HTTP/1.1, clear text, 64 connections"
    scheme = "http"
    status = 200
    only_product = False

    def headers(self, gateway):
        return {"Cookie": f"theme=dark; {gateway.cookie}"}

    def check(self, gateway):
        """Sends one request, so that a wrong response is reported before a million of them are counted."""
        url = gateway.url(self.scheme, PATH)
        status, _, body = request(url, headers=self.headers(gateway))
        if status != self.status:
            raise Failure(f"{url}: status {status}, expected {self.status}: {body[:200]!r}")

    def load(self, gateway, seconds, core):
        command = ["wrk", "--threads", "1", "--connections", "64", "--duration", f"{seconds}s"]
        output = run_load([*command, *header_options(self.headers(gateway)), gateway.url(self.scheme, PATH)], seconds, core)
        requests = int(search(r"(\d+) requests in", output, "wrk")[1])
        counted = re.search(r"Non-2xx or 3xx responses: (\d+)", output)
        rejected = int(counted[1]) if counted else 0
        unexpected = rejected if self.status == 200 else requests - rejected
        broken = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", output)
        unexpected += sum(map(int, broken.groups())) if broken else 0
        return Load(requests, unexpected, seconds)


class Unauthorized(Scenario):
    """No cookie: 401 without a request to the upstream."""

    title = "401 without a session, clear text, 64 connections"
    status = 401
    only_product = True

    def headers(self, gateway):
        return {}


class OverTLS(Scenario):
    """The same over TLS, with h2load, because TLS costs wrk more than the gateway."""

    title = "HTTP/1.1 over TLS, 64 connections"
    scheme = "https"
    protocol = "http/1.1"
    options = ("--h1", "--clients=64", "--max-concurrent-streams=1")

    def load(self, gateway, seconds, core):
        command = ["h2load", "--threads=1", f"--duration={seconds}", *self.options]
        output = run_load([*command, *header_options(self.headers(gateway)), gateway.url(self.scheme, PATH)], seconds, core)
        used = search(r"Application protocol: (\S+)", output, "h2load")[1]
        if used != self.protocol:
            raise Failure(f"{gateway.name} uses {used} instead of {self.protocol}")
        classes = search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", output, "h2load").groups()
        responses = sum(map(int, classes))
        failed, timed_out = search(r"(\d+) failed, \d+ errored, (\d+) timeout", output, "h2load").groups()
        unexpected = responses - int(classes[0]) + int(failed) + int(timed_out)
        return Load(responses, unexpected, seconds)


class HTTP2(OverTLS):
    """The same over HTTP/2 by ALPN: 128 concurrent requests on fewer connections. h2load falls back without an error."""

    title = "HTTP/2 over TLS, 16 connections of 8 streams"
    protocol = "h2"
    options = ("--clients=16", "--max-concurrent-streams=8")


SCENARIOS = {"h1": Scenario(), "h1tls": OverTLS(), "h2": HTTP2(), "unauthorized": Unauthorized()}
DEFAULT_SCENARIOS = "h1,h1tls,h2,unauthorized"
# The product is compared with the better of these two.
REFERENCES = ("nginx", "haproxy")


def header_options(headers):
    return [part for name, value in headers.items() for part in ("--header", f"{name}: {value}")]


def search(pattern, output, program):
    found = re.search(pattern, output)
    if not found:
        raise Failure(f"unexpected output of {program}:\n{output}")
    return found


def run_load(command, seconds, core):
    """Runs a load generator on its core, with a timeout."""
    try:
        done = subprocess.run(
            ["taskset", "--cpu-list", str(core), *command], capture_output=True, text=True, timeout=seconds + 30
        )
    except subprocess.TimeoutExpired:
        raise Failure(f"{command[0]} did not end within {seconds + 30} s") from None
    if done.returncode != 0:
        raise Failure(f"{command[0]} ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def measure(gateway, scenario, seconds, cores):
    """Starts the gateway, warms it up, takes one sample and stops it."""
    gateway_core, load_core = cores
    with gateway.running(gateway_core) as process:
        scenario.check(gateway)
        scenario.load(gateway, WARM_UP_SECONDS, load_core)
        user, system = cpu_seconds(process.pid)
        load = scenario.load(gateway, seconds, load_core)
        user_after, system_after = cpu_seconds(process.pid)
        if not load.requests:
            raise Failure("no response")
        cpu = user_after - user + system_after - system
        return Sample(
            cpu=cpu / load.requests * 1e6,
            user=(user_after - user) / load.requests * 1e6,
            rate=load.rate,
            unexpected=load.unexpected,
            resident=tree_resident_bytes(process.pid),
        )


class Report:
    """The samples, and their tables."""

    def __init__(self):
        self.samples = {}
        self.failures = {}

    def add(self, scenario, gateway, sample):
        self.samples.setdefault((scenario, gateway), []).append(sample)

    def fail(self, scenario, gateway, reason):
        self.failures[scenario, gateway] = reason

    def is_valid(self, scenario, gateway):
        samples = self.samples.get((scenario, gateway))
        return bool(samples) and not any(s.unexpected for s in samples) and (scenario, gateway) not in self.failures

    def cpu(self, scenario, gateway):
        """The median CPU time per request in microseconds, or nothing without a valid sample."""
        if not self.is_valid(scenario, gateway):
            return None
        return statistics.median(sample.cpu for sample in self.samples[scenario, gateway])

    def reference(self, scenario):
        return min(filter(None, (self.cpu(scenario, name) for name in REFERENCES)), default=None)

    def table(self, scenario, names):
        """A Markdown table of one scenario."""
        if SCENARIOS[scenario].only_product:
            against, of = self.cpu("h1", "cloakroom"), "forwarded"
        else:
            against, of = self.reference(scenario), "better of " + " and ".join(REFERENCES)
        yield f"### {SCENARIOS[scenario].title}\n"
        yield f"| gateway | µs CPU/request | spread | user | ratio to {of} | requests/s | unexpected | RSS |"
        yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
        for name in names:
            samples = self.samples.get((scenario, name))
            if not samples:
                if (scenario, name) in self.failures:
                    yield f"| {name} | **invalid**: no sample | | | | | | |"
                continue
            cpu = statistics.median(s.cpu for s in samples)
            valid = self.is_valid(scenario, name)
            ratio = f"{cpu / against:.2f}" if valid and against else "–" if valid else "**invalid**"
            yield (
                f"| {name} | {cpu:.1f} | {min(s.cpu for s in samples):.1f}–{max(s.cpu for s in samples):.1f} "
                f"| {statistics.median(s.user for s in samples):.1f} | {ratio} "
                f"| {statistics.median(s.rate for s in samples):,.0f} | {sum(s.unexpected for s in samples)} "
                f"| {statistics.median(s.resident for s in samples) / 2**20:.0f} MiB |"
            )
        yield ""


def baseline(environment, name, options):
    """A gateway for comparison, by its name."""
    if name == "nginx":
        return MeasuredGateway(environment, name, "nginx.conf", "nginx -c CONFIG", version_of(["nginx", "-v"]))
    if name == "haproxy":
        return MeasuredGateway(environment, name, "haproxy.cfg", "haproxy -f CONFIG", version_of(["haproxy", "-v"]))
    if name == "caddy":
        command = "caddy run --adapter caddyfile --config CONFIG"
        one_core = {"GOMAXPROCS": "1"}
        return MeasuredGateway(environment, name, "Caddyfile", command, version_of(["caddy", "version"]), one_core)
    if name == "envoy":
        command = f"{options.envoy} --config-path CONFIG --concurrency 1 --log-level error --use-dynamic-base-id"
        return MeasuredGateway(environment, name, "envoy.yaml", command, version_of([options.envoy, "--version"]))
    raise Failure(f"no baseline {name}; choose from nginx, haproxy, caddy, envoy")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--product", type=pathlib.Path, help="the gateway's binary; default: the release build's")
    parser.add_argument("--no-product", action="store_true", help="measure only the baselines")
    parser.add_argument("--only-product", action="store_true", help="measure only the product, to profile it")
    parser.add_argument(
        "--baselines", default="nginx,haproxy", help="of nginx, haproxy, envoy, caddy; default: %(default)s"
    )
    parser.add_argument("--envoy", default="envoy", help="Envoy's binary")
    known = ", ".join(SCENARIOS)
    parser.add_argument("--scenarios", default=DEFAULT_SCENARIOS, help=f"of {known}; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=5, help="samples of each; default: %(default)s")
    parser.add_argument("--seconds", type=int, default=4, help="length of a sample, 1 to 60; default: %(default)s")
    options = parser.parse_args()
    if options.rounds < 1 or not 1 <= options.seconds <= 60:
        parser.error("at least one round, of 1 to 60 seconds")
    options.scenarios = options.scenarios.split(",")
    for name in options.scenarios:
        if name not in SCENARIOS:
            parser.error(f"no scenario {name}; choose from {known}")
    options.baselines = [] if options.only_product else [name for name in options.baselines.split(",") if name]
    if options.only_product and options.no_product:
        parser.error("--only-product and --no-product leave nothing to measure")
    return options


def main():
    options = arguments()
    cores = two_cores()
    report = Report()
    with BenchmarkEnvironment(upstream_core=cores[1]) as environment:
        gateways = [] if options.no_product else [environment.product(options.product or release_build())]
        gateways += [baseline(environment, name, options) for name in options.baselines]
        names = [gateway.name for gateway in gateways]
        for gateway in gateways:
            print(f"- {gateway.name}: {gateway.version}")
        print(f"- wrk: {version_of(['wrk', '--version'])}")
        print(f"- h2load: {version_of(['h2load', '--version'])}")
        print(f"- upstream: {version_of(['nginx', '-v'])}")
        print(f"- gateway on core {cores[0]}, load and upstream on core {cores[1]}; {options.rounds} samples of")
        print(f"  {options.seconds} s each, in turn; medians\n", flush=True)
        for scenario in options.scenarios:
            # In turn, so that other load on the machine affects all gateways equally.
            for _ in range(options.rounds):
                for gateway in gateways:
                    if SCENARIOS[scenario].only_product and gateway.name != "cloakroom":
                        continue
                    try:
                        sample = measure(gateway, SCENARIOS[scenario], options.seconds, cores)
                        report.add(scenario, gateway.name, sample)
                    except Failure as failure:
                        report.fail(scenario, gateway.name, failure)
                        print(f"{scenario}, {gateway.name}: {failure}", file=sys.stderr)
            print("\n".join(report.table(scenario, names)), flush=True)
    measured = [key for key in [*report.samples, *report.failures]]
    return 0 if all(report.is_valid(*key) for key in measured) else 1


if __name__ == "__main__":
    run_command(main)
