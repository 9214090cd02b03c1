"""Load with delays, cuts, resets, half-closes and garbage between gateway and upstream.

A client may receive 502, 503, 504 or a truncated response, but never a wrong body that looks complete.
"""

import collections
import hashlib
import json
import random
import threading
import time

from harness.measure import MIB, MemorySamples
from harness.ports import free_port
from scenarios import content, http1

EXPECTED = (200, 502, 503, 504)
SIZES = (0, 1, 500, 5_000, 100_000, 1_000_000)
POOL_IDLE = "2s"
TIMEOUTS = {"responseHead": "2s", "bodyIdle": "3s", "connect": "2s"}


def run(environment, checks, options):
    port = free_port()
    environment.start_module("scenarios.faultproxy", str(port), str(environment.origin_port), str(options.seed), port=port)
    # The first request meets faults too and may fail.
    gateway = environment.gateway(
        upstream_port=port, timeouts=TIMEOUTS, upstream={"pool": {"idleTimeout": POOL_IDLE}}, warm_up=False
    )
    gateway.settle(gateway.descriptors, 0, 4)
    descriptors = gateway.descriptors()
    counts, wrong, over = collections.Counter(), [], threading.Event()
    clients = [
        threading.Thread(
            target=client_process, args=(gateway.port, random.Random(options.seed * 1000 + number), counts, wrong, over)
        )
        for number in range(options.clients)
    ]
    with MemorySamples(gateway) as samples:
        for client in clients:
            client.start()
        time.sleep(options.chaos_seconds)
        over.set()
        for client in clients:
            client.join(60)
    figures = ", ".join(f"{count} × {what}" for what, count in counts.most_common())
    checks.note(figures)
    for sentence in wrong[:10]:
        checks.note(sentence)
    checks.expect(
        f"{sum(counts.values())} requests of {options.clients} clients received correct responses or expected errors only",
        not wrong and counts["200 complete"] > 0,
        f"{len(wrong)} wrong",
    )
    statement = "every request received a response or its beginning"
    checks.expect(statement, not counts["no response"], f"{counts['no response']} connections closed without a byte")
    stuck = sum(client.is_alive() for client in clients)
    checks.expect("no client is left waiting", not stuck, f"{stuck} still waiting")
    kinds = sum(1 for what in counts if counts[what])
    checks.expect("the faults had an effect", counts["cut"] > 0 and counts["502"] > 0, f"{kinds} kinds of outcome")
    active = gateway.settle(lambda: gateway.metric("cloakroom_upstream_connections", state="active"), 0, 10)
    pending = gateway.metric("cloakroom_upstream_pending_requests")
    checks.expect(
        "no upstream connection is leaked", active == 0 and pending == 0, f"{active:.0f} active, {pending:.0f} pending"
    )
    running = gateway.settle(lambda: gateway.metric("http_server_active_requests"), 0, 5)
    checks.expect("no exchange is left", running == 0, f"{running:.0f} active requests")
    left = gateway.settle(gateway.descriptors, descriptors, 10)
    checks.expect("descriptors come back", left <= descriptors, f"{descriptors} before, {left} after")
    checks.expect("memory stays bounded", samples.growth < 64 * MIB, str(samples))
    gateway.stop()


def client_process(port, source, counts, wrong, over):
    while not over.is_set():
        try:
            with http1.Client(port, timeout=20) as client:
                for _ in range(source.randrange(1, 30)):
                    if over.is_set() or not exchange(client, source, counts, wrong):
                        break
        except OSError as error:
            wrong.append(f"connection: {error!r}")
            time.sleep(0.1)


def exchange(client, source, counts, wrong):
    """Sends one request and counts its outcome. Returns whether the connection can be reused."""
    size, seed, is_upload = source.choice(SIZES), source.randrange(1_000), source.random() < 0.3
    if is_upload:
        # A key per request, because the gateway may send a request again.
        target = f"/sink?key={source.getrandbits(64):x}"
        client.send("POST", target, content.pieces(seed, size), size if source.random() < 0.5 else None)
    else:
        target = f"/bytes/{size}?seed={seed}" + ("&chunked=1" if source.random() < 0.5 else "")
        client.send("GET", target)
    try:
        status = client.receive()
        if status not in EXPECTED:
            wrong.append(f"{target}: status {status}")
        if not is_upload and status == 200 and size == SIZES[-1] and source.random() < 0.1:
            # Some clients abort, and their upstream connections must be closed too.
            counts["aborted by the client"] += 1
            return False
        sha, count, body = hashlib.sha256(), 0, bytearray()
        for piece in client.pieces():
            sha.update(piece)
            count += len(piece)
            if is_upload or status != 200:
                body += piece
        check_body(client, target, is_upload, seed, size, sha, count, body, counts, wrong)
        return client.persists
    except http1.Truncated:
        counts["cut"] += 1
    except http1.Closed:
        # Visibly an error, but a request should receive more than that.
        counts["no response"] += 1
    except TimeoutError:
        counts["timed out"] += 1
        wrong.append(f"{target}: no response in 20 s")
    except (http1.Malformed, ValueError) as error:
        counts["malformed"] += 1
        wrong.append(f"{target}: {error!r}")
    return False


def check_body(client, target, is_upload, seed, size, sha, count, body, counts, wrong):
    """A complete body must be the expected one."""
    if client.status != 200:
        counts[str(client.status)] += 1
        if (
            client.fields.get("content-type") != "application/problem+json"
            or json.loads(body)["status"] != client.status
        ):
            wrong.append(f"{target}: a {client.status} that is not the gateway's: {bytes(body[:100])!r}")
        return
    counts["200 complete"] += 1
    if client.fields.get("x-seen") != target:
        wrong.append(f"{target}: received the response to {client.fields.get('x-seen')}")
    elif is_upload:
        report = json.loads(body)
        if report["bytes"] != size or report["sha256"] != content.digest(seed, size):
            wrong.append(f"{target}: the upstream received {report['bytes']} of {size} bytes, or wrong ones")
    elif count != size or sha.hexdigest() != content.digest(seed, size):
        wrong.append(f"{target}: {count} of {size} bytes, or wrong ones, with a regular end")
