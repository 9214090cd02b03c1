"""Processes that a check starts and that end with it."""

import json
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


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
            raise SystemExit(f"queries: {what}: not within {seconds} s")
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

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in reversed(list(self.started)):
            self.stop(name)


def connects(port):
    with socket.create_connection(("127.0.0.1", port), timeout=1):
        return True


class Prometheus:
    def __init__(self, port):
        self.base = f"http://127.0.0.1:{port}"

    def get(self, path, **arguments):
        """The data of an answer. A refusal raises ValueError with what was said."""
        query = urllib.parse.urlencode(arguments, doseq=True)
        try:
            with urllib.request.urlopen(f"{self.base}{path}?{query}", timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as refusal:
            if refusal.code not in (400, 422):
                raise  # Not ready yet.
            raise ValueError(json.load(refusal)["error"]) from None
