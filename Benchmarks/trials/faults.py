"""Trials 1 to 4: one origin dies, freezes, becomes slow or fails, and recovers."""

import math

from trials.policy import Policy
from trials.trial import HEALTHY_FROM, SLOW, Trial, relative

BACK = 0.8 / 3
"""An origin of three is back when it has 80 % of its share."""
FAILURES = (502, 503, 504)


def judge_return(lane, limit):
    """The share of origin 0 is back in time. It is not judged if the load ended before that time."""
    up = lane.facts["up"]
    room = lane.records.due[-1] - up
    back = lane.facts["back"] = lane.records.share_is_back("0", up, BACK)
    what = "time until its share is back"
    if back is None and room <= limit:
        lane.not_judged(f"{what}: at most {limit} s", f"the load ended after {room:.0f} s")
    else:
        figures = f"not in {room:.0f} s" if back is None else None
        lane.at_most(what, math.inf if back is None else back, limit, "s", figures, is_timing=True)


def outage(lane, down, begin, up, end):
    """A fault that begins and ends at these seconds of the trial. Notes when requests may suffer."""
    lane.at(down)
    lane.facts["down"] = lane.now()
    begin()
    lane.at(up)
    end()
    lane.facts["up"] = lane.now()


class Killed(Trial):
    name = "1 killed"
    title = "kill -9 of one origin at 5 s, back 20 s later"

    def script(self, lane):
        outage(lane, self.scaled(5), lane.origins[0].kill, self.scaled(25), lane.origins[0].start)

    def judge(self, lane, machine):
        errors = lane.records.errors()
        self.judge_errors(lane, errors)
        judge_return(lane, 20)

    def judge_errors(self, lane, errors):
        lane.goal("no error", errors == 0, f"{errors}")


class KilledWithoutRetries(Killed):
    name = "1 killed, no retries"
    title = "the same, with one attempt per request"
    policy = Policy(attempts=1)

    def judge_errors(self, lane, errors):
        # Requests that the origin has when it dies, and a few connects before the first failure is known.
        down = lane.facts["down"]
        waiting = sum(
            due <= down + 0.01 < due + latency / 1e3 + 0.02
            for due, latency in zip(lane.records.due, lane.records.latency)
        )
        lane.at_most("errors, as many as requests in flight", errors, max(3, waiting), is_timing=True)


class Restarted(Trial):
    name = "1 restarts"
    title = "rolling restarts of three origins, 1 s apart, each down for 0.5 s"

    def script(self, lane):
        round_start = 3.0
        while round_start + 5 < self.seconds:
            for number, origin in enumerate(lane.origins):
                lane.at(round_start + number * 1.5)
                origin.stop_gracefully()
                lane.at(round_start + number * 1.5 + 0.5)
                origin.start()
                lane.facts["restarts"] = lane.facts.get("restarts", 0) + 1
            round_start += 12

    def judge(self, lane, machine):
        errors = lane.records.errors()
        lane.goal("no error", errors == 0, f"{errors} in {lane.facts['restarts']} restarts")


class Frozen(Trial):
    name = "2 frozen"
    title = "SIGSTOP of one origin at 5 s, SIGCONT 20 s later; head timeout 2 s"
    policy = Policy(head_timeout=2)
    least_seconds = 20

    def script(self, lane):
        outage(lane, max(5, self.scaled(5)), lane.origins[0].freeze, max(13, self.scaled(25)), lane.origins[0].thaw)

    def judge(self, lane, machine):
        down, up = lane.facts["down"], lane.facts["up"]
        # Requests that are slow without a gateway too are no victims of the fault.
        slow = max(0, lane.records.victims(SLOW, down - 2) - machine.records.victims(SLOW, down - 2))
        lane.facts["last_victim"] = max(
            (
                due - down
                for due, latency, status in zip(lane.records.due, lane.records.latency, lane.records.status)
                if down - 0.1 < due < up and (latency > SLOW or status != 200)
            ),
            default=0.0,
        )
        self.judge_victims(lane, slow)
        ratio = relative(lane, machine, down + 3, up, HEALTHY_FROM, down)
        lane.at_most("p99 from 3 s on", ratio, 1.2, "times that before", is_timing=True)
        judge_return(lane, 30)

    def judge_victims(self, lane, victims):
        lane.at_most("victims", victims, 6, is_timing=True)


class FrozenWithChecks(Frozen):
    name = "2 frozen, checks"
    title = "the same, with health checks each second (timeout 500 ms, two failures)"
    policy = Policy(head_timeout=2, has_checks=True)

    def judge_victims(self, lane, victims):
        super().judge_victims(lane, victims)
        lane.at_most("time from the fault to the last victim", lane.facts["last_victim"], 2.6, "s", is_timing=True)


class Slow(Trial):
    name = "3 slow"
    title = "one origin takes 1 s from 5 s on"

    def script(self, lane):
        lane.at(self.scaled(5))
        lane.facts["down"] = lane.now()
        lane.origins[0].panel.delay = 1_000_000

    def judge(self, lane, machine):
        start = lane.facts["down"] + 1
        p99 = lane.records.percentile(0.99, start)
        noise = machine.records.percentile(0.99, start)
        figures = f"{p99:.1f} ms, the machine's {noise:.1f}"
        lane.at_most("p99 after 1 s", p99, max(50.0, 40.0 + noise), "ms", figures, is_timing=True)


class Failing(Trial):
    name = "4 failing"
    title = "one origin responds 503 at once, from 2 s on; statuses are not retried"

    def script(self, lane):
        lane.at(2)
        lane.facts["down"] = lane.now()
        self.fail(lane.origins[0])

    def fail(self, origin):
        origin.panel.status = 503
        # Failures cost less than work, so they attract traffic where only load counts.
        origin.panel.delay = 500

    def judge(self, lane, machine):
        lane.at_most("failures that reach clients", lane.records.errors(), 6, is_timing=True)


class FailingInTurn(Failing):
    name = "4 failing, in turn"
    title = "the same, with targets in turn: ejection alone protects"
    policy = Policy(balance="roundRobin")

    def judge(self, lane, machine):
        times = lane.records.error_times()
        first = [each for each in times if each - times[0] < 5] if times else []
        probes = [each - first[-1] for each in times[len(first) :]] if first else []
        lane.facts["probes"] = [round(each, 1) for each in probes[:8]]
        lane.goal("at least 5 failures reach clients", len(first) >= 5, f"{len(first)}")
        lane.at_most("failures before the ejection", len(first), 6, is_timing=True)
        expected, wrong, due = [10, 20, 40], [], 0
        for step, seen in zip(expected, probes):
            if not 0.75 * step <= seen - due <= 1.25 * step + 0.5:
                wrong.append(round(seen - due, 1))
            due = seen
        certain = sum(lane.facts["down"] + sum(expected[: n + 1]) * 1.3 < self.seconds for n in range(3))
        statement = "failures later only by probes, after 10, 20, 40 s (± 25 %)"
        if certain or wrong:
            lane.goal(statement, not wrong and len(probes) >= certain, f"at {lane.facts['probes']} s")
        if certain < 2:
            lane.not_judged("the first two probes", f"{certain} certain within {self.seconds} s")


class FailingRetried(Failing):
    name = "4 failing, retried"
    title = "the same, and 502, 503 and 504 are retried"
    policy = Policy(statuses=FAILURES)

    def judge(self, lane, machine):
        errors = lane.records.errors()
        lane.goal("no failure reaches clients", errors == 0, f"{errors}")


class AllFailing(Failing):
    name = "4 all failing"
    title = "all origins respond 503 for 10 s, and 502, 503 and 504 are retried"
    policy = Policy(statuses=FAILURES)

    def script(self, lane):
        lane.at(2)
        lane.facts["down"] = lane.now()
        before = lane.attempts()
        for origin in lane.origins:
            self.fail(origin)
        end = min(self.seconds - 4, 12)
        lane.at(end)
        lane.facts["attempts"] = lane.attempts() - before
        for origin in lane.origins:
            origin.panel.status, origin.panel.delay = 0, 5_000
        lane.facts["up"] = lane.now()

    def judge(self, lane, machine):
        down, up = lane.facts["down"], lane.facts["up"]
        requests = lane.records.count(down, up)
        # The budget holds what one second adds, and one more second until its next tick; the ends of the time are not exact.
        bound = 1.1 * requests + 3 * (up - down) + 70
        attempts = lane.facts["attempts"]
        lane.at_most("attempts", attempts, round(bound), figures=f"{attempts} for {requests} requests")
        delay = 1 * lane.options.slack
        late = lane.records.errors(up + delay)
        lane.goal(f"no failure {delay:g} s after the end", late == 0, f"{late}")


class BrokenPage(Trial):
    name = "4 broken page"
    title = "one path of all origins responds 500; statuses are not retried"
    paths = ("/work", "/work", "/broken")

    def prepare(self, lane):
        for origin in lane.origins:
            origin.panel.broken_status = 500

    def judge(self, lane, machine):
        records = lane.records
        expected = sum(number % 3 == 2 for number in range(records.count()))
        broken = records.errors(statuses=(500,))
        others = records.errors() - broken
        lane.goal(
            "every 500 is passed on, and nothing else fails",
            broken == expected and not others,
            f"{broken} of {expected}, {others} others",
        )
        least = min(origin.panel.requests for origin in lane.origins) / max(1, lane.attempts())
        lane.goal("no origin is ejected: each has at least 20 %", least >= 0.2, f"{least:.0%}")


TRIALS = (
    Killed, KilledWithoutRetries, Restarted, Frozen, FrozenWithChecks, Slow,
    Failing, FailingInTurn, FailingRetried, AllFailing, BrokenPage,
)  # fmt: skip
