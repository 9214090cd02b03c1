"""Free TCP ports on loopback."""

import fcntl
import functools
import pathlib
import random
import socket
import tempfile

# Below the range from which Linux assigns ports to outgoing connections (32768 and up). A port of that range could be
# assigned before the server binds it, and a client could even connect to itself there.
FIRST, SHARES, SHARE = 20_000, 16, 750

_assigned = set()


@functools.cache
def share():
    """The ports of this process, and a locked file that keeps them: while a server of another process restarts, its port is free."""
    for number in range(SHARES):
        try:
            lock = pathlib.Path(tempfile.gettempdir(), f"cloakroom-ports-{number}").open("a")
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        return range(FIRST + number * SHARE, FIRST + (number + 1) * SHARE), lock
    raise OSError(f"{SHARES} processes use the ports from {FIRST} to {FIRST + SHARES * SHARE - 1}")


def free_port():
    """A port that no process listens on, different from all that this process has been given."""
    while True:
        port = random.choice(share()[0])
        if port in _assigned:
            continue
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
        _assigned.add(port)
        return port


def free_ports(count):
    return [free_port() for _ in range(count)]
