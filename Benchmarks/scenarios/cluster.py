"""A Valkey cluster of six nodes and two gateways under load: failovers, moved slots, restarts, a partition, a password."""

import contextlib
import threading
import time

from harness.command import Failure
from harness.namespaces import Network
from harness.process import wait_until
from harness.valkey import NODE_TIMEOUT, Cluster
from scenarios import session_helpers
from scenarios.session_load import SessionLoad

SESSIONS = 120
TOKEN_LIFETIME = 8
EMAILS = [f"user{number}@example.com" for number in range(24)]
# After the node timeout the nodes vote, and the gateways notice.
FAILOVER_SECONDS = NODE_TIMEOUT + 2
# After an outage, gateways wait 7 s before they refresh tokens. A refresh that failed meanwhile is tried again after 1 to 2 s.
REFRESH_PAUSE = 7 + 2
# Sign-outs in a part of the cluster that is cut off are effective elsewhere when the parts have joined.
STALE_SECONDS = NODE_TIMEOUT + 2
# For each gateway: a link, a link for durable writes, one for the topology, and one that is being replaced.
CONNECTIONS_PER_GATEWAY = 4
PASSWORD = "the password before the rotation"


def run(environment, checks, options):
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(Network(6)) if Network.is_permitted() else None
        hosts = [(host, network.prefix(number)) for number, host in enumerate(network.hosts)] if network else None
        if not network:
            checks.note("without permission to create network namespaces: a partition is a node that is frozen")
        access = ["--user", "gateway", "on", f">{PASSWORD}", "~*", "&*", "+@all", "--protected-mode", "no"]
        cluster = Cluster(environment, hosts, access)
        mock = session_helpers.mock(environment, TOKEN_LIFETIME, EMAILS)
        valkey = {"topology": "cluster", "addresses": cluster.addresses, "user": "gateway", "password": PASSWORD}
        session = {"store": "valkey", "valkey": valkey}
        gateways = [session_helpers.gateway(environment, mock, session) for _ in range(2)]
        ClusterTrials(checks, options, cluster, network, gateways, mock).run()


class ClusterTrials:
    """The trials, which change one cluster one after the other while the load continues."""

    def __init__(self, checks, options, cluster, network, gateways, mock):
        self.checks, self.options, self.cluster, self.network = checks, options, cluster, network
        self.gateways, self.mock = gateways, mock

    def run(self):
        with NodeWatch(self.cluster) as self.watch, session_helpers.RefreshCounter(self.mock) as refreshes:
            with SessionLoad(self.gateways, EMAILS, SESSIONS, bound=STALE_SECONDS * self.options.slack) as self.load:
                self.trial("no fault", self.nothing, 0)
                for number in range(self.options.cluster_primaries):
                    self.trial(f"kill -9 of primary {number + 1}", lambda: self.kill(number), FAILOVER_SECONDS, number == 0)
                for number in range(self.options.cluster_primaries):
                    self.trial(f"SIGSTOP of primary {number + 1}", lambda: self.freeze(number), FAILOVER_SECONDS)
                count = self.options.cluster_slots
                self.trial(f"{count} slots move one by one", lambda: self.reshard(count), 1, is_long=True)
                self.trial(f"{count} slots move atomically", lambda: self.reshard_atomically(count), 1, is_long=True)
                # Each restart is a failover without a node that is missing.
                self.trial("rolling restart of all nodes", self.restart_all, None)
                self.trial("a partition", self.partition, FAILOVER_SECONDS)
                self.trial("the password changes", self.change_password, None)
            lost, revived = self.load.lost(self.gateways)
        figures = f"{len(self.load.alive)} sessions at {len(self.gateways)} gateways, {len(lost)} lost"
        for problem in lost[:5]:
            self.checks.note(f"a living session is not accepted: {problem}")
        self.checks.expect("no session is lost", not lost, figures)
        self.checks.expect("no ended session is valid again", not revived, f"{len(self.load.ended)} ended, {len(revived)} valid")
        self.checks.note(f"the latest request with an ended session that was accepted: {self.load.latest_use:.2f} s later")
        self.checks.expect("no refresh token is presented twice", refreshes.reuse == 0, f"{refreshes.count} refreshes")
        most = len(self.gateways) * CONNECTIONS_PER_GATEWAY
        self.checks.expect(
            "connections per node are bounded", self.watch.most_clients <= most, f"at most {self.watch.most_clients} of {most}"
        )

    def trial(self, name, change, limit, with_tokens=False, is_long=False):
        """Makes a change under load and judges the responses until there is no 503 any more.

        `limit` is the number of seconds from the change to the last 503; `None` if the change judges that. Requests that
        need a token are served later; they are only waited for if `with_tokens`, because that takes some time. If the
        change itself `is_long`, the limit counts from its end.
        """
        slack = self.options.slack
        reads, writes, accepted = self.watch.counts()
        phase = self.load.phase()
        started = time.monotonic()
        change()
        changed_for = time.monotonic() - started if is_long else 0
        recovered, recovered_with_tokens = phase.wait_for_recovery(with_tokens=with_tokens)
        duration = time.monotonic() - started
        violations, figures, acknowledged = phase.result()
        for violation in violations[:5]:
            self.checks.note(violation)
        self.checks.expect(f"{name}: 200 and 503 only, no living session is rejected", not violations, figures)
        if limit is not None:
            recovered = max(0, recovered - changed_for)
            text = f"the last 503 after {recovered:.2f} s"
            self.checks.expect(f"{name}: served again within {limit * slack:.0f} s", recovered <= limit * slack, text)
        if with_tokens:
            text = f"the last 503 after {recovered_with_tokens:.2f} s"
            limit = (limit + REFRESH_PAUSE) * slack
            self.checks.expect(f"{name}: with expired tokens within {limit:.0f} s", recovered_with_tokens <= limit, text)
        changed = min(acknowledged["sign-ins"], acknowledged["sign-outs"])
        self.checks.expect(f"{name}: there were changes", changed > 0, f"{sum(acknowledged.values())}")
        reads, writes, accepted = (now - before for now, before in zip(self.watch.counts(), (reads, writes, accepted)))
        # Each gateway reads a session again after each write by the other one and after its link was lost, and reads
        # an ended session for each request.
        ended = self.load.statuses[401] - phase.statuses[401]
        bound = 2 * 2 * (2 * SESSIONS + writes) + 2 * ended
        text = f"{reads} reads, {reads / duration:.0f}/s, {writes} writes, {ended} requests with ended sessions"
        self.checks.expect(f"{name}: reads are bounded", reads <= bound, text)
        # Each gateway has two connections to each primary, and reconnects after 50 ms, 100 ms, … 5 s.
        attempts = 2 * 2 * 3 * (6 + duration / 2.5)
        self.checks.expect(f"{name}: no burst of connections", accepted <= attempts, f"{accepted} in {duration:.0f} s")

    # Changes

    def pause(self):
        time.sleep(self.options.cluster_pause)

    def nothing(self):
        self.pause()

    def fail_over(self, number, stop):
        primary = self.cluster.primaries()[number]
        replica = self.cluster.replica_of(primary)
        stop(primary)
        start = time.monotonic()
        self.cluster.wait_for_promotion(replica)
        self.checks.note(f"the nodes have promoted the replica after {time.monotonic() - start:.2f} s")
        return primary

    def kill(self, number):
        primary = self.fail_over(number, lambda node: node.kill())
        self.pause()
        primary.start()
        self.cluster.wait_until_settled()

    def freeze(self, number):
        primary = self.fail_over(number, lambda node: node.freeze())
        self.pause()
        primary.thaw()
        self.cluster.wait_until_settled()

    def reshard(self, count):
        source, target = self.cluster.primaries()[:2]
        slots = self.slots_of(source)[:count]
        start = time.monotonic()
        self.cluster.move_slots(slots, source, target)
        self.checks.note(f"{len(slots)} slots in {time.monotonic() - start:.1f} s")
        self.cluster.wait_until_settled()
        self.moved = slots, source, target

    def reshard_atomically(self, _count):
        slots, source, target = self.moved
        start = time.monotonic()
        self.cluster.move_slots_atomically(range(slots[0], slots[-1] + 1), target, source)
        self.checks.note(f"{len(slots)} slots in {time.monotonic() - start:.1f} s")
        self.cluster.wait_until_settled()

    def slots_of(self, node):
        """The slots of the longest range of a node."""
        ranges = [range(first, last + 1) for first, last, owner in self.cluster.table(node) if owner == node.id]
        return max(ranges, key=len)

    def restart_all(self):
        """As an operator would: a primary is restarted when its replica has taken its place."""
        for node in self.cluster.nodes:
            phase = self.load.phase()
            if node in self.cluster.primaries():
                replica = self.cluster.replica_of(node)
                replica.ask("CLUSTER", "FAILOVER")
                self.cluster.wait_for_promotion(replica)
            node.process.signal(15)
            node.process.process.wait(20)
            node.start()
            self.cluster.wait_until_settled()
            recovered, _ = phase.wait_for_recovery(quiet=0.5)
            limit = FAILOVER_SECONDS * self.options.slack
            text = f"the last 503 after {recovered:.2f} s"
            self.checks.expect(f"restart of the node {node.port}: served again in time", recovered <= limit, text)

    def partition(self):
        """One primary is cut off from the other nodes, while the gateways still reach it."""
        primary = self.cluster.primaries()[0]
        number = self.cluster.nodes.index(primary)
        replica = self.cluster.replica_of(primary)
        if self.network:
            self.network.cut(number)
        else:
            primary.freeze()
        self.cluster.wait_for_promotion(replica)
        self.pause()
        if self.network:
            self.network.heal(number)
        else:
            primary.thaw()
        wait_until("the previous primary follows", 20, lambda: primary.info("replication")["role"] == "slave")
        self.cluster.wait_until_settled()

    def change_password(self):
        """The servers get a password that the gateways do not have; then the previous one is valid again."""
        for node in self.cluster.nodes:
            node.ask("ACL", "SETUSER", "gateway", "resetpass", ">the password after the rotation")
            node.ask("CLIENT", "KILL", "USER", "gateway")
        # Attempts to connect are at most 5 s apart.
        deadline = time.monotonic() + 8
        while True:
            reasons = [
                gateway.metric("cloakroom_session_store_errors_total", reason="no_auth") for gateway in self.gateways
            ]
            logged = ["no_auth" in gateway.process.output() for gateway in self.gateways]
            if all(reasons) and all(logged) or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        self.checks.expect("the metric states the reason no_auth", all(reasons), f"{reasons}")
        self.checks.expect("and so does the log", all(logged), f"{logged}")
        is_silent = all(PASSWORD not in gateway.process.output() for gateway in self.gateways)
        self.checks.expect("and no password", is_silent)
        for node in self.cluster.nodes:
            node.ask("ACL", "SETUSER", "gateway", "resetpass", f">{PASSWORD}")
        restored = self.load.phase()
        recovered, _ = restored.wait_for_recovery()
        limit = 6 * self.options.slack
        self.checks.expect("served again within 6 s of the right password", recovered <= limit, f"after {recovered:.2f} s")


class NodeWatch:
    """Samples the nodes while a block runs: their connections and commands, beyond restarts of a node."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.over = threading.Event()
        self.lock = threading.Lock()
        self.most_clients = 0
        # By port and process identifier: the counts at the last sample. A process that has ended keeps its counts.
        self.latest = {}
        self.thread = threading.Thread(target=self.sample_all, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join(20)

    def sample_all(self):
        while not self.over.wait(0.5):
            self.sample()

    def sample(self):
        for node in self.cluster.nodes:
            if not node.responds:
                continue
            pid = node.process.pid
            with contextlib.suppress(OSError, Failure):
                clients = node.clients("gateway")
                # Gateways begin each connection with HELLO, nodes and this program do not.
                counts = node.calls("hgetall"), node.calls("evalsha", "eval"), node.calls("hello")
                with self.lock:
                    self.most_clients = max(self.most_clients, clients)
                    self.latest[node.port, pid] = counts

    def counts(self):
        """Reads, writes and connections of gateways since the start."""
        self.sample()
        with self.lock:
            return tuple(sum(column) for column in zip(*self.latest.values()))
