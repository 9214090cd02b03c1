#!/usr/bin/env python3
"""Counts the instructions that the gateway executes for a request, under valgrind's callgrind. See README.md.

The binary must be linked with --static-swift-stdlib: Debian 12's valgrind crashes in the shared libdispatch.
"""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import itertools
import json
import pathlib
import re
import subprocess
import time

from harness.command import Failure, run_command
from harness.environment import TOKEN_SECONDS, BenchmarkEnvironment
from harness.gateway import release_build, require_binary
from harness.http import sign_in
from scenarios import http1, session_helpers
from scenarios.credentials import access_token

IDLE_SECONDS = 3
REFRESH_INTERVAL = 31
LANES = 2
"""Gateways that are measured at the same time: valgrind executes one thread at a time."""


@dataclasses.dataclass
class Scenario:
    """A kind of request, and the connections and streams on which it is repeated."""

    title: str
    scheme: str
    protocol: str
    connections: int = 1
    streams: int = 1
    status: int = 200
    path: str = "/videos/1"
    gateway: str = "product"
    """The function of the environment that makes the gateway."""
    send: str = "load"
    """The method of CountedGateway that sends the requests."""
    share: float = 1
    """The part of --few and --many that is sent: requests of new users take longer."""
    tolerance: float = 0.03
    """Higher where tasks run on several threads: how often they wait for each other differs."""
    is_long: bool = False
    """Whether --check measures it with --long only."""


SCENARIOS = {
    "h1": Scenario("HTTP/1.1", "http", "http/1.1"),
    "h1tls": Scenario("HTTP/1.1 over TLS", "https", "http/1.1"),
    "h2": Scenario("HTTP/2 over TLS, one stream at a time", "https", "h2"),
    "h2-streams": Scenario("HTTP/2 over TLS, 2 connections of 8 streams", "https", "h2", 2, 8),
    "unauthorized": Scenario("HTTP/1.1, 401 without a session", "http", "http/1.1", status=401),
    "provider": Scenario(
        "HTTP/1.1, session of an OpenID Provider", "http", "http/1.1",
        path="/tokens/1", gateway="product_with_provider",
    ),
    "claims": Scenario(
        "HTTP/1.1, session of an OpenID Provider with claims", "http", "http/1.1",
        path="/claims/1", gateway="product_with_provider",
    ),
    "bearer": Scenario(
        "HTTP/1.1, access token of a client", "http", "http/1.1", path="/bearer/1", gateway="product_with_provider",
        send="load_with_token", is_long=True,
    ),
    "unbound": Scenario(
        "HTTP/1.1, session that could have a device key", "http", "http/1.1", gateway="product_with_devices",
        send="load_without_key", is_long=True,
    ),
    "bound": Scenario(
        "HTTP/1.1, session with a device key", "http", "http/1.1", gateway="product_with_devices", is_long=True,
    ),
    "cluster": Scenario(
        "HTTP/1.1, cached session in a Valkey cluster", "http", "http/1.1", gateway="product_with_cluster"
    ),
    "forward-auth": Scenario(
        "HTTP/1.1, decision for another proxy", "http", "http/1.1", gateway="product_that_decides", send="decide"
    ),
    "functions": Scenario(
        "HTTP/1.1, route without functions next to others with them", "http", "http/1.1",
        gateway="product_with_functions", is_long=True,
    ),
    "response-fields": Scenario(
        "HTTP/1.1, response fields of a preset and of the route", "http", "http/1.1", path="/fields/1",
        gateway="product_with_functions", is_long=True,
    ),
    "limit-address": Scenario(
        "HTTP/1.1, rate limit by address", "http", "http/1.1", path="/places/1", gateway="product_with_functions",
        is_long=True,
    ),
    "limit-account": Scenario(
        "HTTP/1.1, rate limit by account", "http", "http/1.1", path="/people/1", gateway="product_with_functions",
        is_long=True,
    ),
    "limit-session": Scenario(
        "HTTP/1.1, rate limit by session", "http", "http/1.1", path="/visits/1", gateway="product_with_functions",
        is_long=True,
    ),
    "sign-in": Scenario(
        "HTTP/1.1, sign-in of a user", "http", "http/1.1", gateway="product_with_users", send="sign_in", share=0.05,
        tolerance=0.08,
    ),
    "refresh": Scenario(
        "HTTP/1.1, request with a token refresh", "http", "http/1.1", gateway="product_with_users", send="refresh",
        share=0.05, tolerance=0.08,
    ),
}


class CountedGateway:
    """The gateway under callgrind: one process for several scenarios, whose counters are set to zero before each load."""

    def __init__(self, gateway, process, output):
        self.gateway, self.process, self.output = gateway, process, output
        self.users, self.cookies = itertools.count(1), []
        self.token = self.unbound = None

    @classmethod
    @contextlib.contextmanager
    def running(cls, environment, binary, kind):
        gateway = getattr(environment, kind)(binary)
        output = gateway.config.with_suffix(".callgrind")
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={output}"]
        with gateway.running(core=None, before=valgrind) as process:
            yield cls(gateway, process, output)

    def count(self, action):
        """The instructions while an action runs, its duration in seconds, and the profile."""
        self.control("--zero")
        start = time.monotonic()
        action()
        duration = time.monotonic() - start
        self.control("--dump")
        profile = max(self.output.parent.glob(f"{self.output.name}.*"), key=lambda file: int(file.suffix[1:]))
        found = re.search(r"^(?:summary|totals): (\d+)", profile.read_text(), re.MULTILINE)
        if not found:
            raise Failure(f"no total in {profile}")
        return int(found[1]), duration, profile

    def control(self, command):
        command = ["callgrind_control", command, str(self.process.pid)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            self.process.check()
            raise Failure(f"{' '.join(command)}: {done.stdout}{done.stderr}")

    def send(self, scenario, requests):
        getattr(self, scenario.send)(scenario, requests)

    def prepare(self, scenario, requests):
        """What must precede the requests and is not counted. A session is not refreshed again within 30 seconds."""
        if scenario.send == "refresh":
            self.sign_in(scenario, requests)
            time.sleep(REFRESH_INTERVAL)

    def sign_in(self, scenario, requests):
        """Signs in new users on one connection."""
        with http1.Client(self.gateway.clear_port) as client:
            for number in itertools.islice(self.users, requests):
                status, body = session_helpers.send_sign_in(client, f"user-{number}@example.com")
                if status != 200:
                    raise Failure(f"sign-in failed with status {status}: {body[:200]!r}")
                self.cookies.append(client.fields["set-cookie"].partition(";")[0])

    def refresh(self, scenario, requests):
        """Sends one request of each of users who have signed in before; the access token of each has expired."""
        with http1.Client(self.gateway.clear_port) as client:
            for _ in range(requests):
                body = client.get(scenario.path, f"Cookie: {self.cookies.pop()}\r\n")
                if client.status != 200:
                    raise Failure(f"a request with a refresh has status {client.status}: {body[:200]!r}")

    def decide(self, scenario, requests):
        """Asks as another proxy does."""
        fields = {"Method": "GET", "Uri": scenario.path, "Host": "app.test", "Proto": "http", "For": "192.0.2.1"}
        lines = [f"X-Forwarded-{name}: {value}" for name, value in fields.items()]
        lines.append(f"Cookie: {self.gateway.cookie}")
        self.load(scenario, requests, f"http://127.0.0.1:{self.gateway.decision_port}/", lines)

    def load_with_token(self, scenario, requests):
        """Sends an access token that the provider has issued to another client than the gateway, and no cookie."""
        self.token = self.token or access_token(f"http://127.0.0.1:{self.gateway.environment.provider_port}")
        self.load(scenario, requests, lines=[f"Authorization: Bearer {self.token}"])

    def load_without_key(self, scenario, requests):
        self.unbound = self.unbound or sign_in(self.gateway.url("http", ""))
        self.load(scenario, requests, lines=[f"Cookie: {self.unbound}"])

    def load(self, scenario, requests, url=None, lines=None):
        """Sends requests; on one connection without concurrency, all runs execute the same steps in the same order."""
        command = ["h2load", f"--npn-list={scenario.protocol}", "--threads=1", f"--requests={requests}"]
        command += [f"--clients={scenario.connections}", f"--max-concurrent-streams={scenario.streams}"]
        command += ["--h1"] if scenario.protocol == "http/1.1" else []
        if lines is None:
            lines = [f"Cookie: {self.gateway.cookie}"] if scenario.status == 200 else []
        for line in lines:
            command += ["--header", line]
        url = url or self.gateway.url(scenario.scheme, scenario.path)
        output = subprocess.run([*command, url], capture_output=True, text=True, timeout=600).stdout
        classes = re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx", output)
        if not classes or int(classes[scenario.status // 100 - 1]) != requests:
            raise Failure(f"not all of {requests} requests have a response with status {scenario.status}:\n{output}")
        if f"Application protocol: {scenario.protocol}" not in output:
            raise Failure(f"the protocol is not {scenario.protocol}:\n{output}")

    def measure(self, scenario, options, idle_rate):
        """Instructions per request, and the profile of a run with many requests.

        The difference between many and few requests excludes the connection. Timers execute instructions for every
        second, however many requests there are: those are subtracted. What remains of such effects only adds
        instructions, so the smallest of several counts is used.
        """
        short, long = (round(number * scenario.share) for number in (options.few, options.many))
        self.prepare(scenario, min(short, 200) + options.repeats * (short + long))
        self.send(scenario, min(short, 200))
        few, many = [], []
        for _ in range(options.repeats):
            for requests, counts in ((short, few), (long, many)):
                total, duration, profile = self.count(lambda requests=requests: self.send(scenario, requests))
                counts.append(total - idle_rate * duration)
        return (min(many) - min(few)) / (long - short), profile


def without_debug_info(environment, binary):
    """A copy that valgrind can read: Debian's version does not support all DWARF of Swift. Symbols are kept."""
    copy = environment.folder / "cloakroom"
    subprocess.run(["strip", "--strip-debug", "-o", str(copy), str(require_binary(binary))], check=True)
    copy.with_name("cloakroom-demo").symlink_to(pathlib.Path(binary).resolve().with_name("cloakroom-demo"))
    return copy


def check(results, file):
    """Compares the results with those of a file. Returns whether none is above the tolerance."""
    expected = json.loads(file.read_text())["instructions"]
    passed = True
    for name, each in results.items():
        if name not in expected:
            print(f"FAIL  {name}: no figure in {file}")
            passed = False
            continue
        change = each / expected[name] - 1
        is_high = change > SCENARIOS[name].tolerance
        passed = passed and not is_high
        print(f"{'FAIL' if is_high else 'PASS'}  {name}: {each:,.0f} instructions/request, {expected[name]:,} expected, {change:+.1%}")
    if not passed:
        print(
            "A request costs more than its tolerance above the committed figure. Find the cause with\n"
            "  Benchmarks/callgrind.sh --scenarios NAME --keep profile && callgrind_annotate profile\n"
            "If the increase is intended, commit the new figures together with the change and its reason:\n"
            f"  Benchmarks/callgrind.sh --update {file}"
        )
    elif any(each / expected[name] - 1 < -SCENARIOS[name].tolerance for name, each in results.items()):
        print(f"Requests have become cheaper. Commit the new figures: Benchmarks/callgrind.sh --update {file}")
    return passed


def update(results, file):
    """Writes the results; figures of other scenarios in the file are kept."""
    kept = json.loads(file.read_text())["instructions"] if file.exists() else {}
    figures = kept | {name: round(each) for name, each in results.items()}
    ordered = {name: figures[name] for name in SCENARIOS if name in figures}
    file.write_text(json.dumps({"instructions": ordered}, indent=4) + "\n")
    print(f"{file} updated")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--product", type=pathlib.Path, help="the gateway's binary; default: the release build's")
    known = ", ".join(SCENARIOS)
    parser.add_argument("--scenarios", help=f"of {known}; default: h1, or all with --update, or those of --check")
    parser.add_argument("--long", action="store_true", help="with --check: all scenarios, not only those of each change")
    parser.add_argument("--tls", dest="scenarios", action="store_const", const="h1tls", help="--scenarios h1tls")
    parser.add_argument("--http2", dest="scenarios", action="store_const", const="h2", help="--scenarios h2")
    parser.add_argument("--few", type=int, default=500, help="requests of the short runs; default: %(default)s")
    parser.add_argument("--many", type=int, default=2_500, help="requests of the long runs; default: %(default)s")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each length; default: %(default)s")
    parser.add_argument("--check", type=pathlib.Path, metavar="FILE", help="fail above the figures of a file and the tolerance")
    parser.add_argument("--update", type=pathlib.Path, metavar="FILE", help="write the figures into the file")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FILE", help="file for a profile, for callgrind_annotate")
    options = parser.parse_args()
    if not 0 < options.few < options.many or options.repeats < 1:
        parser.error("--few must be more than 0 and less than --many, --repeats at least 1")
    default = "h1"
    if options.check or options.update:
        names = [name for name, each in SCENARIOS.items() if options.update or options.long or not each.is_long]
        default = ",".join(names)
    options.scenarios = (options.scenarios or default).replace(" ", "").split(",")
    for name in options.scenarios:
        if name not in SCENARIOS:
            parser.error(f"no scenario {name}; choose from {known}")
    if options.check and not options.check.is_file():
        parser.error(f"no file {options.check}")
    return options


def measure(kind, options):
    """The instructions per request of the scenarios that one gateway serves, and what to print."""
    names = [name for name in options.scenarios if SCENARIOS[name].gateway == kind]
    results, lines = {}, []
    with contextlib.ExitStack() as stack:
        environment = stack.enter_context(BenchmarkEnvironment())
        binary = without_debug_info(environment, options.product or release_build())
        counted = stack.enter_context(CountedGateway.running(environment, binary, kind))
        # After the first requests, the idle gateway executes the same timers as under load.
        counted.prepare(SCENARIOS[names[0]], 200)
        counted.send(SCENARIOS[names[0]], 200)
        idle, duration, _ = counted.count(lambda: time.sleep(IDLE_SECONDS))
        lines.append(f"cloakroom {counted.gateway.version}, {counted.gateway.config.name}")
        lines.append(f"(idle: {idle / duration:,.0f} instructions/s)")
        for name in names:
            results[name], profile = counted.measure(SCENARIOS[name], options, idle / duration)
            lines.append(f"{SCENARIOS[name].title}: {results[name]:,.0f} instructions/request")
        if options.keep:
            options.keep.write_bytes(profile.read_bytes())
    return results, lines


def main():
    options = arguments()
    results = {}
    start = time.monotonic()
    kinds = dict.fromkeys(each.gateway for name, each in SCENARIOS.items() if name in options.scenarios)
    with concurrent.futures.ThreadPoolExecutor(LANES) as lanes:
        for found, lines in lanes.map(lambda kind: measure(kind, options), kinds):
            results |= found
            print(*lines, sep="\n", flush=True)
    print(f"({time.monotonic() - start:.0f} s)")
    if options.update:
        update(results, options.update)
    return 0 if not options.check or check(results, options.check) else 1


if __name__ == "__main__":
    run_command(main)
