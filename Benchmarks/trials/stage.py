"""Where a trial takes place: origin, gateway, samples of its memory, probes that see whether others are served."""

import contextlib
import json
import math
import os
import pathlib
import re
import resource
import shutil
import sys
import tempfile
import threading
import time

import rig as rigs
from rig import Failure, Process
from trials import http1

MIB = 2**20


class Verdict:
    """Statements, and whether they hold. `holds` prints each as it is found out."""

    def __init__(self):
        self.failed = 0
        self.said = 0

    def holds(self, statement, is_true, figures=""):
        self.said += 1
        self.failed += not is_true
        print(f"{'PASS' if is_true else 'FAIL'}  {statement}{': ' if figures else ''}{figures}", flush=True)
        return is_true

    @staticmethod
    def figure(text):
        print(f"      {text}", flush=True)


def raise_file_limit(wanted=65_536):
    """Raises the limit on open files of this process and those that it starts, beyond the hard one if it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(hard, wanted), max(hard, wanted)))
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Gateway:
    """A running gateway."""

    def __init__(self, process, port, tls_port, admin_port):
        self.process, self.port, self.tls_port, self.admin_port = process, port, tls_port, admin_port

    @property
    def pid(self):
        return self.process.pid

    def resident(self):
        """Its resident memory in bytes. Unlike rig's, of this process alone: it is asked for ten times a second."""
        try:
            status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            raise Failure(f"the gateway has ended\n{self.process.last_lines()}") from None
        found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
        return int(found[1]) * 1024 if found else 0

    def warnings(self):
        """What it has warned of so far."""
        lines = pathlib.Path(self.process.log).read_text(errors="replace").splitlines()
        return [line for line in lines if '"level":"warning"' in line]

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def metric(self, name, **labels):
        """The sum of all series of a name that have these labels."""
        _, _, text = rigs.request(f"http://127.0.0.1:{self.admin_port}/metrics")
        total = 0
        for line in text.decode().splitlines():
            series, _, value = line.rpartition(" ")
            has_labels = all(f'{label}="{wanted}"' in series for label, wanted in labels.items())
            if series.partition("{")[0] == name and has_labels:
                total += float(value)
        return total

    def settles(self, what, wanted, seconds):
        """Waits until a function of the gateway is at most `wanted`; returns what it last was."""
        deadline = time.monotonic() + seconds
        while (value := what()) > wanted and time.monotonic() < deadline:
            time.sleep(0.1)
        return value


def route(name, path, upstream, methods):
    return {"name": name, "methods": methods, "path": path, "upstream": upstream, "requiresAuthorization": False}


class Stage:
    """A work folder with certificate and origin; gateways are started in it."""

    def __init__(self, binary):
        if not pathlib.Path(binary).is_file():
            raise Failure(f"there is no {binary}; build it: deploy/build.sh")
        self.binary = str(binary)
        self.origin_port, self.probe_port = rigs.free_ports(2)
        self.started = 0

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cloakroom-trial-"))
        self.ends = contextlib.ExitStack()
        try:
            # nginx's workers give up root, and need to get in.
            self.folder.chmod(0o755)
            rigs.make_certificate(self.folder)
            # A second one for the probes, so that what makes the first one late does not make them late.
            for port in (self.origin_port, self.probe_port):
                self.python("trials.origin", str(port), port=port)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.ends.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def process(self, name, command, port, environment=None, log=None):
        """Starts something that listens on a port, and ends with the stage."""
        self.started += 1
        log = log or self.folder / f"{self.started}-{name}.log"
        process = Process(name, command, None, log, environment)
        self.ends.callback(process.stop)
        process.wait_for(port)
        return process

    def python(self, module, *arguments, port):
        environment = {"PYTHONPATH": str(rigs.HERE), "PYTHONDONTWRITEBYTECODE": "1"}
        return self.process(module, [sys.executable, "-m", module, *arguments], port, environment)

    def gateway(self, upstream_port=None, ports=None, warm_up=True, log=None, take_over=False, **changes):
        """Starts a gateway that forwards everything; `changes` are keys of its configuration, `log` a pipe for it."""
        flags = ["--take-over"] if take_over else []
        port, tls_port, admin_port = ports or rigs.free_ports(3)
        files = {"certificateFile": str(self.folder / "certificate.pem"), "keyFile": str(self.folder / "key.pem")}
        config = {
            "listeners": [
                {"address": f"127.0.0.1:{port}"},
                {"address": f"127.0.0.1:{tls_port}", "tls": files},
            ],
            "admin": {"address": f"127.0.0.1:{admin_port}"},
            "upstreams": {
                "api": {"targets": [f"http://127.0.0.1:{upstream_port or self.origin_port}"]},
                "probe": {"targets": [f"http://127.0.0.1:{self.probe_port}"], "pool": {"idleTimeout": "1s"}},
            },
            "session": {"cookie": {"name": "cloakroom", "secure": False}},
            "routes": [
                route("all", "/*", "api", ["GET", "POST", "PUT", "DELETE", "OPTIONS"]),
                route("probe", "/probe/{number}", "probe", ["GET"]),
            ],
            "eventLoops": 2,
        }
        for key, value in changes.items():
            config[key] = {**config.get(key, {}), **value} if isinstance(value, dict) else value
        # The upstream's name stays the same whatever is said of it.
        config["upstreams"]["api"] |= config.pop("upstream", {})
        file = self.folder / f"gateway-{self.started}.yaml"
        # JSON is YAML.
        file.write_text(json.dumps(config, indent=2))
        process = self.process("gateway", [self.binary, "serve", "--config", str(file), *flags], admin_port, log=log)
        gateway = Gateway(process, port, tls_port, admin_port)
        process.wait_for(port)
        with http1.Client(port) as client:
            client.get("/warm-up")
            if warm_up and client.status != 200:
                raise Failure(f"the gateway's first answer is a {client.status}\n{process.last_lines()}")
        return gateway

    @staticmethod
    def free_port():
        return rigs.free_ports(1)[0]

    def stop(self, gateway):
        """Ends a gateway before the stage does."""
        return gateway.process.stop()


class Samples(threading.Thread):
    """Resident memory every 100 ms while a block runs."""

    def __init__(self, gateway):
        super().__init__(daemon=True)
        self.gateway, self.over = gateway, threading.Event()
        self.before = self.highest = gateway.resident()
        self.count = 0
        self.failure = None

    def run(self):
        while not self.over.wait(0.1):
            try:
                self.highest = max(self.highest, self.gateway.resident())
            except Failure as failure:
                self.failure = failure
                return
            self.count += 1

    @property
    def growth(self):
        return self.highest - self.before

    def __str__(self):
        return (
            f"RSS {self.before / MIB:.1f} MiB, at most {self.highest / MIB:.1f} MiB "
            f"(+{self.growth / MIB:.1f}) in {self.count} samples"
        )

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, *_):
        self.over.set()
        self.join()
        if self.failure and kind is None:
            raise self.failure


class Probes(threading.Thread):
    """A client that is like any other: every 50 ms a connection, a request, an answer that has to be right."""

    def __init__(self, gateway):
        super().__init__(daemon=True)
        self.port, self.over = gateway.port, threading.Event()
        self.seconds, self.failures = [], []

    def run(self):
        number = 0
        while not self.over.wait(0.05):
            number += 1
            start = time.monotonic()
            try:
                with http1.Client(self.port, timeout=5) as client:
                    body = client.get(f"/probe/{number}")
                    if client.status != 200 or json.loads(body)["path"] != f"/probe/{number}":
                        self.failures.append(f"{client.status} {body[:80]!r}")
            except (OSError, ValueError, http1.Closed, http1.Truncated, http1.Malformed) as error:
                self.failures.append(repr(error))
            self.seconds.append(time.monotonic() - start)

    def percentile(self, share):
        return sorted(self.seconds)[max(0, math.ceil(len(self.seconds) * share) - 1)] if self.seconds else math.inf

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()

    def judge(self, verdict, statement, p99=0.5, highest=3.0):
        """Says whether the others were served: no failure, and no answer that came late (seconds)."""
        figures = f"{len(self.seconds)} probes, {len(self.failures)} failed, "
        figures += f"p50 {self.percentile(0.5) * 1e3:.1f} ms, p99 {self.percentile(0.99) * 1e3:.1f} ms, "
        figures += f"max {self.percentile(1) * 1e3:.1f} ms"
        for failure in self.failures[:5]:
            verdict.figure(f"probe: {failure}")
        is_served = not self.failures and self.percentile(0.99) <= p99 and self.percentile(1) <= highest
        verdict.holds(statement, is_served and bool(self.seconds), figures)
