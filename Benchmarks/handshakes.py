#!/usr/bin/env python3
"""Compares the CPU time per TLS handshake of gateways side by side, and measures the time to the first response.

  handshakes.py                        full and resumed handshakes, post-quantum key exchange, start
  handshakes.py --scenarios start      the start only
  handshakes.py --help

Each connection has one handshake and one request without a session, which is rejected with 401 and needs no upstream.
The client, handshakes.c, is built with the TLS library of the gateway's build, so deploy/build.sh comes first. See
README.md.
"""

import argparse
import dataclasses
import json
import pathlib
import statistics
import subprocess
import sys
import time

from harness.command import Failure, run_command
from harness.environment import BenchmarkEnvironment, MeasuredGateway
from harness.gateway import ROOT, release_build, version_of
from harness.http import request
from harness.measure import MIB, cpu_seconds, resident_bytes
from harness.process import allow_many_files, two_cores

THREADS = 4
WARM_UP_SECONDS = 1
REFERENCES = ("nginx", "haproxy")


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A kind of handshake."""

    title: str
    mode: str = "full"
    group: str = "X25519"
    version: str = "1.3"
    only_product: bool = False


SCENARIOS = {
    "full": Scenario("full handshake, TLS 1.3, X25519"),
    "resumed": Scenario("resumed handshake, TLS 1.3, X25519", mode="resumed"),
    "pq": Scenario("full handshake, TLS 1.3, X25519MLKEM768", group="X25519MLKEM768", only_product=True),
    "full12": Scenario("full handshake, TLS 1.2, X25519", version="1.2"),
    "start": Scenario("time from exec to the first response", only_product=True),
}


@dataclasses.dataclass
class Sample:
    """One measurement of one gateway: CPU time per handshake in microseconds, handshakes per second."""

    cpu: float
    user: float
    rate: float
    busy: float


def build_client(environment):
    """Compiles the client. Returns its path."""
    library = release_build().parent / "CNIOBoringSSL.build"
    objects = sorted(map(str, library.rglob("*.o")))
    headers = ROOT / ".build-release/checkouts/swift-nio-ssl/Sources/CNIOBoringSSL/include"
    if not objects or not headers.is_dir():
        raise Failure(f"no TLS library in {library}; build it: deploy/build.sh")
    client = environment.folder / "handshakes"
    source = pathlib.Path(__file__).with_suffix(".c")
    command = ["clang", "-O2", "-D_GNU_SOURCE", "-I", str(headers), str(source), *objects]
    command += ["-lstdc++", "-lpthread", "-o", str(client)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"clang ended with status {done.returncode}:\n{done.stderr}")
    return client


def load(client, gateway, scenario, seconds, core):
    """Runs the client on its core. Returns its counts."""
    # In TLS 1.2 the list of groups also limits the certificate.
    groups = scenario.group + (":P-256" if scenario.version == "1.2" else "")
    command = [client, gateway.tls_port, seconds, THREADS, scenario.mode, groups, scenario.version]
    done = subprocess.run(
        ["taskset", "--cpu-list", str(core), *map(str, command)], capture_output=True, text=True, timeout=seconds + 30
    )
    if done.returncode != 0:
        raise Failure(f"handshakes ended with status {done.returncode}: {done.stderr}")
    counts = json.loads(done.stdout)
    if counts["failed"] or not counts["handshakes"]:
        raise Failure(f"{gateway.name}: {counts['failed']} connections failed, {counts['handshakes']} did not")
    if counts["group"] != scenario.group:
        raise Failure(f"{gateway.name} selects {counts['group']} instead of {scenario.group}")
    wanted = counts["handshakes"] if scenario.mode == "resumed" else 0
    if counts["resumed"] != wanted:
        raise Failure(f"{gateway.name}: {counts['resumed']} handshakes were resumed, expected {wanted}")
    return counts


def measure(client, gateway, scenario, seconds, cores):
    """Starts the gateway, warms it up, takes one sample and stops it."""
    with gateway.running(cores[0]) as process:
        load(client, gateway, scenario, WARM_UP_SECONDS, cores[1])
        user, system = cpu_seconds(process.pid)
        counts = load(client, gateway, scenario, seconds, cores[1])
        user_after, system_after = cpu_seconds(process.pid)
        count, cpu = counts["handshakes"], user_after - user + system_after - system
        return Sample(
            cpu=cpu / count * 1e6,
            user=(user_after - user) / count * 1e6,
            rate=count / counts["seconds"],
            busy=cpu / counts["seconds"],
        )


def table(scenario, samples):
    """A Markdown table of one scenario."""
    medians = {name: statistics.median(s.cpu for s in found) for name, found in samples.items()}
    haproxy = medians.get("haproxy")
    yield f"### {scenario.title}\n"
    yield "| gateway | µs CPU/handshake | spread | user | ratio to haproxy | per second of one core | measured/s | core busy |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for name, found in samples.items():
        ratio = f"{medians[name] / haproxy:.2f}" if haproxy else "–"
        yield (
            f"| {name} | {medians[name]:.0f} | {min(s.cpu for s in found):.0f}–{max(s.cpu for s in found):.0f} "
            f"| {statistics.median(s.user for s in found):.0f} | {ratio} | {1e6 / medians[name]:,.0f} "
            f"| {statistics.median(s.rate for s in found):,.0f} | {statistics.median(s.busy for s in found):.0%} |"
        )
    yield ""


def start_time(gateway, core):
    """Starts the gateway. Returns milliseconds of wall time to its first response, of CPU time, and resident bytes."""
    begin = time.monotonic()
    process = subprocess.Popen(
        ["taskset", "--cpu-list", str(core), *gateway.command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while True:
            try:
                status = request(f"http://127.0.0.1:{gateway.clear_port}/videos/1", timeout=5)[0]
                break
            except ConnectionError:
                if process.poll() is not None or time.monotonic() - begin > 20:
                    raise Failure(f"no response from the gateway, status {process.returncode}") from None
                time.sleep(0.001)
        elapsed = (time.monotonic() - begin) * 1_000
        if status != 401:
            raise Failure(f"the first response has status {status}, expected 401")
        return elapsed, sum(cpu_seconds(process.pid)) * 1_000, resident_bytes(process.pid)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def report_start(gateway, core, rounds):
    samples = [start_time(gateway, core) for _ in range(rounds + 1)]
    # The first one may read the binary from disk.
    cold, warm = samples[0], samples[1:]
    print("### time from exec to the first response\n")
    print("| | ms | CPU ms | RSS |\n| --- | ---: | ---: | ---: |")
    print(f"| first | {cold[0]:.0f} | {cold[1]:.0f} | {cold[2] / MIB:.1f} MiB |")
    medians = [statistics.median(values) for values in zip(*warm)]
    print(f"| median of {rounds} more | {medians[0]:.0f} | {medians[1]:.0f} | {medians[2] / MIB:.1f} MiB |\n", flush=True)


def baseline(environment, name):
    """A gateway for comparison, by its name."""
    if name == "nginx":
        return MeasuredGateway(environment, name, "nginx.conf", "nginx -c CONFIG", version_of(["nginx", "-v"]))
    return MeasuredGateway(environment, name, "haproxy.cfg", "haproxy -f CONFIG", version_of(["haproxy", "-v"]))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--product", type=pathlib.Path, help="the gateway's binary; default: the release build's")
    parser.add_argument("--baselines", default=",".join(REFERENCES), help="default: %(default)s")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS), help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=5, help="samples of each; default: %(default)s")
    parser.add_argument("--seconds", type=int, default=3, help="length of a sample, 1 to 60; default: %(default)s")
    options = parser.parse_args()
    options.scenarios = options.scenarios.split(",")
    options.baselines = [name for name in options.baselines.split(",") if name]
    if set(options.scenarios) - set(SCENARIOS) or set(options.baselines) - set(REFERENCES):
        parser.error(f"scenarios are {', '.join(SCENARIOS)}; baselines are {', '.join(REFERENCES)}")
    if options.rounds < 1 or not 1 <= options.seconds <= 60:
        parser.error("at least one round, of 1 to 60 seconds")
    return options


def main():
    options = arguments()
    cores = two_cores()
    allow_many_files()
    failed = False
    with BenchmarkEnvironment(upstream_core=cores[1]) as environment:
        product = environment.product(options.product or release_build())
        gateways = [product, *(baseline(environment, name) for name in options.baselines)]
        for gateway in gateways:
            print(f"- {gateway.name}: {gateway.version}")
        print(f"- P-256 certificate; gateway on core {cores[0]}, client on core {cores[1]}; {options.rounds} samples of")
        print(f"  {options.seconds} s each, in turn; medians\n", flush=True)
        client = build_client(environment) if options.scenarios != ["start"] else None
        for name in options.scenarios:
            if name == "start":
                report_start(product, cores[0], options.rounds)
                continue
            scenario, samples = SCENARIOS[name], {}
            for _ in range(options.rounds):
                for gateway in gateways[:1] if scenario.only_product else gateways:
                    try:
                        sample = measure(client, gateway, scenario, options.seconds, cores)
                        samples.setdefault(gateway.name, []).append(sample)
                    except Failure as failure:
                        failed = True
                        print(f"{name}: {failure}", file=sys.stderr)
            print("\n".join(table(scenario, samples)), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    run_command(main)
