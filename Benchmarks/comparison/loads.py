"""Load generators: wrk and h2load send as fast as responses arrive, open_loop.c at a constant rate."""

import dataclasses
import json
import pathlib
import re
import subprocess

from harness.command import Failure

SOURCE = pathlib.Path(__file__).resolve().parent / "open_loop.c"


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
class Protocol:
    """How clients connect: HTTP/1.1 in clear text or over TLS, or HTTP/2 over TLS by ALPN."""

    name: str
    title: str
    scheme: str
    alpn: str
    connections: int
    streams: int

    def port(self, gateway):
        return gateway.clear_port if self.scheme == "http" else gateway.tls_port


PROTOCOLS = {
    "h1": Protocol("h1", "HTTP/1.1", "http", "http/1.1", 64, 1),
    "h1tls": Protocol("h1tls", "HTTP/1.1 over TLS", "https", "http/1.1", 64, 1),
    "h2": Protocol("h2", "HTTP/2 over TLS", "https", "h2", 16, 8),
}


def header_options(headers):
    return [part for name, value in headers.items() for part in ("--header", f"{name}: {value}")]


def search(pattern, output, program):
    found = re.search(pattern, output)
    if not found:
        raise Failure(f"unexpected output of {program}:\n{output}")
    return found


def run_on_core(command, core, timeout):
    """Runs a load generator and returns its output."""
    pinned = ["taskset", "--cpu-list", str(core), *map(str, command)]
    try:
        done = subprocess.run(pinned, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failure(f"{command[0]} did not end within {timeout} s") from None
    if done.returncode != 0:
        raise Failure(f"{command[0]} ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def wrk(url, headers, connections, seconds, core, expected):
    """HTTP/1.1 in clear text. `expected` is the status of all responses: 200, or a status that is not 2xx or 3xx."""
    command = ["wrk", "--threads", "1", "--connections", connections, "--duration", f"{seconds}s"]
    output = run_on_core([*command, *header_options(headers), url], core, seconds + 30)
    requests = int(search(r"(\d+) requests in", output, "wrk")[1])
    counted = re.search(r"Non-2xx or 3xx responses: (\d+)", output)
    rejected = int(counted[1]) if counted else 0
    unexpected = rejected if expected == 200 else requests - rejected
    broken = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", output)
    unexpected += sum(map(int, broken.groups())) if broken else 0
    return Load(requests, unexpected, seconds)


def h2load(protocol, target, headers, core, expected, seconds=None, requests=None, options=()):
    """Any protocol, for a time or a number of requests. `target` is a URL or the options for several.

    h2load falls back to another protocol without an error, so the protocol is checked.
    """
    command = ["h2load", "--threads=1", f"--clients={protocol.connections}"]
    command += [f"--max-concurrent-streams={protocol.streams}", *options]
    command += ["--h1"] if protocol.alpn == "http/1.1" else []
    command += [f"--duration={seconds}"] if seconds else [f"--requests={requests}"]
    output = run_on_core([*command, *header_options(headers), *target], core, (seconds or 570) + 30)
    used = search(r"Application protocol: (\S+)", output, "h2load")[1]
    if used != protocol.alpn:
        raise Failure(f"the gateway uses {used} instead of {protocol.alpn}")
    classes = search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", output, "h2load").groups()
    responses = sum(map(int, classes))
    failed, timed_out = search(r"(\d+) failed, \d+ errored, (\d+) timeout", output, "h2load").groups()
    # h2load counts responses outside of 2xx and 3xx as failed, although they are complete.
    failures = max(int(failed) - int(classes[2]) - int(classes[3]), 0)
    unexpected = responses - int(classes[expected // 100 - 2]) + failures + int(timed_out)
    lasted, unit = search(r"finished in ([0-9.]+)(ms|us|s)", output, "h2load").groups()
    measured = float(lasted) * {"s": 1, "ms": 1e-3, "us": 1e-6}[unit]
    return Load(responses, unexpected, seconds or measured)


class OpenLoop:
    """The generator for latencies, compiled into the work folder on first use."""

    def __init__(self, folder):
        self.binary = folder / "open_loop"

    def compile(self):
        if self.binary.exists():
            return
        command = ["cc", "-O2", "-o", str(self.binary), str(SOURCE), "-lssl", "-lcrypto", "-lnghttp2"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise Failure(f"{' '.join(command)}:\n{done.stderr}")

    def run(self, protocol, port, path, headers, rate, seconds, core):
        """Returns the counts and the percentiles in microseconds."""
        self.compile()
        command = [self.binary, "--protocol", protocol.name, "--port", port, "--authority", f"localhost:{port}"]
        command += ["--path", path, "--connections", protocol.connections, "--streams", protocol.streams]
        command += ["--rate", f"{rate:.1f}", "--seconds", seconds, "--warm-up", 1, *header_options(headers)]
        return json.loads(run_on_core(command, core, seconds + 40))
