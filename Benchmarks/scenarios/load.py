"""Clients that send requests continuously, retry as RFC 9110 §9.2.2 permits, and count errors."""

import collections
import itertools
import threading

from scenarios import http1, http2

NO_ERROR, REFUSED_STREAM = 0, 7


class Load:
    """Client threads that run until `stop`. `failures` are sentences, `retried` are targets of repeated requests."""

    def __init__(self, gateway):
        self.port, self.tls_port = gateway.port, gateway.tls_port
        self.over = threading.Event()
        self.numbers = itertools.count()
        self.counts = collections.Counter()
        self.failures, self.retried, self.threads = [], [], []
        # Whether a client ends, rather than reconnects, when the gateway closes its connection.
        self.stops_on_close = False

    def start(self, function, count, *arguments):
        for _ in range(count):
            thread = threading.Thread(target=self.guarded, args=(function, arguments), daemon=True)
            self.threads.append(thread)
            thread.start()

    def guarded(self, function, arguments):
        try:
            function(*arguments)
        except Exception as error:
            self.failures.append(f"{function.__name__}: {error!r}")

    def stop(self, seconds=30):
        self.over.set()
        for thread in self.threads:
            thread.join(seconds)
            if thread.is_alive():
                self.failures.append(f"a client is still waiting after {seconds} s")

    def target(self):
        return f"/load/{next(self.numbers)}"

    def is_right(self, client, target, body):
        if client.status == 200 and client.fields.get("x-seen") == target:
            return True
        self.failures.append(f"{target}: {client.status} {body[:100]!r}")
        return False

    # HTTP/1.1

    def short(self):
        """One connection per request."""
        while not self.over.is_set():
            target = self.target()
            try:
                with http1.Client(self.port, timeout=15) as client:
                    self.is_right(client, target, client.get(target))
                    self.counts["short"] += 1
            except (OSError, http1.Closed, http1.Truncated, http1.Malformed) as error:
                self.failures.append(f"{target} on a connection of its own: {error!r}")

    def persistent(self, pause=0):
        """A persistent connection, with a pause before each request (seconds)."""
        client, is_fresh = None, True
        while not self.over.wait(pause) if pause else not self.over.is_set():
            target = self.target()
            try:
                if client is None:
                    client, is_fresh = http1.Client(self.port, timeout=15), True
                self.is_right(client, target, client.get(target))
                self.counts["persistent"] += 1
                is_fresh = False
                if client.persists:
                    continue
                self.counts["Connection: close"] += 1
            except http1.Closed:
                if is_fresh:
                    self.failures.append(f"{target} on a fresh connection: closed without a response")
                else:
                    # Closed while idle as far as the client can see. The upstream's list of requests is checked later.
                    self.counts["closed while idle"] += 1
                    self.retried.append(target)
            except (OSError, http1.Truncated, http1.Malformed) as error:
                self.failures.append(f"{target} on a persistent connection: {error!r}")
            if client:
                client.socket.close()
            client = None
            if self.stops_on_close:
                return

    # HTTP/2

    def streams(self, at_a_time=4):
        """Concurrent streams on one connection until GOAWAY, then on another connection."""
        while not self.over.is_set():
            with http2.Connection(self.tls_port) as connection:
                while not self.over.is_set() and not connection.goaway and not connection.is_ended:
                    streams = {
                        connection.request("GET", target): target
                        for target in [self.target() for _ in range(at_a_time)]
                    }
                    connection.complete(*streams, seconds=15)
                    for stream, target in streams.items():
                        self.record(connection, stream, target)
                        del connection.streams[stream.identifier]
                if connection.goaway:
                    self.counts["GOAWAY"] += 1
            if self.stops_on_close:
                return

    def record(self, connection, stream, target):
        if stream.is_complete and stream.status == 200:
            self.counts["stream"] += 1
        elif stream.reset == REFUSED_STREAM or connection.goaway and stream.identifier > connection.goaway[0]:
            self.counts["REFUSED_STREAM"] += 1
            self.retried.append(target)
        else:
            end = f"status {stream.status}, reset {stream.reset}, GOAWAY {connection.goaway}, "
            end += f"connection {'ended' if connection.is_ended else 'open'} ({connection.failure!r})"
            self.failures.append(f"{target} on HTTP/2: {end}")

    def summary(self):
        return ", ".join(f"{count} × {what}" for what, count in sorted(self.counts.items()))
