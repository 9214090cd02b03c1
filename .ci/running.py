"""Processes that a check starts and that end with it."""

import json
import math
import pathlib
import random
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request


# The check that uses this.
NAME = pathlib.Path(sys.argv[0]).name

taken = set()


def free_port():
    """A port that nobody has, and that nobody is given by the system for a connection before it is listened on: below the
    range that Linux takes those from, 32768 and up. There one could even be connected to oneself."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in taken:
            taken.add(port)
            return port


def eventually(what, seconds, condition):
    """Asks until the answer is true, and returns it."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if answer := condition():
                return answer
        except OSError:
            pass
        if time.monotonic() > deadline:
            raise SystemExit(f"{NAME}: {what}: not within {seconds} s")
        time.sleep(0.1)


class Processes:
    """Ends what it has started, the last first, however the check ends."""

    def __init__(self, folder):
        self.folder = folder
        self.started = {}

    def start(self, name, *command):
        output = open(self.folder / f"{name}.log", "wb")
        self.started[name] = subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            cwd=self.folder)

    def signal(self, name, signal):
        self.started[name].send_signal(signal)

    def stop(self, name):
        process = self.started.pop(name)
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def listens(self, name, port):
        """Waits until a process that was started can be connected to."""
        eventually(f"{name} listens", 60, lambda: self.runs(name) and connects(port))

    def runs(self, name):
        if (status := self.started[name].poll()) is not None:
            raise SystemExit(f"{NAME}: {name} ended with {status}:\n{self.log(name)[-2000:]}")
        return True

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in reversed(list(self.started)):
            self.stop(name)


def connects(port):
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        return True


class Prometheus:
    def __init__(self, port):
        self.base = f"http://127.0.0.1:{port}"

    def get(self, path, **arguments):
        """The data of an answer. A refusal raises ValueError with what was said."""
        query = urllib.parse.urlencode(arguments, doseq=True)
        try:
            with urllib.request.urlopen(f"{self.base}{path}?{query}", timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as refusal:
            if refusal.code not in (400, 422):
                raise  # Not ready yet.
            raise ValueError(json.load(refusal)["error"]) from None

    def numbers(self, expression, since=None):
        """What a query brings: now, or each second since a time."""
        if since is None:
            data = self.get("/api/v1/query", query=expression)["result"]
            values = [one["value"][1] for one in data]
        else:
            data = self.get("/api/v1/query_range", query=expression, start=since, end=time.time(), step=1)["result"]
            values = [value for one in data for _, value in one["values"]]
        return [float(value) for value in values if math.isfinite(float(value))]
