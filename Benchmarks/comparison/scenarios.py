"""The kinds of load. Each scenario measures one gateway at a time and returns a sample: figures by name."""

import contextlib
import dataclasses
import time

from comparison import loads
from comparison.gateways import REFERENCES, file_route, more_routes
from comparison.idle import IdleConnections
from harness.command import Failure
from harness.environment import LARGE_BODY
from harness.http import request
from harness.measure import MIB, cpu_seconds, precise_cpu_seconds, tree_resident_bytes
from harness.ports import free_port

WARM_UP_SECONDS = 1

# What a script in a browser's page sends, without Host and Cookie: 15 fields.
BROWSER_FIELDS = {
    "Connection": "keep-alive",
    "sec-ch-ua-platform": '"Linux"',
    "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36",
    "Accept": "application/json, text/plain, */*",
    "sec-ch-ua": '"Not)A;Brand";v="8", "Chromium";v="138", "Google Chrome";v="138"',
    "X-Requested-With": "XMLHttpRequest",
    "sec-ch-ua-mobile": "?0",
    "Sec-Fetch-Site": "same-origin",
    "Sec-Fetch-Mode": "cors",
    "Sec-Fetch-Dest": "empty",
    "Referer": "https://www.example.com/series/12?season=3",
    "Accept-Encoding": "gzip, deflate, br, zstd",
    "Accept-Language": "en-GB,en;q=0.9,de;q=0.8",
    "Cache-Control": "no-cache",
    "Pragma": "no-cache",
}


@dataclasses.dataclass
class Setting:
    """What all samples of a run have in common."""

    environment: object
    gateway_core: int
    load_core: int
    seconds: int
    bulk_megabytes: int


@dataclasses.dataclass
class Column:
    """A column of the table: a figure of the samples."""

    title: str
    figure: str
    digits: int = 1
    scale: float = 1


class Scenario:
    """Small requests as fast as responses arrive: CPU time per request."""

    figure = "cpu"
    unit = "µs CPU/request"
    # Baselines that cannot do it.
    excluded = ()
    columns = (
        Column("user", "user"), Column("requests/s", "rate", 0), Column("unexpected", "unexpected", 0),
        Column("RSS MiB", "resident", 0, 1 / MIB),
    )  # fmt: skip

    def __init__(self, name, protocol, title, path="/videos/1", status=200, only_product=False, share_of=None):
        self.name = name
        self.protocol = loads.PROTOCOLS[protocol]
        self.title = f"{self.protocol.title}{', ' if title else ''}{title}"
        self.path = path
        self.status = status
        self.only_product = only_product
        # The scenario of the same gateway whose figure this one's is compared with, besides the other gateways.
        self.share_of = share_of

    # Parts that kinds of scenarios replace.

    def adapt(self, gateway, setting):
        """The gateway in the configuration of this scenario."""
        return gateway

    def core(self, setting):
        return setting.gateway_core

    def headers(self, gateway):
        return {"Cookie": f"theme=dark; {gateway.cookie}"}

    def prepared(self, gateway):
        """A context in which the load is applied; it may yield further figures."""
        return contextlib.nullcontext({})

    def load(self, gateway, seconds, setting):
        url = gateway.url(self.protocol.scheme, self.path)
        headers, core = self.headers(gateway), setting.load_core
        if self.protocol.name == "h1":
            return loads.wrk(url, headers, self.protocol.connections, seconds, core, self.status)
        # TLS costs wrk more than the gateway.
        return loads.h2load(self.protocol, [url], headers, core, self.status, seconds)

    def expect(self, gateway):
        """Sends one request, so that a wrong response is reported before a million of them are counted."""
        url = gateway.url(self.protocol.scheme, self.path)
        headers = {name: value for name, value in self.headers(gateway).items() if name != "Connection"}
        status, _, body = request(url, headers=headers)
        if status != self.status:
            raise Failure(f"{url}: status {status}, expected {self.status}: {body[:200]!r}")

    # The measurement.

    def prepare(self, gateways, setting):
        """Called once before the first sample."""

    def measure(self, gateway, setting):
        """Starts the gateway, warms it up, takes one sample and stops it."""
        gateway = self.adapt(gateway, setting)
        with gateway.running(self.core(setting)) as process:
            self.expect(gateway)
            with self.prepared(gateway) as figures:
                self.load(gateway, WARM_UP_SECONDS, setting)
                return {**self.sample(gateway, process, setting), **figures}

    def sample(self, gateway, process, setting):
        user, total = cpu_seconds(process.pid)[0], precise_cpu_seconds(process.pid)
        load = self.load(gateway, setting.seconds, setting)
        user_after, total_after = cpu_seconds(process.pid)[0], precise_cpu_seconds(process.pid)
        if not load.requests:
            raise Failure("no response")
        return {
            "cpu": (total_after - total) / load.requests * 1e6,
            "user": (user_after - user) / load.requests * 1e6,
            "rate": load.rate,
            "unexpected": load.unexpected,
            "resident": tree_resident_bytes(process.pid),
        }


class Unauthorized(Scenario):
    """No cookie: 401 without a request to the upstream."""

    def headers(self, gateway):
        return {}


class Browser(Scenario):
    """17 fields, and a path that the connection has not requested before."""

    PATHS = 20_000

    def headers(self, gateway):
        fields = {**BROWSER_FIELDS, **super().headers(gateway)}
        if self.protocol.name == "h2":
            del fields["Connection"]
        return fields

    def load(self, gateway, seconds, setting):
        # h2load sends the list from its start on every connection.
        file = setting.environment.folder / f"paths-{gateway.name}"
        base = gateway.url(self.protocol.scheme, "")
        file.write_text("".join(f"{base}/videos/{417_515_716 + number}\n" for number in range(self.PATHS)))
        target = [f"--input-file={file}"]
        return loads.h2load(self.protocol, target, self.headers(gateway), setting.load_core, self.status, seconds)


class Routes(Scenario):
    """A configuration with a number of routes."""

    def __init__(self, count, **options):
        super().__init__(f"routes-{count}", "h1", f"{count:,} route{'s' if count > 1 else ''}", only_product=True, **options)
        self.count = count

    def adapt(self, gateway, setting):
        return gateway.variant(self.name, MORE_ROUTES=more_routes(self.count - 1))


class Loops(Scenario):
    """Two event loops, processes or threads. On two cores they share one with the load generator and the upstream."""

    def adapt(self, gateway, setting):
        return gateway.variant(self.name, workers=2)

    def core(self, setting):
        return f"{setting.gateway_core},{setting.load_core}"


class Idle(Scenario):
    """The same load while idle connections are open."""

    columns = (*Scenario.columns, Column("KiB/idle connection", "idle_bytes", 1, 1 / 1_024))
    COUNT = 5_000
    # Longer than the time after which the gateway releases the memory of a connection's last request.
    QUIET_SECONDS = 5

    def __init__(self, name, protocol, title, idle_path=None):
        super().__init__(name, protocol, title)
        self.idle_path = idle_path or self.path

    @contextlib.contextmanager
    def prepared(self, gateway):
        before = tree_resident_bytes(gateway.process.pid)
        with IdleConnections(gateway, self.protocol, self.idle_path, self.headers(gateway), self.COUNT):
            time.sleep(self.QUIET_SECONDS)
            yield {"idle_bytes": (tree_resident_bytes(gateway.process.pid) - before) / self.COUNT}


class Bulk(Scenario):
    """Large bodies: CPU time per GB (10⁹ bytes). Four connections with one body each."""

    BODIES = 4
    figure = "cpu"
    unit = "s CPU/GB"
    columns = (
        Column("MB/s", "megabytes", 0), Column("unexpected", "unexpected", 0), Column("RSS MiB", "resident", 0, 1 / MIB),
        Column("RSS growth MiB", "growth", 1, 1 / MIB),
    )  # fmt: skip

    def __init__(self, name, protocol, is_upload):
        super().__init__(name, protocol, "large request bodies" if is_upload else "large response bodies", path="/videos/1")
        self.is_upload = is_upload
        self.client = dataclasses.replace(self.protocol, connections=self.BODIES, streams=1)

    def prepare(self, gateways, setting):
        environment = setting.environment
        self.port = free_port()
        tokens = (environment.access_token, environment.refresh_token, environment.api_token)
        environment.start_module(
            "comparison.bulk_upstream", str(self.port), *tokens, port=self.port, core=setting.load_core
        )

    def adapt(self, gateway, setting):
        return gateway.variant(self.name, UPSTREAM_PORT=self.port)

    def transfer(self, gateway, megabytes, setting):
        size = megabytes * 1_000_000 // self.BODIES
        url = gateway.url(self.protocol.scheme, f"/videos/{size}")
        # Windows as large as those of browsers: without them the generator would limit no sender.
        options = ["--window-bits=22", "--connection-window-bits=24"]
        if self.is_upload:
            file = setting.environment.folder / f"body-{size}"
            if not file.exists():
                file.write_bytes(bytes(size))
            options.append(f"--data={file}")
        return loads.h2load(
            self.client, [url], self.headers(gateway), setting.load_core, self.status, requests=self.BODIES, options=options
        )

    def measure(self, gateway, setting):
        gateway = self.adapt(gateway, setting)
        with gateway.running(self.core(setting)) as process:
            self.expect(gateway)
            self.transfer(gateway, 40, setting)
            before, total = tree_resident_bytes(process.pid), precise_cpu_seconds(process.pid)
            load = self.transfer(gateway, setting.bulk_megabytes, setting)
            after, total_after = tree_resident_bytes(process.pid), precise_cpu_seconds(process.pid)
            return {
                "cpu": (total_after - total) / setting.bulk_megabytes * 1_000,
                "megabytes": setting.bulk_megabytes / load.seconds,
                "unexpected": load.unexpected + self.BODIES - load.requests,
                "resident": after,
                "growth": after - before,
            }


class Files(Scenario):
    """A file of the gateway's folder, without a session. HAProxy serves no files."""

    SIZES = {"small.html": 650, "large.js": 100 * 1_024, "bulk.bin": 250_000_000}
    excluded = ("haproxy", "envoy")

    def __init__(self, name, protocol, file):
        super().__init__(name, protocol, f"a file of {self.SIZES[file]:,} bytes", path=f"/files/{file}")

    def headers(self, gateway):
        return {}

    def prepare(self, gateways, setting):
        folder = setting.environment.folder / "files"
        folder.mkdir(exist_ok=True)
        for file, size in self.SIZES.items():
            if not (folder / file).exists():
                with (folder / file).open("wb") as stream:
                    stream.truncate(size)

    def adapt(self, gateway, setting):
        return gateway.variant(self.name, MORE_ROUTES=file_route(setting.environment.folder / "files"))


class LargeFiles(Files):
    """Large files: CPU time per GB (10⁹ bytes). Four connections with one file each."""

    FILES = 4
    unit = "s CPU/GB"
    columns = (
        Column("MB/s", "megabytes", 0), Column("unexpected", "unexpected", 0), Column("RSS MiB", "resident", 0, 1 / MIB),
    )  # fmt: skip

    def load(self, gateway, seconds, setting):
        client = dataclasses.replace(self.protocol, connections=self.FILES, streams=1)
        windows = ["--window-bits=22", "--connection-window-bits=24"]
        url = gateway.url(self.protocol.scheme, self.path)
        return loads.h2load(
            client, [url], {}, setting.load_core, self.status, requests=self.FILES, options=windows)  # fmt: skip

    def expect(self, gateway):
        """The first load is the warm-up, which fails for another status."""

    def sample(self, gateway, process, setting):
        total = precise_cpu_seconds(process.pid)
        load = self.load(gateway, None, setting)
        gigabytes = self.FILES * self.SIZES["bulk.bin"] / 1e9
        return {
            "cpu": (precise_cpu_seconds(process.pid) - total) / gigabytes,
            "megabytes": gigabytes * 1_000 / load.seconds,
            "unexpected": load.unexpected + self.FILES - load.requests,
            "resident": tree_resident_bytes(process.pid),
        }


class Latency(Scenario):
    """Requests at a constant rate, open loop: half of what the gateway can serve, and the same rate for all.

    The rate is that of the slowest of the product and the references. A slower gateway is measured at half of its own.
    """

    figure = "p99"
    unit = "p99 µs"
    columns = (
        Column("p50", "p50", 0), Column("p99.9", "p999", 0), Column("added p50", "added_p50", 0),
        Column("added p99", "added_p99", 0), Column("added p99.9", "added_p999", 0), Column("requests/s", "rate", 0),
        Column("unexpected", "unexpected", 0), Column("generator's delay p99", "delay_p99", 0),
    )  # fmt: skip

    def prepare(self, gateways, setting):
        self.generator = loads.OpenLoop(setting.environment.folder)
        half = {}
        for gateway in gateways:
            with gateway.running(self.core(setting)):
                self.expect(gateway)
                self.load(gateway, WARM_UP_SECONDS, setting)
                half[gateway.name] = self.load(gateway, 2, setting).rate / 2
        leaders = [half[name] for name in ("cloakroom", *REFERENCES) if name in half]
        common = min(leaders, default=max(half.values()))
        self.rates = {name: min(rate, common) for name, rate in half.items()}

    def percentiles(self, port, headers, rate, setting, protocol):
        result = self.generator.run(protocol, port, self.path, headers, rate, setting.seconds, setting.load_core)
        if result["unfinished"]:
            raise Failure(f"{result['unfinished']} requests had no response 5 s after the end")
        return result

    def measure(self, gateway, setting):
        rate, environment = self.rates[gateway.name], setting.environment
        injected = {"X-API-TOKEN": environment.api_token, "Authorization": f"Bearer {environment.access_token}"}
        # The upstream accepts clear text only, so that added latencies over TLS include TLS.
        clear = loads.PROTOCOLS["h1"]
        direct = self.percentiles(environment.upstream_port, injected, rate, setting, clear)
        with gateway.running(self.core(setting)):
            self.expect(gateway)
            through = self.percentiles(
                self.protocol.port(gateway), self.headers(gateway), rate, setting, self.protocol
            )
        added = {f"added_{name}": through[name] - direct[name] for name in ("p50", "p99", "p999")}
        time.sleep(0.1)
        return {**through, **added, "rate": rate}


def _all():
    for protocol in loads.PROTOCOLS:
        load = loads.PROTOCOLS[protocol]
        streams = f" of {load.streams} streams" if load.streams > 1 else ""
        yield "main", Scenario(protocol, protocol, f"{load.connections} connections{streams}")
        yield "unauthorized", Unauthorized(f"unauthorized-{protocol}", protocol, "401 without a session", status=401, share_of=protocol)
        yield "browser", Browser(f"browser-{protocol}", protocol, "17 fields, a new path in each request")
        yield "unique", Scenario(
            f"unique-{protocol}", protocol, "unique response fields", path="/videos/unique")  # fmt: skip
        yield "large", Scenario(
            f"large-{protocol}", protocol, f"responses of {len(LARGE_BODY) // 1_024} KiB", path="/videos/large")  # fmt: skip
        yield "bulk", Bulk(f"download-{protocol}", protocol, is_upload=False)
        yield "bulk", Bulk(f"upload-{protocol}", protocol, is_upload=True)
        yield "files", Files(f"files-small-{protocol}", protocol, "small.html")
        yield "files", Files(f"files-large-{protocol}", protocol, "large.js")
        yield "files", LargeFiles(f"files-bulk-{protocol}", protocol, "bulk.bin")
        yield "loops", Loops(f"loops-{protocol}", protocol, "two event loops")
        yield "latency", Latency(f"latency-{protocol}", protocol, "latency at half of saturation")
    for protocol in ("h1", "h1tls"):
        yield "idle", Idle(f"idle-{protocol}", protocol, f"{Idle.COUNT:,} idle connections")
    yield "idle", Idle(
        "idle-large-h1tls", "h1tls", f"{Idle.COUNT:,} idle connections after 100 KiB each", idle_path="/videos/large")
    yield "routes", Routes(1)
    for count in (10, 1_000):
        yield "routes", Routes(count, share_of="routes-1")


SCENARIOS = {}
GROUPS = {}
for _group, _scenario in _all():
    SCENARIOS[_scenario.name] = _scenario
    GROUPS.setdefault(_group, []).append(_scenario.name)
GROUPS["all"] = [name for names in GROUPS.values() for name in names]


def selected(text):
    """The scenarios of a list of names and groups, each once."""
    names = []
    for name in text.split(","):
        if name not in GROUPS and name not in SCENARIOS:
            raise Failure(f"no scenario {name}; choose from {', '.join([*GROUPS, *SCENARIOS])}")
        names += GROUPS.get(name, [name])
    return [SCENARIOS[name] for name in dict.fromkeys(names)]
