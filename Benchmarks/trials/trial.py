"""A trial: what it asks of each gateway, what happens to the origins meanwhile, and what is expected."""

import math

from trials.policy import Policy

SLOW = 500
"""Requests slower than this (ms) are victims, as are failed ones."""
HEALTHY_FROM = 1.0
"""The first second, in which connections are opened, is not part of any comparison."""


class Trial:
    """Subclasses set the attributes and implement `script` and `judge`."""

    name = ""
    title = ""
    policy = Policy()
    contenders = ("cloakroom", "envoy", "haproxy", "nginx")
    paths = ("/work",)
    least_seconds = 12
    """The shortest load with which the trial means anything."""
    has_load = True
    changes = {}
    """Further keys of Cloakroom's configuration."""

    def __init__(self, options):
        self.options = options
        self.seconds = max(self.least_seconds, options.trial_seconds)

    def scaled(self, seconds_of_a_minute):
        """A moment of the full trial, which lasts 60 s, in this one."""
        return seconds_of_a_minute * min(1.0, self.seconds / 60)

    def run(self, lane):
        """Runs the trial with one gateway. Exceptions are the runner's."""
        if lane.contender != "machine":
            self.adapt(lane)
        lane.start()
        self.prepare(lane)
        if not self.has_load:
            self.script(lane)
            return
        lane.start_load(self.seconds, self.options.rate, self.paths)
        if lane.gateway:
            self.script(lane)
        lane.finish_load()

    def adapt(self, lane):
        """Before any process of the lane is started."""

    def prepare(self, lane):
        """Before the load."""

    def script(self, lane):
        """During the load."""

    def judge(self, lane, machine):
        """Adds goals to the lane. `machine` is the load without a gateway at the same time."""

    def row(self, lane):
        """What the table shows of a lane: errors, victims, p50, p99, attempts, CPU."""
        records = lane.records
        errors = records.errors()
        statuses = ", ".join(f"{count}×{status}" for status, count in sorted(records.statuses().items()))
        return {
            "errors": errors,
            "statuses": statuses,
            "victims": records.victims(SLOW),
            "p50": records.percentile(0.5),
            "p99": records.percentile(0.99),
            "attempts": lane.attempts() / max(1, records.count()),
            "cpu": lane.facts.get("cpu", math.nan),
        }


def relative(lane, machine, start, end, base_start, base_end):
    """The p99 of a period as a multiple of that of a healthy period of the same run.

    If the machine itself was slower in that period, the figure is divided by how much slower it was.
    """
    ratio = lane.records.percentile(0.99, start, end) / lane.records.percentile(0.99, base_start, base_end)
    noise = machine.records.percentile(0.99, start, end) / machine.records.percentile(0.99, base_start, base_end)
    return ratio / max(1.0, noise)
