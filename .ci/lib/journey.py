"""Runs the commands of a page and compares what they print.

Marks before a fence:
    <!-- run -->                  commands, run by bash in a folder with the page's configurations, the folder `deploy` of the
                                  repository, and `cloakroom` and `cloakroom-demo` on PATH
    <!-- run: background PORT --> a server; it has started when the port accepts connections, and ends with the page
    <!-- stop: PORT -->           ends the server of a port; without a fence
    <!-- prints -->               the output of the last commands, complete
    <!-- prints: PORT -->         lines that the server of a port has printed
    <!-- config-example: NAME --> a configuration, as in check-docs

Ports of four digits that a background command listens on are replaced by free ones. Times, identifiers and numbers with
a decimal point differ from run to run and are not compared.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from harness.gateway import demo_program

STEP = re.compile(
    r"^<!-- (?P<mark>run|prints|stop|config-example)(?:: (?P<rest>.*?))? -->$(?:\n```\w+\n(?P<content>.*?)^```$)?",
    re.MULTILINE | re.DOTALL)
VARYING = [
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"\b\w{3}, \d\d \w{3} \d{4} [\d:]+ GMT"), "TIME"),
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "HEX"),
    (re.compile(r"(__Host-cloakroom|cloakroom)=[\w-]{43}"), r"\1=TICKET"),
    (re.compile(r"(?<![\d.])\d+\.\d+(?:e-\d+)?(?![\d.])"), "NUMBER"),
]


def normalised(text):
    for pattern, name in VARYING:
        text = pattern.sub(name, text)
    return text.strip()


def has_journey(text):
    return "<!-- run" in text


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


class Journey:
    def __init__(self, binary, top, folder):
        self.folder = Path(folder)
        self.servers = {}
        self.ports = {}
        (self.folder / "bin").mkdir()
        (self.folder / "bin/cloakroom").symlink_to(binary)
        (self.folder / "bin/cloakroom-demo").symlink_to(demo_program(binary))
        (self.folder / "deploy").symlink_to(top / "deploy")
        self.environment = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "HOME": str(self.folder)}

    def placed(self, text):
        """The text with the ports of this run."""
        for shown, port in self.ports.items():
            text = re.sub(rf"\b{shown}\b", port, text)
        return text

    def shown(self, text):
        """The text with the ports of the page."""
        for shown, port in self.ports.items():
            text = re.sub(rf"\b{port}\b", shown, text)
        return text

    def run(self, commands):
        result = subprocess.run(
            ["bash", "-c", self.placed(commands)], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        return self.shown(result.stdout)

    def start(self, commands, port):
        log = open(self.folder / f"{port}.log", "w+")
        server = subprocess.Popen(
            ["bash", "-c", self.placed(commands)], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        self.servers[port] = server
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and server.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", int(self.ports[port])), 1):
                return None
            time.sleep(0.05)
        log.seek(0)
        return f"nothing listens on port {port}:\n{self.shown(log.read())}"

    def missing(self, lines, port):
        log = normalised(self.shown((self.folder / f"{port}.log").read_text()))
        absent = [line for line in lines.splitlines() if normalised(line) not in log.splitlines()]
        return f"the server of port {port} has not printed {absent}, but:\n{log}" if absent else None

    def stop(self, port):
        server = self.servers.pop(port)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def failures(binary, top, text):
    """Runs the page. Yields (position in the text, what differs)."""
    steps = list(STEP.finditer(text))
    with tempfile.TemporaryDirectory() as made:
        journey = Journey(binary, top, made)
        files = "".join(step["content"] or "" for step in steps if step["mark"] == "config-example")
        commands = "".join(step["content"] or "" for step in steps if step["mark"] == "run")
        for port in sorted(set(re.findall(r":(\d{4})\b", files + commands))):
            journey.ports[port] = free_port()
        # The default port may be in use.
        if "9464" not in journey.ports: journey.environment["CLOAKROOM_ADMIN_ADDRESS"] = "127.0.0.1:0"
        output = ""
        try:
            for step in steps:
                mark, rest, content = step["mark"], step["rest"] or "", step["content"]
                if mark == "config-example":
                    (journey.folder / rest).write_text(journey.placed(content))
                elif mark == "stop":
                    journey.stop(rest)
                elif mark == "prints" and rest:
                    if problem := journey.missing(content, rest):
                        yield step.start(), problem
                elif mark == "prints":
                    if normalised(output) != normalised(content):
                        yield step.start(), f"the commands print:\n{output}"
                elif rest.startswith("background "):
                    if problem := journey.start(content, rest.split()[1]):
                        yield step.start(), problem
                        return
                else:
                    output = journey.run(content)
        finally:
            for port in list(journey.servers):
                journey.stop(port)
