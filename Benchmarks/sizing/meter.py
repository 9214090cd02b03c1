"""CPU time and bytes of operations, and how they depend on the load.

A process that is idle when something arrives is woken up: it needs more CPU time for the same work than one that is busy,
because it reads few requests at once and its caches are cold. So each operation has two figures: what it costs a process
that is always idle before, and one that never is. Between them the cost is on a line, by the share of time in which the
process is idle. A server is woken up by gateways, and a busy gateway sends many commands at once: there it is the product
of the shares in which the gateway and the server are idle.
"""

import dataclasses
import time

from harness.measure import precise_cpu_seconds

# Longer than the interval at which the gateway releases caches and returns memory.
QUIET_SECONDS = 7
IDLE_SECONDS = 5


def read(gateways, shards):
    """CPU seconds of the gateways and of the primaries, bytes received by primaries, and bytes sent, so far."""
    return (sum(precise_cpu_seconds(gateway.pid) for gateway in gateways), *shards.figures())


def idle_rates(gateways, shards):
    """What they do per second without requests, from some seconds after the last one."""
    time.sleep(QUIET_SECONDS)
    before = read(gateways, shards)
    time.sleep(IDLE_SECONDS)
    return [(after - first) / IDLE_SECONDS for after, first in zip(read(gateways, shards), before)]


class Meter:
    """Adds up what gateways and primaries do while a block runs, without what they do when idle."""

    def __init__(self, gateways, shards, idle):
        self.gateways, self.shards, self.idle = gateways, shards, idle

    def __enter__(self):
        self.before, self.started = read(self.gateways, self.shards), time.monotonic()
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.seconds = time.monotonic() - self.started
            total = (after - before for after, before in zip(read(self.gateways, self.shards), self.before))
            # Per second: shares of cores, and bytes.
            self.rates = [max(0, each / self.seconds - idle) for each, idle in zip(total, self.idle)]

    def shares(self):
        """The share of a core for which each gateway and each primary was busy."""
        return self.rates[0] / len(self.gateways), self.rates[1] / len(self.shards.servers)

    def sample(self, count):
        """What each of this number of operations took."""
        gateway, server, received, sent = (rate * self.seconds / count for rate in self.rates)
        ours, its = (max(0, 1 - share) for share in self.shares())
        return Sample(gateway * 1e6, server * 1e6, received, sent, ours, ours * its)


@dataclasses.dataclass
class Sample:
    """Per operation: microseconds of CPU time, and bytes that the server receives and sends. And the shares of the time in
    which a gateway was idle, and it and the server."""

    gateway: float
    server: float
    received: float
    sent: float
    gateway_idle: float
    both_idle: float

    def less(self, cost, times=1):
        """Without other operations, at the same load."""
        return dataclasses.replace(
            self,
            gateway=self.gateway - times * between(cost.gateway, cost.gateway_idle, self.gateway_idle),
            server=self.server - times * between(cost.server, cost.server_idle, self.both_idle),
            received=self.received - times * cost.received,
            sent=self.sent - times * cost.sent,
        )


@dataclasses.dataclass
class Cost:
    """Per operation: microseconds of CPU time of processes that are busy and that are idle, and bytes."""

    gateway: float
    gateway_idle: float
    server: float
    server_idle: float
    received: float
    sent: float

    def less(self, other):
        """Without another operation."""
        ours, theirs = dataclasses.astuple(self), dataclasses.astuple(other)
        return Cost(*(max(0, mine - its) for mine, its in zip(ours, theirs)))

    def rounded(self):
        names = {"gateway": "gatewayMicroseconds", "gateway_idle": "gatewayIdleMicroseconds"}
        names |= {"server": "serverMicroseconds", "server_idle": "serverIdleMicroseconds"}
        names |= {"received": "bytesToServer", "sent": "bytesFromServer"}
        return {name: round(getattr(self, field), 1) for field, name in names.items()}


def between(busy, idle, share):
    """What something costs a process that is idle for a share of the time."""
    return busy + share * (idle - busy)


def at_one_load(sample):
    """The cost of something of which it is not known how it depends on the load."""
    gateway, server = max(0, sample.gateway), max(0, sample.server)
    return Cost(gateway, gateway, server, server, max(0, sample.received), max(0, sample.sent))


def at_two_loads(low, high):
    """The cost of something from samples at a low load, and at a load at which work always waits."""
    gateway, server = line(low.gateway_idle, low.gateway, high.gateway), line(low.both_idle, low.server, high.server)
    return Cost(*gateway, *server, max(0, high.received), max(0, high.sent))


def line(idle, cost, busy):
    """The cost for a process that is busy, and for one that is idle, from that of one that is idle for a share of the time."""
    busy = max(0, busy)
    return busy, busy + max(0, cost - busy) / max(idle, 0.1)
