"""CPU time, memory and descriptors of processes, from /proc (Linux only)."""

import contextlib
import os
import pathlib
import re
import threading

from harness.command import Failure

MIB = 2**20
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def process_tree(pid):
    """A process and all its descendants."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                children.setdefault(int(_stat_fields(entry)[1]), []).append(int(entry))
    tree = [pid]
    for each in tree:
        tree += children.get(each, [])
    return tree


def _stat_fields(pid):
    """The fields of /proc/PID/stat from the state on: the name before them may contain any character."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def cpu_seconds(pid):
    """User and system time of a process tree so far, in seconds."""
    user = system = 0
    for each in process_tree(pid):
        with contextlib.suppress(OSError):
            fields = _stat_fields(each)
            user += int(fields[11])
            system += int(fields[12])
    return user / TICKS_PER_SECOND, system / TICKS_PER_SECOND


def precise_cpu_seconds(pid):
    """The sum of both, with a resolution of nanoseconds instead of 10 ms; without threads that have ended."""
    nanoseconds = 0
    for each in process_tree(pid):
        for file in pathlib.Path(f"/proc/{each}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                nanoseconds += int(file.read_text().split()[0])
    return nanoseconds / 1e9


def resident_bytes(pid):
    """Resident memory of one process in bytes; OSError if it has ended."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def tree_resident_bytes(pid):
    """Resident memory of a process tree in bytes; 0 if there is no such process."""
    total = 0
    for each in process_tree(pid):
        with contextlib.suppress(OSError):
            total += resident_bytes(each)
    return total


def descriptor_count(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


class MemorySamples(threading.Thread):
    """Samples the resident memory of a gateway every 100 ms while a block runs."""

    def __init__(self, gateway):
        super().__init__(daemon=True)
        self.gateway, self.over = gateway, threading.Event()
        self.before = self.highest = gateway.resident()
        self.count = 0
        self.failure = None

    def run(self):
        while not self.over.wait(0.1):
            try:
                self.highest = max(self.highest, self.gateway.resident())
            except Failure as failure:
                self.failure = failure
                return
            self.count += 1

    @property
    def growth(self):
        return self.highest - self.before

    def __str__(self):
        return (
            f"RSS {self.before / MIB:.1f} MiB, at most {self.highest / MIB:.1f} MiB "
            f"(+{self.growth / MIB:.1f}) in {self.count} samples"
        )

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, *_):
        self.over.set()
        self.join()
        if self.failure and kind is None:
            raise self.failure
