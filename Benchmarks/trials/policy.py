"""What a trial asks of each gateway, in words that all of them have."""

import dataclasses

CONNECT_TIMEOUT = 1.0
LOOPS = 4


@dataclasses.dataclass(frozen=True)
class Policy:
    """Settings of one trial. Times are in seconds. Defaults are those of the gateway."""

    attempts: int = 2
    """Sends of one request at most; 1: no retries."""
    statuses: tuple = ()
    """Statuses that are retried."""
    balance: str = "latency"
    """latency, requests or roundRobin. A gateway without `latency` uses the fewest requests."""
    is_ejecting: bool = True
    has_checks: bool = False
    """Health checks each second with a timeout of 500 ms; two failures mark a target as down."""
    head_timeout: float = 30.0
    max_connections: int = 1024
    body_timeout: float = 30.0
    """How long a client may take in which it sends or reads nothing, where a gateway has such a limit."""
    has_long_bodies: bool = False
    """Whether responses may take longer than the head timeout."""
    name: str = ""
    """A DNS name whose addresses are the targets, instead of the list of origins."""
    name_server: tuple = ()
    """Address and port of the DNS server for this name."""
    interval: float = 1.0
    """Between DNS queries."""
    protocol: str = "http1"
    """To the targets: http1, h2c or http2."""
    listens: str = "http1"
    """From clients: http1 or h2c."""
