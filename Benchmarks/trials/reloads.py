"""Trial 6: a reload each second changes nothing that the gateway has learned, and closes nothing."""

import math

from trials.policy import Policy
from trials.trial import Trial


class Reloads(Trial):
    name = "6 reloads"
    title = "a reload each second, while one origin responds 503; targets in turn"
    policy = Policy(balance="roundRobin")

    def script(self, lane):
        lane.at(1)
        lane.origins[0].panel.status = 503
        lane.at(3)
        before = lane.origins[0].panel.requests
        connections = sum(origin.panel.connections for origin in lane.origins)
        for number in range(1, int(self.seconds) - 3):
            lane.at(3 + number)
            lane.reload(number)
            lane.facts["reloads"] = number
        lane.at(self.seconds - 0.2)
        lane.facts["there"] = lane.origins[0].panel.requests - before
        lane.facts["connections"] = sum(origin.panel.connections for origin in lane.origins) - connections

    def judge(self, lane, machine):
        # After 10 s, 20 s and 40 s, less 25 %.
        probes = sum(self.seconds - 2 > due for due in (7.5, 22.5, 52.5)) + 1
        there, new = lane.facts["there"], lane.facts["connections"]
        figures = f"{there} in {lane.facts['reloads']} reloads"
        lane.at_most("requests to the origin that fails", there, probes, figures=figures)
        # As in `4 failing`: it is ejected after five in a row.
        lane.at_most("failures that reach clients", lane.records.errors(), 6 + probes, is_timing=True)
        lane.goal("no client connection is closed", lane.records.reconnected == 0, f"{lane.records.reconnected}")
        # Connections that a probe opens, and that load opens at random.
        lane.at_most("new upstream connections", new, 12 + probes, is_timing=True)

    def row(self, lane):
        row = super().row(lane)
        # These start new processes, and the CPU time of those that have ended is unknown.
        return row | ({"cpu": math.nan} if lane.contender in ("haproxy", "nginx") else {})


TRIALS = (Reloads,)
