"""A well-behaved client that shows whether a scenario affects other clients."""

import json
import math
import threading
import time

from scenarios import http1


class BystanderClient(threading.Thread):
    """Opens a connection every 50 ms, sends a request and checks its response, while a block runs."""

    def __init__(self, gateway):
        super().__init__(daemon=True)
        self.port, self.over = gateway.port, threading.Event()
        self.seconds, self.failures = [], []

    def run(self):
        number = 0
        while not self.over.wait(0.05):
            number += 1
            start = time.monotonic()
            try:
                with http1.Client(self.port, timeout=5) as client:
                    body = client.get(f"/bystander/{number}")
                    if client.status != 200 or json.loads(body)["path"] != f"/bystander/{number}":
                        self.failures.append(f"{client.status} {body[:80]!r}")
            except (OSError, ValueError, http1.Closed, http1.Truncated, http1.Malformed) as error:
                self.failures.append(repr(error))
            self.seconds.append(time.monotonic() - start)

    def percentile(self, share):
        return sorted(self.seconds)[max(0, math.ceil(len(self.seconds) * share) - 1)] if self.seconds else math.inf

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()

    def check(self, checks, statement, p99=0.5, highest=3.0):
        """Expects that no request failed and that response times stayed below the limits (seconds)."""
        figures = f"{len(self.seconds)} requests, {len(self.failures)} failed, "
        figures += f"p50 {self.percentile(0.5) * 1e3:.1f} ms, p99 {self.percentile(0.99) * 1e3:.1f} ms, "
        figures += f"max {self.percentile(1) * 1e3:.1f} ms"
        for failure in self.failures[:5]:
            checks.note(f"bystander: {failure}")
        is_served = not self.failures and self.percentile(0.99) <= p99 and self.percentile(1) <= highest
        checks.expect(statement, is_served and bool(self.seconds), figures)
