"""Child processes: started on demand, stopped by process id."""

import contextlib
import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import time

from harness.command import Failure


def allow_many_files(wanted=65_536):
    """Raises the limit on open files of this process and its children, beyond the hard limit if permitted."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(hard, wanted), max(hard, wanted)))
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def two_cores():
    """The core for the gateway and the core for everything else."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise Failure("two cores are required: one for the gateway, one for the load generator and the upstream")
    return cores[0], cores[1]


def wait_until(description, seconds, condition):
    """Polls a condition until it is true, and returns its value. An OSError counts as false."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError):
            if value := condition():
                return value
        if time.monotonic() > deadline:
            raise Failure(f"not within {seconds} s: {description}")
        time.sleep(0.05)


class Process:
    """A running command. It has a process group of its own, so that Ctrl-C reaches it only through this program."""

    def __init__(self, name, command, log, core=None, environment=None, folder=None):
        self.name = name
        self.log = log
        pin = ["taskset", "--cpu-list", str(core)] if core is not None else []
        with open(log, "wb") as output:
            self.process = subprocess.Popen(
                [*pin, *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                cwd=folder,
                start_new_session=True,
            )
        self.pid = self.process.pid
        self.is_stopped = False

    def wait_for_port(self, port, seconds=20):
        """Waits until the port accepts connections."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.check()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return
            time.sleep(0.05)
        raise Failure(f"{self.name} does not listen on port {port} after {seconds} s\n{self.last_lines()}")

    @property
    def is_running(self):
        return self.process.poll() is None

    def check(self):
        """Fails if the process has ended, otherwise returns true."""
        if not self.is_running:
            raise Failure(f"{self.name} ended with status {self.process.returncode}\n{self.last_lines()}")
        return True

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self, seconds=20):
        """Sends SIGTERM, then SIGKILL to what remains of its process group. Returns its exit status."""
        if self.is_stopped:
            return self.process.returncode
        self.is_stopped = True
        if self.is_running:
            self.process.terminate()
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                print(f"{self.name} did not end within {seconds} s of SIGTERM; killed", file=sys.stderr)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        return self.process.wait()

    def output(self):
        """What it has written so far; nothing if its log is a pipe."""
        if pathlib.Path(self.log).is_fifo():
            return ""
        return pathlib.Path(self.log).read_text(errors="replace")

    def last_lines(self, count=10):
        return "\n".join(f"    {line}" for line in self.output().splitlines()[-count:])


class ProcessGroup:
    """Processes with logs in one folder. All are stopped on exit, the last one first."""

    def __init__(self, folder):
        self.folder = folder
        self.processes = {}
        self.stack = contextlib.ExitStack()

    def __getitem__(self, name):
        return self.processes[name]

    def start(self, name, command, port=None, log=None, seconds=20, **options):
        """Starts a process and, with a port, waits until it listens. `options` are those of Process."""
        key = name if name not in self.processes else f"{name}-{len(self.processes)}"
        process = Process(name, command, log or self.folder / f"{key}.log", **options)
        self.processes[key] = process
        self.stack.callback(process.stop)
        if port is not None:
            process.wait_for_port(port, seconds)
        return process

    def stop_all(self):
        self.stack.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop_all()
