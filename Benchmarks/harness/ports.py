"""Free TCP ports on loopback."""

import random
import socket

# Below the range from which Linux assigns ports to outgoing connections (32768 and up). A port of that range could be
# assigned before the server binds it, and a client could even connect to itself there.
FIRST, LAST = 20_000, 31_999

_assigned = set()


def free_port():
    """A port that no process listens on, different from all that this process has been given."""
    while True:
        port = random.randint(FIRST, LAST)
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
