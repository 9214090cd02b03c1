"""Trial 9: gRPC through the gateway, to a server that ends each connection after a second."""

import json
import math
import sys

from harness.command import Failure
from harness.ports import free_port
from harness.process import Process, wait_until
from trials.lane import VARIABLES, require_package
from trials.policy import Policy
from trials.trial import Trial

CHANNELS = 4
AGE = 1_000
"""Milliseconds of a connection."""


class Calls(Trial):
    name = "9 gRPC"
    title = "all four kinds of call to grpcio, which ends each connection after 1 s"
    policy = Policy(protocol="h2c", listens="h2c")
    contenders = ("cloakroom", "envoy", "haproxy")
    has_load = False

    def adapt(self, lane):
        if lane.contender == "cloakroom" and self.options.baseline:
            raise Failure("gRPC needs keys that older versions reject")
        require_package("grpc")
        lane.origins = []
        port = free_port()
        self.start(lane, "server", ["server", str(port), str(AGE)]).wait_for_port(port)
        lane.names = [("127.0.0.1", port)]
        lane.changes = {
            "routes": [
                {
                    "name": "calls",
                    "methods": ["POST"],
                    "path": "/*",
                    "upstream": "api",
                    "requiresAuthorization": False,
                    "grpc": True,
                }
            ]
        }

    @staticmethod
    def start(lane, name, arguments):
        command = [sys.executable, "-m", "trials.grpc_peer", *arguments]
        process = Process(
            name, command, lane.folder / f"{name}.log", environment=VARIABLES | {"GRPC_VERBOSITY": "NONE"}
        )
        lane.helpers.append(process)
        return process

    def script(self, lane):
        file = lane.folder / "calls.json"
        process = self.start(lane, "client", ["client", str(lane.port), str(self.seconds), str(CHANNELS), str(file)])
        wait_until("the calls end", self.seconds + 60, lambda: not process.is_running)
        if not file.is_file():
            raise Failure(f"the client failed:\n{process.last_lines()}")
        lane.facts |= json.loads(file.read_text())

    def judge(self, lane, machine):
        failures = lane.facts["failures"]
        figures = f"{sum(failures.values())} failures in {lane.facts['calls']} calls"
        if failures:
            figures += ": " + "; ".join(f"{count}× {what}" for what, count in list(failures.items())[:3])
        lane.goal("no call fails but the one that should", not failures and lane.facts["calls"] > 0, figures)

    def row(self, lane):
        failed = sum(lane.facts["failures"].values())
        unknown = {"p50": math.nan, "p99": math.nan, "attempts": math.nan, "cpu": math.nan}
        return {"errors": failed, "victims": failed, **unknown}


TRIALS = (Calls,)
