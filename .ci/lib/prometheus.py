"""A client of Prometheus' HTTP API."""

import json
import math
import time
import urllib.error
import urllib.parse
import urllib.request


class Prometheus:
    def __init__(self, port):
        self.base = f"http://127.0.0.1:{port}"

    def get(self, path, **arguments):
        """The data of a response. A rejected query raises ValueError with Prometheus' message."""
        query = urllib.parse.urlencode(arguments, doseq=True)
        try:
            with urllib.request.urlopen(f"{self.base}{path}?{query}", timeout=30) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            if error.code not in (400, 422):
                raise  # Not ready yet.
            raise ValueError(json.load(error)["error"]) from None

    def numbers(self, expression, since=None):
        """The finite values of a query: the current ones, or one per second since a time."""
        if since is None:
            data = self.get("/api/v1/query", query=expression)["result"]
            values = [one["value"][1] for one in data]
        else:
            data = self.get("/api/v1/query_range", query=expression, start=since, end=time.time(), step=1)["result"]
            values = [value for one in data for _, value in one["values"]]
        return [float(value) for value in values if math.isfinite(float(value))]
