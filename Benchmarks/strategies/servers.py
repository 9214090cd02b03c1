"""The gateway and HAProxy with settings as equal as possible, and what one strategy costs each of them."""

import dataclasses
import pathlib
import re
import time

from harness import gateway as gateways
from harness.environment import Environment
from harness.measure import precise_cpu_seconds
from harness.ports import free_ports
from harness.process import ProcessGroup, wait_until
from scenarios.bystander import BystanderClient
from strategies.clear import HEAD, once
from strategies.http2 import OPENING, block, request
from strategies.strategy import Attack, Connection, Strategy

QUIET_SECONDS = 1.0
"""From the end of all connections until the memory that remains is measured."""
QUIET_STEPS = 20
SETTLE_SECONDS = 0.2
WARM_UP = [Strategy("warm-up", once(HEAD), "h1"), Strategy("warm-up", once(HEAD), "tls")]
WARM_UP += [Strategy("warm-up", once(OPENING, request(1, block())), protocol) for protocol in ("h2c", "h2")]


@dataclasses.dataclass
class Cost:
    """What a strategy cost one process: bytes of memory in addition to that after one request per protocol, and seconds.

    `anonymous` and `resident` are the highest values. The latter includes the pages of the program that were executed first.
    `kept` is the anonymous memory that remains after the connections have been closed."""

    sent: int
    opened: int
    anonymous: int
    resident: int
    kept: int
    cpu: float
    p99: float
    requests: int
    failures: list
    results: dict


class StrategyEnvironment(Environment):
    """An origin for the strategies, and one for the client that behaves well."""

    def __init__(self, binary):
        self.binary = str(gateways.require_binary(binary))
        self.origin_port, self.bystander_port = free_ports(2)

    def start_upstreams(self):
        for port in (self.origin_port, self.bystander_port):
            self.start_module("strategies.origin", str(port), port=port)


class Server:
    """A running gateway or HAProxy."""

    def __init__(self, environment, processes, name, ports, changes, options):
        self.port, self.tls_port, admin_port = self.ports = ports
        if name == "haproxy":
            values = {"CLEAR_PORT": self.port, "TLS_PORT": self.tls_port}
            values |= {"ORIGIN_PORT": environment.origin_port, "BYSTANDER_PORT": environment.bystander_port}
            config = environment.fill("strategies.haproxy.cfg", f"haproxy-{self.port}.cfg", **values)
            command = ["haproxy", "-db", "-f", config]
        else:
            sign_in = {"apiToken": {"value": "token"}, "signIn": {"path": "/reject"}, "user": {"path": "/user"}}
            changes = {"eventLoops": 1, "timeouts": {"drain": "1s"}, "upstream": {}} | changes
            changes["upstream"] = sign_in | changes["upstream"]
            origins = environment.origin_port, environment.bystander_port
            config = gateways.configuration(ports, environment.folder, *origins, changes)
            methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"]
            config["listeners"][0]["http2"] = True
            config["routes"][0] = gateways.route("open", "/open/*", "api", methods) | {"websocket": True}
            private = gateways.route("private", "/private/*", "api", methods) | {"requiresAuthorization": True}
            config["routes"].append(private)
            file = gateways.write_configuration(environment.folder / f"gateway-{self.port}.yaml", config)
            command = [environment.binary, "serve", "--config", file, *options]
        self.process = processes.start(f"{name}-{self.port}", command, self.port)
        self.process.wait_for_port(self.tls_port)
        self.pid = self.process.pid

    def warm_up(self):
        """One request per protocol, so that what a process allocates once is not counted."""
        connections = [Connection(strategy, self.ports, 1) for strategy in WARM_UP]
        step = lambda: [connection.step(True, True) for connection in connections]  # noqa: E731
        wait_until("a response over each protocol", 10, lambda: step() and all(each.first for each in connections))
        for connection in connections:
            connection.close()
        time.sleep(SETTLE_SECONDS)

    def memory(self):
        """Anonymous and resident memory in bytes."""
        self.process.check()
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        found = dict(re.findall(r"^(RssAnon|VmRSS):\s+(\d+) kB", status, re.MULTILINE))
        return int(found["RssAnon"]) * 1_024, int(found["VmRSS"]) * 1_024


def measure(environment, strategy, name, ports, seconds, most_seconds, factor, options):
    """Starts a server, carries out the strategy, and returns what it cost."""
    with ProcessGroup(environment.folder) as processes:
        server = Server(environment, processes, name, ports, strategy.changes, options)
        server.warm_up()
        before, cpu = server.memory(), precise_cpu_seconds(server.pid)
        highest = list(before)

        def sample():
            highest[:] = map(max, highest, server.memory())

        attack = Attack(strategy, ports, seconds, most_seconds, factor, sample)
        with BystanderClient(server) as bystander:
            attack.run()
        attack.close()
        # The server may still process what it has received.
        for _ in range(QUIET_STEPS):
            time.sleep(QUIET_SECONDS / QUIET_STEPS)
            sample()
        kept, cpu = server.memory()[0], precise_cpu_seconds(server.pid) - cpu
        memory = {"anonymous": highest[0] - before[0], "resident": highest[1] - before[1], "kept": kept - before[0]}
        served = {"p99": bystander.percentile(0.99), "requests": len(bystander.seconds), "failures": bystander.failures}
        return Cost(attack.bytes, attack.opened, cpu=cpu, results=dict(attack.results), **memory, **served)
