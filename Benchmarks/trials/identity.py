"""Trial 8: sign-in and refresh while the first of two targets is down, hung or slow."""

import math
import signal
import sys
import time
import types

from harness.command import Failure
from harness.process import Process
from harness.ports import free_port
from scenarios import session_helpers
from trials.lane import VARIABLES
from trials.panel import Panel
from trials.policy import CONNECT_TIMEOUT, Policy
from trials.trial import Trial

LIFETIME = 2
SIGN_INS = 10
SLOW = 3.0


class Identity(Trial):
    """The second target is the mock API, the first a relay to it, so that both know the same tokens."""

    name = "8 identity"
    fault = ""
    contenders = ("cloakroom",)
    policy = Policy(head_timeout=10)
    has_load = False
    least_seconds = 12
    lost_sign_ins = 0
    """Sign-ins that may fail: one that meets a hung target first is lost, because it is never sent twice."""

    def adapt(self, lane):
        mock = types.SimpleNamespace(
            binary=self.options.product, start=lambda name, command, port: self.start(lane, name, command, port)
        )
        lane.mock = session_helpers.mock(mock, LIFETIME)
        port = free_port()
        lane.panel = Panel(lane.folder / "panel-relay", create=True)
        command = [sys.executable, "-m", "trials.relay", str(port), str(lane.mock), str(lane.folder / "panel-relay")]
        lane.relay = self.start(lane, "relay", command, port)
        lane.names = [("127.0.0.1", port), ("127.0.0.1", lane.mock)]
        call = {"path": "/auth"}
        lane.changes = {
            "upstream": {
                "apiToken": {"value": session_helpers.TOKEN},
                "signIn": call,
                "refresh": {"path": "/auth/refresh"},
                "revoke": {"path": "/auth/revoke"},
                "user": {"path": "/user"},
            },
            "routes": [{
                "name": "video", "methods": ["GET"], "path": "/videos/{id}", "upstream": "api",
                "requiresAuthorization": True, "inject": ["apiToken", "bearer"],
            }],
            "session": {"cookie": {"name": "cloakroom", "secure": False}, "secrets": [session_helpers.SECRET]},
            "accounts": {"throttle": False},
        }  # fmt: skip

    @staticmethod
    def start(lane, name, command, port):
        process = Process(name, command, lane.folder / f"{name}.log", environment=VARIABLES)
        lane.helpers.append(process)
        process.wait_for_port(port)
        return process

    def script(self, lane):
        cookie = session_helpers.sign_in(lane.port)
        with (
            session_helpers.RefreshCounter(lane.mock) as refreshes,
            session_helpers.SessionClients([lane], cookie, 20) as clients,
        ):
            clients.over.wait(3)
            self.break_target(lane)
            # Requests meet the fault first, as in production, where sign-ins are few.
            clients.over.wait(2)
            lane.facts["sign_ins"], lane.facts["failures"] = [], []
            for _ in range(SIGN_INS):
                lane.facts["sign_ins"].append(self.timed_sign_in(lane))
            clients.over.wait(max(1, self.seconds - 7))
        lane.facts |= {"reuse": refreshes.reuse, "refreshes": refreshes.count, "slowest": round(clients.slowest, 2)}
        lane.facts["statuses"] = dict(clients.statuses)
        lane.facts["shortest"] = min(refreshes.gaps, default=math.inf)

    def break_target(self, lane):
        raise NotImplementedError

    @staticmethod
    def timed_sign_in(lane):
        start = time.monotonic()
        try:
            session_helpers.sign_in(lane.port)
        except (Failure, OSError) as error:
            lane.facts["failures"].append(f"after {time.monotonic() - start:.1f} s: {error}"[:200])
            return math.inf
        return round(time.monotonic() - start, 2)

    def judge(self, lane, machine):
        facts = lane.facts
        times = sorted(facts["sign_ins"])
        slowest = times[-1 - self.lost_sign_ins]
        what = f"slowest of {SIGN_INS - self.lost_sign_ins} sign-ins"
        # A failed one is infinitely slow.
        lane.at_most(what, slowest, CONNECT_TIMEOUT + 1, "s", f"{times} s", is_timing=True)
        figures = f"{facts['refreshes']} refreshes, {facts['reuse']} tokens presented twice"
        if facts["refreshes"] < 2:
            lane.not_judged("each refresh arrives once", figures)
        else:
            figures += f", {facts['shortest']:.2f} s apart at least"
            lane.goal("each refresh arrives once", facts["reuse"] == 0 and facts["shortest"] >= 0.75, figures)
        statuses = ", ".join(f"{count}×{status}" for status, count in facts["statuses"].items())
        self.judge_requests(lane, statuses)

    def judge_requests(self, lane, statuses):
        figures = f"{statuses}, slowest {lane.facts['slowest']} s"
        lane.goal("no request fails", set(lane.facts["statuses"]) == {200}, figures)

    def row(self, lane):
        failed = sum(count for status, count in lane.facts["statuses"].items() if status != 200)
        nothing = {"p50": math.nan, "p99": math.nan, "attempts": math.nan, "cpu": math.nan}
        return {"errors": failed, "victims": failed, **nothing}


class IdentityDown(Identity):
    name = "8 identity, down"
    title = "sign-in and refresh; the first of two targets is killed"

    def break_target(self, lane):
        lane.relay.stop()


class IdentityHung(Identity):
    name = "8 identity, hung"
    title = "the same; the first target is frozen"
    lost_sign_ins = 1

    def break_target(self, lane):
        lane.relay.signal(signal.SIGSTOP)

    def judge_requests(self, lane, statuses):
        # Requests that the frozen target has are lost; a retry would be a second send of something it may have handled.
        failed = sum(count for status, count in lane.facts["statuses"].items() if status != 200)
        figures = f"{statuses}, slowest {lane.facts['slowest']} s"
        lane.at_most("requests that fail", failed, 20, figures=figures, is_timing=True)


class IdentitySlow(Identity):
    name = "8 identity, slow"
    title = f"the same; the first target takes {SLOW:.0f} s longer"

    def break_target(self, lane):
        lane.panel.delay = SLOW * 1e6


TRIALS = (IdentityDown, IdentityHung, IdentitySlow)
