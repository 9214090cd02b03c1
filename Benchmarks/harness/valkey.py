"""A real Valkey cluster: nodes that can be killed, frozen, cut off and restarted, and slots that can be moved."""

import concurrent.futures
import contextlib
import os
import shutil
import signal
import socket
import time

from harness.command import Failure
from harness.ports import free_port
from harness.process import wait_until as wait_for

SLOTS = 16_384
NODE_TIMEOUT = 2.0
"""Seconds; `cluster-node-timeout`."""


class Rejection(OSError):
    """An error reply of a server. Like a lost connection it is no failure while the server starts."""


class Connection:
    """A connection that sends one command at a time, in RESP2."""

    def __init__(self, host, port, timeout=5, password=None):
        self.socket = socket.create_connection((host, port), timeout=timeout)
        self.file = self.socket.makefile("rb")
        if password:
            self.send("AUTH", password)

    def send(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        return self.receive()

    def receive(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise Rejection(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2].decode("latin-1")
        if kind == b"*":
            return None if rest == b"-1" else [self.receive() for _ in range(int(rest))]
        return rest.decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()


class Node:
    """A `valkey-server` in cluster mode with a port, a bus port and a folder of its own, which survive restarts."""

    def __init__(self, environment, host="127.0.0.1", before=(), options=()):
        self.environment, self.host, self.before, self.options = environment, host, list(before), list(options)
        self.port, self.bus_port = free_port(), free_port()
        self.folder = environment.folder / f"valkey-{self.port}"
        self.folder.mkdir()
        self.password = None
        self.start()
        self.id = self.ask("CLUSTER", "MYID")

    def start(self):
        command = [*self.before, "valkey-server", "--port", str(self.port), "--bind", self.host]
        command += ["--cluster-enabled", "yes", "--cluster-port", str(self.bus_port), "--cluster-config-file", "nodes.conf"]
        command += ["--cluster-node-timeout", str(int(NODE_TIMEOUT * 1_000)), "--dir", str(self.folder), "--save", ""]
        command += ["--appendonly", "yes", "--appendfsync", "everysec", "--repl-diskless-sync-delay", "0"]
        self.process = self.environment.processes.start("valkey", [*command, *self.options], None)
        self.is_frozen = False
        deadline = time.monotonic() + 20
        while True:
            try:
                if self.ask("PING") == "PONG":
                    return
            except OSError:
                if not self.is_running or time.monotonic() > deadline:
                    raise Failure(f"valkey-server did not start\n{self.process.last_lines()}") from None
                time.sleep(0.02)

    @property
    def is_running(self):
        return self.process.process.poll() is None

    @property
    def responds(self):
        return self.is_running and not self.is_frozen

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.process.wait(10)

    def freeze(self):
        os.kill(self.process.pid, signal.SIGSTOP)
        self.is_frozen = True

    def thaw(self):
        os.kill(self.process.pid, signal.SIGCONT)
        self.is_frozen = False

    def ask(self, *words):
        with Connection(self.host, self.port, password=self.password) as connection:
            return connection.send(*words)

    def info(self, *section):
        """The fields of a section of INFO, or of CLUSTER INFO."""
        lines = self.ask(*(section if section[0] == "CLUSTER" else ("INFO", *section))).split("\r\n")
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def calls(self, *names):
        """How often commands were executed since the start of the process."""
        stats = self.info("commandstats")
        fields = [stats.get(f"cmdstat_{name}", "") for name in names]
        return sum(int(field.partition("calls=")[2].partition(",")[0]) for field in fields if field)

    def clients(self, user):
        """The number of open connections of a user."""
        return sum(f" user={user} " in line for line in self.ask("CLIENT", "LIST").splitlines())


class Cluster:
    """Three primaries, each with a replica. The node timeout is 2 s."""

    def __init__(self, environment, hosts=None, options=()):
        if not shutil.which("valkey-server"):
            raise Failure("valkey-server is not on PATH: use PATH=$(deploy/valkey.sh):$PATH")
        # A host is an address and the words before the command.
        hosts = hosts or [("127.0.0.1", ())] * 6
        self.nodes = [Node(environment, host, before, options) for host, before in hosts]
        bounds = [0, 5_461, 10_923, SLOTS]
        for index, node in enumerate(self.nodes[:3]):
            node.ask("CLUSTER", "ADDSLOTSRANGE", bounds[index], bounds[index + 1] - 1)
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
        for node in self.nodes[1:]:
            self.nodes[0].ask("CLUSTER", "MEET", node.host, node.port, node.bus_port)
        wait_for("the nodes know each other", 20, lambda: all(map(self.knows_all, self.nodes)))
        for primary, replica in zip(self.nodes, self.nodes[3:]):
            replica.ask("CLUSTER", "REPLICATE", primary.id)
        self.wait_until_settled()

    def knows_all(self, node):
        table = node.ask("CLUSTER", "NODES")
        return "handshake" not in table and all(other.id in table for other in self.nodes)

    @property
    def addresses(self):
        return [f"{node.host}:{node.port}" for node in self.nodes]

    def wait_until_settled(self, seconds=30):
        wait_for("the cluster serves all slots", seconds, self.is_settled)

    def is_settled(self):
        """Whether all nodes that respond serve all slots and agree on their owners, and all replicas follow."""
        tables = set()
        for node in self.nodes:
            if not node.responds:
                continue
            with contextlib.suppress(OSError):
                if node.info("CLUSTER", "INFO")["cluster_state"] != "ok":
                    return False
                if node.info("replication").get("master_link_status", "up") != "up":
                    return False
                tables.add(tuple(sorted((first, last, owner) for first, last, owner in self.table(node))))
        return len(tables) == 1

    def table(self, node):
        return [(row[0], row[1], row[2][2]) for row in node.ask("CLUSTER", "SLOTS")]

    def witness(self):
        for node in self.nodes:
            if node.responds:
                with contextlib.suppress(OSError):
                    node.ask("PING")
                    return node
        raise Failure("no node of the cluster responds")

    def primaries(self):
        ids = {owner for _, _, owner in self.table(self.witness())}
        return [node for node in self.nodes if node.id in ids]

    def replica_of(self, primary):
        rows = [line.split() for line in self.witness().ask("CLUSTER", "NODES").splitlines()]
        ids = [row[0] for row in rows if row[3] == primary.id and "fail" not in row[2]]
        return next(node for node in self.nodes if node.id in ids and node.responds)

    def promoted(self, replica):
        """Whether a node is a primary that serves its slots."""
        return replica.info("replication")["role"] == "master" and replica.info("CLUSTER", "INFO")["cluster_state"] == "ok"

    def wait_for_promotion(self, replica, seconds=20):
        wait_for(f"the node {replica.port} is promoted", seconds, lambda: self.promoted(replica))

    def move_slots(self, slots, source, target, at_once=16):
        """Moves slots in the old way, key by key. Several at once, since a node replicates each step before it replies."""
        connect = lambda node: Connection(node.host, node.port, 20, node.password)  # noqa: E731
        access = ["AUTH", source.password] if source.password else []

        def move(some):
            with connect(source) as old, connect(target) as new:
                for slot in some:
                    new.send("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
                    old.send("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
                    while keys := old.send("CLUSTER", "GETKEYSINSLOT", slot, 100):
                        old.send("MIGRATE", target.host, target.port, "", 0, 5_000, "REPLACE", *access, "KEYS", *keys)
                    for node in (new, old):
                        node.send("CLUSTER", "SETSLOT", slot, "NODE", target.id)

        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            # Collects the results, and so raises the first error.
            list(pool.map(move, [slots[start::at_once] for start in range(at_once)]))

    def move_slots_atomically(self, slots, source, target, seconds=60):
        """Moves slots in the way of Valkey 9."""
        source.ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slots.start, slots.stop - 1, "NODE", target.id)

        def is_moved():
            owned = [range(first, last + 1) for first, last, owner in self.table(target) if owner == target.id]
            return any(slots.start in one and slots.stop - 1 in one for one in owned)

        wait_for("the slots have moved", seconds, is_moved)

