"""Trial 9: HTTP/2 servers that do one unusual thing. Only the requests that it concerns may fail."""

import collections
import json
import math
import sys
import threading
import time

from harness.command import Failure
from harness.ports import free_port
from harness.process import Process
from scenarios import http1
from trials.lane import VARIABLES, require_package
from trials.policy import Policy
from trials.trial import Trial


def start_scripted_server(trial, lane, behaviour):
    if lane.contender == "cloakroom" and trial.options.baseline:
        raise Failure("HTTP/2 to upstreams needs keys that older versions reject")
    require_package("h2")
    lane.origins = []
    port = free_port()
    lane.file = lane.folder / "counts.json"
    command = [sys.executable, "-m", "trials.scripted_server", str(port), behaviour, str(lane.file)]
    process = Process("server", command, lane.folder / "server.log", environment=VARIABLES)
    lane.helpers.append(process)
    lane.server = process
    process.wait_for_port(port)
    lane.names = [("127.0.0.1", port)]


class OddServer(Trial):
    """`odd` requests for /odd run next to requests for /work, which must not fail."""

    policy = Policy(protocol="h2c", head_timeout=20, attempts=2)
    contenders = ("cloakroom", "envoy")
    has_load = False
    least_seconds = 0
    behaviour = ""
    odd = 0
    """How many requests for /odd are sent."""
    leaves_after = None
    """Seconds after which their clients leave."""
    most_connections = None
    """How many connections to the server there may be in all; None for any number."""
    works = 8
    """Threads that send requests for /work meanwhile."""
    fails_always = False

    def adapt(self, lane):
        start_scripted_server(self, lane, self.behaviour)

    def script(self, lane):
        over, work, odd = threading.Event(), collections.Counter(), collections.Counter()
        slowest, slowest_odd = [0.0], [0.0]

        def send_work():
            while not over.wait(0.02):
                start = time.monotonic()
                work[self.request(lane.port, "/work", 30)] += 1
                slowest[0] = max(slowest[0], time.monotonic() - start)

        threads = [threading.Thread(target=send_work, daemon=True) for _ in range(self.works)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        senders = [
            threading.Thread(target=self.send_odd, args=(lane.port, odd, slowest_odd, number), daemon=True)
            for number in range(20)
        ]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join(90)
        time.sleep(3)
        over.set()
        for thread in threads:
            thread.join(30)
        time.sleep(0.3)
        lane.gateway.check()
        lane.facts["violations"] = lane.server.output().splitlines()[:5]
        lane.facts |= {
            "work": dict(work),
            "odd": dict(odd),
            "slowest": round(slowest[0], 2),
            "slowest odd": round(slowest_odd[0], 2),
            **json.loads(lane.file.read_text()),
        }

    def send_odd(self, port, counts, slowest, number):
        for _ in range(number, self.odd, 20):
            start = time.monotonic()
            counts[self.request(port, "/odd", self.leaves_after or 40)] += 1
            slowest[0] = max(slowest[0], time.monotonic() - start)

    @staticmethod
    def request(port, path, timeout):
        try:
            with http1.Client(port, timeout=timeout) as client:
                client.get(path)
                return client.status
        except TimeoutError:
            return "left"
        except (OSError, http1.Closed, http1.Truncated, http1.Malformed) as error:
            return type(error).__name__

    def figures(self, facts):
        text = f"{facts['work']}, slowest {facts['slowest']} s; {facts['connections']} connections"
        return text + (f"; /odd {facts['odd']}, slowest {facts['slowest odd']} s" if facts["odd"] else "")

    def judge(self, lane, machine):
        facts = lane.facts
        figures = self.figures(facts)
        if self.fails_always:
            lane.goal("requests get 502 or 503, and the gateway lives", set(facts["work"]) <= {502, 503}, figures)
        else:
            lane.goal("only requests for /odd may fail", set(facts["work"]) == {200}, figures)
        if violations := facts["violations"]:
            lane.goal("the protocol is kept", False, "; ".join(violations))
        if self.most_connections:
            lane.at_most("connections", facts["connections"], self.most_connections)
        self.judge_more(lane)

    def judge_more(self, lane):
        """Further goals of a behaviour."""

    def row(self, lane):
        failed = 0 if self.fails_always else sum(count for status, count in lane.facts["work"].items() if status != 200)
        unknown = {"p50": math.nan, "p99": math.nan, "attempts": math.nan, "cpu": math.nan}
        return {"errors": failed, "victims": failed, **unknown}


class GoAway(OddServer):
    name = "9 odd: GOAWAY 0"
    title = "the first connection ends with GOAWAY, last id 0"
    behaviour = "goaway"


class Resets(OddServer):
    name = "9 odd: 201 resets"
    title = "201 streams are reset with INTERNAL_ERROR"
    behaviour = "resets"
    odd = 300


class Lowered(OddServer):
    name = "9 odd: one stream"
    title = "the limit of streams falls from 10 to 1"
    behaviour = "lowered"
    works = 16

    def judge_more(self, lane):
        what, most = "streams after the lower limit was acknowledged", lane.facts["most"]
        if most:
            lane.at_most(what, most, 1)
        else:
            lane.not_judged(what, "there was none")


class LargeHead(OddServer):
    name = "9 odd: large head"
    title = "response heads of 64 KiB"
    behaviour = "large"
    odd = 40
    most_connections = 12


class Late(OddServer):
    name = "9 odd: late data"
    title = "DATA for 1,000 cancelled streams"
    behaviour = "late"
    odd = 1_000
    leaves_after = 0.01
    most_connections = 60


class Silent(OddServer):
    name = "9 odd: silence"
    title = "a connection on which nothing arrives any more"
    behaviour = "silent"
    odd = 1

    def judge(self, lane, machine):
        facts = lane.facts
        failed = sum(count for status, count in facts["work"].items() if status != 200)
        # Requests that were on the connection when it became silent cannot be saved; those sent later can.
        lane.at_most("requests that fail, all of one connection", failed, self.works, figures=self.figures(facts))
        # Less than the head timeout of 20 s, which would end them too.
        lane.at_most("time until silence and PING end them", facts["slowest"], 17, "s")


class Mistaken(OddServer):
    name = "9 odd: HTTP/1.1"
    title = "an HTTP/1.1 server where HTTP/2 is expected"
    behaviour = "http1"
    fails_always = True


TRIALS = (GoAway, Resets, Lowered, LargeHead, Late, Silent, Mistaken)
