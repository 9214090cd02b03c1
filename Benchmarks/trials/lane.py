"""One gateway in one trial: its origins, its load, and what was observed. All gateways run a trial at the same time."""

import dataclasses
import importlib.util
import json
import math
import signal
import socket
import sys
import time

from harness.command import Failure
from harness.environment import BENCHMARKS
from harness.measure import precise_cpu_seconds
from harness.ports import free_port, free_ports
from harness.process import Process, wait_until
from trials import contenders, envoy
from trials.panel import Panel
from trials.records import Records

ORIGINS = 3
CONNECTIONS = 48
DELAY = 0.005
"""Seconds until an origin responds if nothing is wrong with it."""
VARIABLES = {"PYTHONPATH": str(BENCHMARKS), "PYTHONDONTWRITEBYTECODE": "1"}


@dataclasses.dataclass
class Goal:
    """`is_reached` is None if the load was too short to judge the goal."""

    statement: str
    is_reached: bool | None
    figures: str = ""
    used: float | None = None
    """The figure as a share of its limit; None if the goal has no limit."""


def require_package(name):
    """Fails if Python has no such package: this program does not run in the environment that upstreams.sh makes."""
    if not importlib.util.find_spec(name):
        raise Failure(f"the package {name} is missing: run Benchmarks/upstreams.sh")


class Origin:
    """A process of trials/origin.py that can be killed, frozen and started again on the same port."""

    def __init__(self, folder, name, address="127.0.0.1", port=None):
        self.folder, self.name, self.address = folder, name, address
        self.port = port or free_port()
        self.file = folder / f"panel-{name}"
        self.panel = Panel(self.file, create=True)
        self.panel.delay = DELAY * 1e6
        self.process = None

    def start(self):
        command = [sys.executable, "-m", "trials.origin", self.name, str(self.port), str(self.file), self.address]
        self.process = Process(
            f"origin {self.name}", command, self.folder / f"origin-{self.name}.log", environment=VARIABLES
        )
        wait_until(f"origin {self.name} listens", 20, self.is_listening)
        return self

    def is_listening(self):
        self.process.check()
        with socket.create_connection((self.address, self.port), timeout=1):
            return True

    def kill(self):
        self.process.signal(signal.SIGKILL)
        self.process.process.wait()

    def stop_gracefully(self):
        """Stops as a server does in a restart: it accepts no more, ends idle connections, and completes the others."""
        self.process.signal(signal.SIGQUIT)
        self.process.process.wait(5)

    def freeze(self):
        self.process.signal(signal.SIGSTOP)

    def thaw(self):
        self.process.signal(signal.SIGCONT)

    def stop(self):
        if self.process and self.process.is_running:
            self.kill()


class Lane:
    """`contender` is cloakroom, a peer, or `machine`: the load without a gateway, which shows what the machine does."""

    def __init__(self, contender, folder, policy, options, changes=None):
        self.contender, self.folder, self.policy, self.options = contender, folder, policy, options
        folder.mkdir(parents=True)
        folder.chmod(0o755)
        self.changes = changes or {}
        self.origins = [Origin(folder, str(number)) for number in range(ORIGINS)]
        self.port, self.admin_port = free_ports(2)
        self.gateway = self.load = self.records = None
        self.helpers = []
        """Further processes, which end with the lane."""
        self.before = []
        """Words before the gateway's command."""
        self.names = None
        """Targets by name instead of the origins' addresses."""
        self.facts = {}
        """What the trial's script observed, by name."""
        self.goals = []
        """What was expected of this gateway."""

    # Processes

    def start(self):
        for origin in self.origins:
            origin.start()
        self.start_gateway()

    def targets(self):
        return self.names or [(origin.address, origin.port) for origin in self.origins]

    def start_gateway(self):
        if self.contender == "machine":
            return
        if self.contender == "cloakroom":
            command = contenders.gateway(
                self.folder, self.port, self.admin_port, self.targets(), self.policy,
                self.options.baseline, self.options.product, self.changes,
            )  # fmt: skip
        else:
            command = contenders.COMMANDS[self.contender](self.folder, self.port, self.targets(), self.policy)
        self.gateway = Process(self.contender, [*self.before, *command], self.folder / "gateway.log")
        self.gateway.wait_for_port(self.port)
        # The first checks of health pass before the load begins.
        time.sleep(1.5)
        self.gateway.check()

    def reload(self, number):
        """Applies a configuration that differs in nothing that matters."""
        if self.contender == "cloakroom":
            file = self.folder / "cloakroom.yaml"
            text = file.read_text()
            file.write_text(
                text.replace('"name": "all', '"name": "all-', 1) if number % 2 else text.replace('"all-', '"all')
            )
            self.gateway.signal(signal.SIGHUP)
        elif self.contender == "nginx":
            self.gateway.signal(signal.SIGHUP)
        elif self.contender == "haproxy":
            self.gateway.signal(signal.SIGUSR2)
        elif self.contender == "envoy":
            envoy.write_routes(self.folder, json.loads((self.folder / "route.json").read_text()), number)

    def stop(self):
        if self.load:
            self.load.stop(2)
        if self.gateway:
            self.gateway.stop(5)
        for helper in self.helpers:
            if helper.is_running:
                # One that is frozen would not receive SIGTERM.
                helper.signal(signal.SIGCONT)
            helper.stop(2)
        for origin in self.origins:
            origin.stop()

    # Load

    def start_load(self, seconds, rate, paths=("/work",), timeout=15):
        """Starts the open loop; `self.began` is the monotonic time of its first request."""
        ports = [self.port] if self.gateway else sorted({origin.port for origin in self.origins})
        self.file = self.folder / "records.json"
        arguments = [",".join(map(str, ports)), rate, seconds, CONNECTIONS, timeout, ",".join(paths), self.file]
        command = [sys.executable, "-m", "trials.generator", *map(str, arguments)]
        self.cpu_before = precise_cpu_seconds(self.gateway.pid) if self.gateway else 0
        self.load = Process("generator", command, self.folder / "load.log", environment=VARIABLES)
        first = wait_until("the load starts", 10, lambda: self.load.output().strip())
        if self.gateway:
            self.gateway.check()
        if not first.replace(".", "").isdigit():
            raise Failure(f"the load has failed: {first.splitlines()[-1]}")
        self.began = float(first)
        self.seconds, self.timeout = seconds, timeout

    def at(self, second):
        """Waits until this second of the load."""
        time.sleep(max(0, self.began + second - time.monotonic()))

    def now(self):
        return time.monotonic() - self.began

    def finish_load(self):
        wait_until("the load ends", self.seconds + self.timeout + 10, lambda: not self.load.is_running)
        self.records = Records.read(self.file)
        used = precise_cpu_seconds(self.gateway.pid) - self.cpu_before if self.gateway else 0
        # Time of processes that have ended is missing, so that a reload makes the figure worthless.
        self.facts["cpu"] = used / max(1, self.records.count()) * 1e6 if used > 0 else math.nan

    def attempts(self):
        return sum(origin.panel.requests for origin in self.origins)

    # Goals

    def goal(self, statement, is_reached, figures=""):
        self.goals.append(Goal(statement, bool(is_reached), str(figures)))

    def at_most(self, what, value, limit, unit="", figures=None, is_timing=False):
        """A goal with a limit, of which the report shows how much was used.

        Limits that depend on how quickly the machine executes processes (`is_timing`) are multiplied by `--slack`.
        """
        if is_timing:
            limit *= self.options.slack
        used = value / limit if limit and math.isfinite(value) else None
        unit = f" {unit}" if unit else ""
        statement = f"{what}: at most {round(limit, 2):g}{unit}"
        self.goals.append(Goal(statement, value <= limit, figures or f"{round(value, 2):g}{unit}", used))

    def not_judged(self, statement, reason):
        """A goal that this run is too short for. It is printed, so that a short run does not seem complete."""
        self.goals.append(Goal(statement, None, reason))
