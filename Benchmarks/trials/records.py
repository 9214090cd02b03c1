"""The records of one open loop, and what is computed of them."""

import bisect
import json
import math
import pathlib


class Records:
    """Requests with their due time in seconds, ordered by it."""

    def __init__(self, document):
        self.due, self.latency = document["due"], document["latency"]
        self.status, self.origin = document["status"], document["origin"]
        self.reconnected = document["reconnected"]

    @classmethod
    def read(cls, file):
        return cls(json.loads(pathlib.Path(file).read_text()))

    def range(self, start=0.0, end=math.inf):
        """The indices of requests that were due in a period."""
        return range(bisect.bisect_left(self.due, start), bisect.bisect_left(self.due, end))

    def count(self, start=0.0, end=math.inf):
        return len(self.range(start, end))

    def errors(self, start=0.0, end=math.inf, statuses=None):
        """The number of responses other than 200, or only of these statuses."""
        found = [self.status[index] for index in self.range(start, end)]
        return sum(status != 200 if statuses is None else status in statuses for status in found)

    def error_times(self, statuses=None):
        return [
            self.due[index]
            for index, status in enumerate(self.status)
            if (status != 200 if statuses is None else status in statuses)
        ]

    def victims(self, milliseconds, start=0.0, end=math.inf):
        """Requests that failed or were slower than this."""
        return sum(self.latency[index] > milliseconds or self.status[index] != 200 for index in self.range(start, end))

    def slow(self, milliseconds, start=0.0, end=math.inf):
        """Requests that were slower than this, whatever their status."""
        return sum(self.latency[index] > milliseconds or self.status[index] == -1 for index in self.range(start, end))

    def percentile(self, share, start=0.0, end=math.inf):
        """The latency in ms that this share of the requests does not exceed; a missing response counts as infinite."""
        found = self.range(start, end)
        values = sorted(self.latency[index] if self.status[index] != -1 else math.inf for index in found)
        return values[max(0, math.ceil(len(values) * share) - 1)] if values else math.nan

    def share(self, origin, start=0.0, end=math.inf):
        """The share of successful responses that came from an origin."""
        found = [self.origin[index] for index in self.range(start, end) if self.status[index] == 200]
        return sum(name == origin for name in found) / len(found) if found else 0.0

    def share_is_back(self, origin, since, wanted, width=2.0, end=math.inf):
        """Seconds from `since` until the origin has the wanted share of the requests of `width` seconds, or None."""
        end = min(end, self.due[-1])
        start = since
        while start + width <= end:
            if self.share(origin, start, start + width) >= wanted:
                return start + width - since
            start += 0.25
        return None

    def statuses(self):
        counts = {}
        for status in self.status:
            if status != 200:
                counts[status] = counts.get(status, 0) + 1
        return counts
