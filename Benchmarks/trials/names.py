"""Trial 7: a name with three addresses, one of which vanishes; then empty and failing responses of the DNS server."""

import dataclasses
import itertools
import os
import sys

from harness.command import Failure
from harness.ports import free_port
from harness.process import Process, wait_until
from trials.lane import VARIABLES, Origin
from trials.policy import Policy
from trials.trial import Trial

NAME = "origins.trial.test"
ADDRESSES = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
KEEP = 2
"""Seconds for which an address is used that is no longer in the response."""

numbers = itertools.count(1)


class Names(Trial):
    name = "7 names"
    title = "a DNS name with three addresses; one is removed, then responses are empty, then SERVFAIL"
    policy = Policy(name=NAME, interval=1)
    contenders = ("cloakroom", "envoy", "haproxy")
    least_seconds = 30

    def adapt(self, lane):
        """Origins on three addresses of one port, and a DNS server of the lane's own."""
        if os.geteuid() != 0:
            raise Failure("needs root: /etc/resolv.conf, which resolvers read, is replaced in a mount namespace")
        port = free_port()
        lane.origins = [Origin(lane.folder, str(number), address, port) for number, address in enumerate(ADDRESSES)]
        # Port 53, because resolv.conf has no other; so each lane has an address of its own.
        server = (f"127.99.{os.getpid() % 250}.{next(numbers)}", 53)
        lane.policy = dataclasses.replace(lane.policy, name_server=server)
        lane.response = lane.folder / "response"
        self.respond(lane, " ".join(ADDRESSES))
        command = [sys.executable, "-m", "trials.name_server", server[0], str(server[1]), str(lane.response)]
        process = Process("name server", command, lane.folder / "names.log", environment=VARIABLES)
        lane.helpers.append(process)
        wait_until("the name server starts", 5, lambda: process.check() and "ready" in process.output())
        lane.folder.joinpath("resolv.conf").write_text(f"nameserver {server[0]}\noptions timeout:1 attempts:1\n")
        script = 'mount --bind "$1" /etc/resolv.conf && shift && exec "$@"'
        lane.before = ["unshare", "--mount", "sh", "-c", script, "sh", str(lane.folder / "resolv.conf")]
        lane.names = [(NAME, port)]

    @staticmethod
    def respond(lane, line):
        """Changes the response of the DNS server, in one step."""
        new = lane.response.with_suffix(".new")
        new.write_text(line + "\n")
        new.rename(lane.response)

    def script(self, lane):
        step = self.seconds / 6
        lane.facts["step"] = step
        for number, line in enumerate([" ".join(ADDRESSES[1:]), "empty", "fail", " ".join(ADDRESSES)]):
            lane.at(step * (number + 1))
            self.respond(lane, line)

    def judge(self, lane, machine):
        records, step = lane.records, lane.facts["step"]
        shares = [records.share(str(number), 1, step) for number in range(3)]
        lane.goal(
            "even: each address has 20 to 47 %",
            all(0.2 <= share <= 0.47 for share in shares),
            ", ".join(f"{share:.0%}" for share in shares),
        )
        times = [due for due, origin in zip(records.due, records.origin) if origin == "0" and step <= due < 4 * step]
        last = max(times, default=step) - step
        limit = self.policy.interval + KEEP + 1.5
        lane.at_most("time until a removed address is silent", last, limit, "s", is_timing=True)
        errors = records.errors(2 * step, 4 * step)
        two = [records.share(str(number), 2 * step + 1, 4 * step) for number in (1, 2)]
        lane.goal(
            "empty and failing responses change nothing",
            not errors and min(two) > 0.3,
            f"{errors} errors, {two[0]:.0%} and {two[1]:.0%}",
        )
        lane.goal("no error", records.errors() == 0, f"{records.errors()}")
        back = records.share_is_back("0", 4 * step, 0.8 / 3)
        lane.goal("the address is used again", back is not None, "no" if back is None else f"{back:.1f} s")


TRIALS = (Names,)
