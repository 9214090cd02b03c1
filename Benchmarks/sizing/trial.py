"""Two gateways with a cluster of three primaries under mixed loads, compared with what `cloakroom capacity` predicts."""

import collections
import json
import random
import statistics
import subprocess
import time

from harness.command import Failure
from sizing import memory
from sizing.clients import Load, api_request, at_rate, cookie_of, sign_in_request, sign_out_request
from sizing.costs import api_jobs, sign_in_all, start_gateway, start_origin
from sizing.meter import Meter, between, idle_rates
from sizing.records import load
from sizing.servers import Shards

USERS = 2_500
# A low load, and about what the clients can send: at a low load each request costs more.
REQUESTS_PER_SECOND = (600, 3_000)
SESSION_SECONDS = 300
# Uses are recorded after an eighth of this: long, compared with the second in which two gateways may send one each.
IDLE_SECONDS = 160
# The least time between two refreshes of a session.
TOKEN_SECONDS = 30
# Sessions of the server's memory.
STORED = 100_000
TOLERANCE = 0.15
# Requests per second that show how fast the machine is, ten of each of these sessions, and users that sign in for nothing else.
SPEED_LOAD, SPEED_SESSIONS = 600, 600
OTHER_USERS = 1_000_000
CORES = "cores of a "


def predict(binary, file, users, requests_per_second, session_seconds, shards, cached=1_000_000):
    """What the command predicts, from the figures in a file."""
    command = [binary, "capacity", "--users", users, "--requests-per-second", f"{requests_per_second:.3f}"]
    command += ["--session-length", f"{session_seconds * 1000:.0f}ms", "--idle-timeout", f"{IDLE_SECONDS}s"]
    command += ["--token-lifetime", f"{TOKEN_SECONDS}s", "--shards", shards, "--cache-size", cached]
    command += ["--figures", file, "--json"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=30)
    if done.returncode != 0:
        raise Failure(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return json.loads(done.stdout)


class Users:
    """Users that send requests and rarely sign out and in again, each time at a random gateway."""

    def __init__(self, gateways):
        self.load, self.count = Load(gateways), len(gateways)
        # Not all at once, or their tokens expire at the same time.
        self.cookies = sign_in_all(gateways[0], 1, USERS, USERS / TOKEN_SECONDS)
        self.next_user = USERS + 1
        # Sign-outs that were sent, and cookies to sign out with their times.
        self.waiting, self.leaving = [], collections.deque()
        self.requests = self.sign_outs = 0

    def run(self, rate, seconds):
        """Sends requests at random times for some seconds, at this average rate per second."""
        self.requests = self.sign_outs = 0
        at = time.monotonic()
        self.load.run(self.jobs(rate, at, at + seconds))

    def jobs(self, rate, at, end):
        share = USERS / SESSION_SECONDS / rate
        while at < end:
            at += random.expovariate(rate)
            if at > time.monotonic():
                self.load.pause(at)
            if self.waiting:
                self.waiting.pop()
                yield self.gateway(), sign_in_request(self.next_user), lambda head: self.cookies.append(cookie_of(head))
                self.next_user += 1
            elif self.leaving and self.leaving[0][0] < at:
                self.sign_outs += 1
                yield self.gateway(), sign_out_request(self.leaving.popleft()[1]), self.waiting.append
            elif random.random() < share:
                index = random.randrange(len(self.cookies))
                self.cookies[index], self.cookies[-1] = self.cookies[-1], self.cookies[index]
                # Not before its requests have responses.
                self.leaving.append((at + 1, self.cookies.pop()))
            else:
                self.requests += 1
                yield self.gateway(), api_request(random.choice(self.cookies)), None

    def gateway(self):
        return random.randrange(self.count)


def check(environment, binary, options, figures):
    """Prints measured and predicted figures, and enters them. Returns 1 if they differ by more than the tolerance."""
    file = environment.folder / "figures.json"
    file.write_text(json.dumps(figures))
    shards = Shards(environment, binary, memory.SHARDS, replicas=1)
    origin = start_origin(environment, TOKEN_SECONDS)
    gateways = [start_gateway(environment, shards, origin, idleTimeout=f"{IDLE_SECONDS}s") for _ in range(2)]
    request = figures["model"]["request"]
    slowness = [slowness_of_requests(environment, shards, request)]
    idle = idle_rates(gateways, shards)
    users, samples = Users(gateways), []
    for rate in REQUESTS_PER_SECOND:
        users.run(rate, TOKEN_SECONDS)
        samples += at_load(environment, file, users, Meter(gateways, shards, idle), rate, options.seconds)
    slowness = statistics.mean([*slowness, slowness_of_requests(environment, shards, request)])
    print(f"CPU time is multiplied by {slowness:.2f}; {USERS:,} users, {options.seconds} s for each load", flush=True)
    rows = [compared(slowness, *sample) for sample in samples]
    shards.stop()
    predicted = predict(environment.binary, file, STORED, 0, SESSION_SECONDS, 1, cached=1)["shard"]["memoryBytes"]
    rows.append(compared(slowness, 0, f"bytes of {STORED:,} sessions", stored_bytes(environment, binary), predicted))
    figures["check"] = rows
    worst = max(abs(row["predicted"] / row["measured"] - 1) for row in rows)
    is_close = worst <= TOLERANCE
    print(f"{'PASS' if is_close else 'FAIL'}  the model is within {TOLERANCE:.0%}: at most {worst:.1%}")
    return 0 if is_close else 1


def slowness_of_requests(environment, shards, known):
    """What a request with a cached session costs now, divided by the figure: a machine that other programs use too is
    faster in some minutes than in others."""
    gateway = start_gateway(environment, shards, start_origin(environment))
    idle = idle_rates([gateway], shards)
    cookies = sign_in_all(gateway, OTHER_USERS + 1, OTHER_USERS + SPEED_SESSIONS)
    with Load([gateway]) as load:
        load.run(api_jobs(cookies))
        with Meter([gateway], shards, idle) as meter:
            count = load.run(at_rate(load, SPEED_LOAD, api_jobs(cookies * 10)))
    gateway.stop()
    sample = meter.sample(count)
    model = between(known["gatewayMicroseconds"], known["gatewayIdleMicroseconds"], sample.gateway_idle)
    print(f"a request takes {sample.gateway:.1f} µs; when the figures were measured, {model:.1f} µs", flush=True)
    return sample.gateway / model


def at_load(environment, file, users, meter, rate, seconds):
    """Measured and predicted figures at one load, each with the requests per second and its name."""
    shards = meter.shards
    reads = shards.calls("hgetall")
    with meter:
        users.run(rate, seconds)
    reads = shards.calls("hgetall") - reads
    requests_per_second, session_seconds = users.requests / meter.seconds, USERS * meter.seconds / max(1, users.sign_outs)
    count = len(shards.servers)
    predicted = predict(environment.binary, file, USERS, requests_per_second, session_seconds, count)
    print(f"{requests_per_second:,.0f} requests/s, {meter.seconds:.0f} s", flush=True)
    (gateway, server), shard, memory_bytes = meter.shares(), predicted["shard"], predicted["gateway"]["memoryBytes"]
    samples = [
        (CORES + "gateway", gateway, predicted["gateway"]["cores"]),
        (CORES + "primary", server, shard["cores"]),
        ("bytes of a gateway", resident(meter.gateways), memory_bytes),
        ("bytes/s to a primary", meter.rates[2] / count, shard["bytesToServers"]),
        ("bytes/s from a primary", meter.rates[3] / count, shard["bytesFromServers"]),
        ("records read/s", reads / meter.seconds, records_read(predicted["rates"])),
    ]
    return [(requests_per_second, *sample) for sample in samples]


def resident(gateways):
    """Resident memory of a gateway, on average."""
    return sum(gateway.resident() for gateway in gateways) / len(gateways)


def compared(slowness, requests, name, measured, predicted):
    """A row of the comparison. CPU time is predicted for a machine as fast as it is now."""
    if name.startswith(CORES):
        predicted *= slowness
    difference = predicted / measured - 1
    print(f"  {requests:6,.0f}  {name:26} measured {measured:14,.3f}   predicted {predicted:14,.3f}   {difference:+.1%}", flush=True)
    return {"requests": round(requests), "name": name, "measured": measured, "predicted": predicted}


def records_read(rates):
    """A refresh reads the record once more, and a sign-out reads that which it removes."""
    return rates["lookUps"] + rates["refreshes"] + rates["signIns"]


def stored_bytes(environment, binary):
    """Resident memory of a server with many sessions that no gateway has in its cache."""
    template = memory.templates(environment, binary)["password"]
    shards = Shards(environment, binary, 1)
    load(template, shards, 0, STORED)
    resident = shards.resident()
    shards.stop()
    return resident
