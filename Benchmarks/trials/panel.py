"""Counters and settings of one origin in a file that the origin and the trial both map into memory.

The file outlives the origin, so that counts survive kill -9, and settings change without a request. Each slot has one
writer: the origin writes counters, the trial writes settings.
"""

import mmap
import pathlib
import struct

COUNTERS = (
    "requests",  # all but health checks
    "checks",  # requests for /health
    "connections",  # accepted
    "open",  # accepted and not closed
    "aborted",  # connections that the peer closed before the response was sent
    "last_request",  # nanoseconds of the monotonic clock, as are the following
    "last_check",
    "last_abort",
)
SETTINGS = (
    "status",  # of responses; 0 is 200
    "delay",  # before the response head, in microseconds
    "health_status",  # of /health; 0 is that of `status`
    "broken_status",  # of /broken; 0 is 200
)
NAMES = COUNTERS + SETTINGS
SIZE = 8 * len(NAMES)


class Panel:
    """The mapped file. Attributes are the names above."""

    def __init__(self, path, create=False):
        path = pathlib.Path(path)
        if create:
            path.write_bytes(bytes(SIZE))
        with path.open("r+b") as file:
            self.__dict__["memory"] = mmap.mmap(file.fileno(), SIZE)

    def __getattr__(self, name):
        if name not in NAMES:
            raise AttributeError(name)
        return struct.unpack_from("<Q", self.memory, 8 * NAMES.index(name))[0]

    def __setattr__(self, name, value):
        # An aligned slot of eight bytes: the other process sees the old value or the new one.
        struct.pack_into("<Q", self.memory, 8 * NAMES.index(name), int(value))
