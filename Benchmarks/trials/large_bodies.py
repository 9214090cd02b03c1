"""Trial 9: large bodies of slow clients over HTTP/2 to the origin, next to small requests on the same connections."""

import collections
import math
import shutil
import socket
import threading
import time

from harness.command import Failure
from harness.measure import MIB, tree_resident_bytes
from harness.ports import free_port
from harness.process import Process
from trials.policy import Policy
from trials.trial import Trial

RATE = 1_000_000
"""Bytes per second of the slow clients."""
PIECE = 20_000


class LargeBodies(Trial):
    name = "9 large bodies"
    title = "a download and an upload at 1 MB/s each over HTTP/2 to nghttpd, and the open loop"
    policy = Policy(protocol="h2c", has_long_bodies=True)
    contenders = ("cloakroom", "envoy", "haproxy")
    least_seconds = 20
    paths = ("/document",)

    def adapt(self, lane):
        if lane.contender == "cloakroom" and self.options.baseline:
            raise Failure("HTTP/2 to upstreams needs keys that older versions reject")
        if not shutil.which("nghttpd"):
            raise Failure("nghttpd is missing: deploy/packages.sh nghttpd=nghttp2-server")
        lane.origins = []
        port = free_port()
        lane.folder.joinpath("document").write_bytes(b"x" * 650)
        with lane.folder.joinpath("large").open("wb") as file:
            file.truncate(self.size)
        command = ["nghttpd", "--no-tls", "-a", "127.0.0.1", "-d", str(lane.folder), str(port)]
        process = Process("nghttpd", command, lane.folder / "nghttpd.log")
        lane.helpers.append(process)
        process.wait_for_port(port)
        lane.names = [("127.0.0.1", port)]

    @property
    def size(self):
        """100 MB if the trial is long enough, else what passes in its time."""
        return int(min(100_000_000, RATE * (self.seconds - 6)))

    def script(self, lane):
        lane.at(2)
        before = self.resident(lane)
        lane.facts["received"] = collections.Counter()
        threads = [
            threading.Thread(target=function, args=(lane,), daemon=True) for function in (self.download, self.upload)
        ]
        for thread in threads:
            thread.start()
        highest = before
        while any(thread.is_alive() for thread in threads) and lane.now() < self.seconds + 20:
            highest = max(highest, self.resident(lane))
            time.sleep(0.1)
        lane.facts["growth"] = round((highest - before) / MIB, 1)

    @staticmethod
    def resident(lane):
        return tree_resident_bytes(lane.gateway.pid)

    def download(self, lane):
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            client.settimeout(20)
            client.connect(("127.0.0.1", lane.port))
            client.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
            start, count = time.monotonic(), 0
            try:
                while count < self.size and (piece := client.recv(PIECE)):
                    count += len(piece)
                    time.sleep(max(0, start + count / RATE - time.monotonic()))
            except OSError:
                pass
            lane.facts["received"]["down"] = count

    def upload(self, lane):
        with socket.socket() as client:
            client.settimeout(20)
            client.connect(("127.0.0.1", lane.port))
            client.sendall(b"POST /document HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % self.size)
            start, count = time.monotonic(), 0
            try:
                while count < self.size:
                    piece = bytes(min(PIECE, self.size - count))
                    client.sendall(piece)
                    count += len(piece)
                    time.sleep(max(0, start + count / RATE - time.monotonic()))
                status = client.recv(4_096)[9:12]
            except OSError:
                status = b""
            lane.facts["received"]["up"] = count
            lane.facts["upload status"] = status.decode()

    def judge(self, lane, machine):
        received = lane.facts["received"]
        figures = f"{received['down']} down, {received['up']} up with status {lane.facts.get('upload status')}"
        is_complete = received["down"] >= self.size == received["up"] and lane.facts.get("upload status") == "200"
        lane.goal(f"both bodies of {self.size / 1e6:.0f} MB are complete", is_complete, figures)
        lane.at_most("growth of memory", lane.facts["growth"], 16, "MiB")
        p99, noise = lane.records.percentile(0.99), machine.records.percentile(0.99)
        lane.at_most("p99 of others", p99, max(50, 40 + noise), "ms", is_timing=True)
        errors = lane.records.errors()
        lane.goal("others do not fail", errors == 0, f"{errors}")

    def row(self, lane):
        return super().row(lane) | {"attempts": math.nan}


TRIALS = (LargeBodies,)
