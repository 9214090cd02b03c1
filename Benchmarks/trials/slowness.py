"""Trial 5: clients that are slow hold few of 64 upstream connections, and only until they are too slow."""

import collections
import dataclasses
import json
import math
import sys

from harness.process import Process, wait_until
from trials.lane import VARIABLES
from trials.policy import Policy
from trials.trial import Trial

FULL = 45
"""Loads of fewer seconds use a shorter body timeout."""


class SlowClients(Trial):
    """Slow clients of one kind next to the open loop."""

    policy = Policy(max_connections=64, has_long_bodies=True)
    kind = ""
    clients = 200
    ramp = 1.0
    least_seconds = 20

    def __init__(self, options):
        super().__init__(options)
        self.limit = 30 if self.seconds >= FULL else 8
        self.policy = dataclasses.replace(self.policy, body_timeout=self.limit)

    def script(self, lane):
        lane.at(1)
        file = lane.folder / "slow.json"
        seconds = self.seconds - 2
        arguments = [lane.port, self.kind, self.clients, self.ramp, seconds, self.limit / 30, file]
        command = [sys.executable, "-m", "trials.slow_clients", *map(str, arguments)]
        process = Process("slow clients", command, lane.folder / "slow.log", environment=VARIABLES)
        lane.helpers.append(process)
        wait_until("the slow clients end", seconds + 10, lambda: not process.is_running)
        lane.facts["slow"] = json.loads(file.read_text())

    def judge(self, lane, machine):
        records = lane.records
        rejected = records.errors(statuses=(503,))
        lane.goal("others get no 503", rejected == 0, f"{rejected}, {records.errors()} errors")
        lane.at_most("p99 of others", records.percentile(0.99), 500, "ms", is_timing=True)
        slow = lane.facts.pop("slow")
        counts = collections.Counter(each["status"] if each["seconds"] is not None else "open" for each in slow)
        lane.facts["outcomes"] = {str(key): value for key, value in counts.items()}
        self.judge_slow(lane, slow, ", ".join(f"{count}×{status}" for status, count in counts.items()))


class SlowBodies(SlowClients):
    name = "5 slow bodies"
    title = "200 bodies at 1 B/s, 64 upstream connections"
    kind = "bodies"

    def judge_slow(self, lane, slow, figures):
        ended = [each["seconds"] for each in slow if each["status"] == 408]
        if ended:
            figures += f" after {min(ended):.1f} to {max(ended):.1f} s"
        lane.goal("the slow ones get 408", len(ended) == len(slow), figures)
        lane.goal(f"none before {self.limit} s", min(ended, default=0) >= self.limit - 0.1, figures)
        # Deadlines are checked in steps. Thirty seconds have two more, shorter limits proportionally fewer.
        delay = max(ended, default=math.inf) - self.limit
        lane.at_most("delay of the last 408", delay, self.limit / 15 + 0.2, "s", is_timing=True)


class PausedBodies(SlowClients):
    name = "5 paused bodies"
    title = "20 bodies at 1 KiB/s with pauses of 8 s and one of 25 s"
    kind = "paused"
    clients = 20

    def judge_slow(self, lane, slow, figures):
        lane.goal("all get 200", all(each["status"] == 200 for each in slow), figures)


class SlowReaders(SlowClients):
    name = "5 slow readers"
    title = "200 readers of 4 MiB at 100 B/s, which begin within 20 s; 64 upstream connections"
    kind = "readers"
    # Not shorter: under pressure, only requests older than 5 s are ended.
    ramp = 20.0
    least_seconds = 30

    def judge_slow(self, lane, slow, figures):
        ended = sorted(each["seconds"] for each in slow if each["seconds"] is not None)
        median = f", half of those that ended after {ended[len(ended) // 2]:.0f} s" if ended else ""
        lane.facts["readers"] = figures + median
        # None waits in vain: a connection of a slower one is used, or its response is stored somewhere.
        started = sum(each["status"] == 200 for each in slow)
        lane.goal("all readers get a response head", started == len(slow), f"{started} of {len(slow)}")


TRIALS = (SlowBodies, PausedBodies, SlowReaders)
