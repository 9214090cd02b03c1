"""Ten thousand connections that are opened, used or not, left idle and dropped; others are served meanwhile."""

import multiprocessing
import resource
import select
import socket
import struct
import time

from harness.command import Failure
from harness.measure import MIB, MemorySamples
from harness.process import allow_many_files
from scenarios.bystander import BystanderClient

BACK_WITHIN = 16 * MIB
ADDRESSES = 100
IDLE_SECONDS = 5
# Room for what is not of the crowd.
RESERVE = 500
REQUEST = b"GET /crowd HTTP/1.1\r\nHost: localhost\r\n\r\n"


def run(environment, checks, options):
    count = options.connections
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit < count + 2 * RESERVE:
        raise Failure(
            f"{count} connections need {count + 2 * RESERVE} descriptors, and the limit is {limit}: ulimit -n"
        )
    timeouts = {"keepAlive": "2m", "header": "1m"}
    limits = {"connections": count + RESERVE, "connectionsPerAddress": 2 * count // ADDRESSES}
    gateway = environment.gateway(timeouts=timeouts, limits=limits, upstream={"pool": {"idleTimeout": "1s"}})
    for warning in gateway.warnings():
        checks.note(warning)
    for number in (1, 2):
        # The second crowd shows whether what the first left behind is used again, or comes on top.
        wave(checks, gateway, count, "first" if number == 1 else "second")
    gateway.stop()


def wave(checks, gateway, count, name):
    gateway.settle(gateway.descriptors, 0, 1.5)
    descriptors = gateway.descriptors()
    ours, theirs = multiprocessing.Pipe()
    # A process of its own: its work must not make our probes late.
    crowd = multiprocessing.get_context("fork").Process(
        target=connections_process, args=(gateway.port, count, theirs), daemon=True
    )
    with MemorySamples(gateway) as samples, BystanderClient(gateway) as bystander:
        crowd.start()
        opened = said(ours, crowd, 120)
        time.sleep(IDLE_SECONDS)
        at_most = gateway.descriptors()
        still_open = ask(ours, crowd, "count")
        ask(ours, crowd, "drop")
        crowd.join(20)
        gateway.settle(gateway.descriptors, descriptors + 20, 10)
    checks.expect(
        f"{name} crowd: {count} connections are open and idle",
        opened["opened"] == count == still_open["open"] and opened["answered"] == count // 2,
        f"{opened['opened']} opened in {opened['seconds']:.1f} s, {opened['answered']} used once, "
        f"{still_open['open']} open after {IDLE_SECONDS} s, the gateway had {at_most} descriptors; {samples}, "
        f"{samples.growth / max(1, opened['opened']) / 1024:.1f} KiB each",
    )
    bystander.check(checks, f"{name} crowd: others are served")
    left = gateway.settle(gateway.descriptors, descriptors, 10)
    checks.expect(f"{name} crowd: descriptors come back", left <= descriptors, f"{descriptors} before, {left} after")
    after = gateway.settle(gateway.resident, samples.before + BACK_WITHIN, 15)
    figures = f"{samples.before / MIB:.1f} MiB before, {after / MIB:.1f} MiB after"
    checks.expect(f"{name} crowd: memory comes back within 16 MiB", after <= samples.before + BACK_WITHIN, figures)


def said(pipe, crowd, seconds):
    if not pipe.poll(seconds):
        crowd.kill()
        raise Failure(f"the crowd has not said a word for {seconds} s")
    return pipe.recv()


def ask(pipe, crowd, question):
    pipe.send(question)
    return said(pipe, crowd, 30)


def connect(port, number):
    """A connection from one of many addresses, as a crowd has them."""
    connection = socket.socket()
    # The port is chosen at connect, so that ten thousand do not have to be different from each other.
    connection.setsockopt(socket.IPPROTO_IP, 24, 1)
    connection.bind((f"127.0.1.{1 + number % ADDRESSES}", 0))
    connection.settimeout(5)
    connection.connect(("127.0.0.1", port))
    return connection


def connections_process(port, count, pipe):
    allow_many_files()
    start, connections, answered, waiting = time.monotonic(), [], 0, []
    for number in range(count):
        try:
            connections.append(connect(port, number))
            if number % 2:
                connections[-1].sendall(REQUEST)
                waiting.append(connections[-1])
        except OSError:
            # Told by the figures.
            continue
        if len(waiting) == 100 or number == count - 1:
            served = sum(map(is_answered, waiting))
            answered += served
            # The gateway accepts no more: whoever comes now would wait for nothing.
            if waiting and not served:
                break
            waiting = []
    pipe.send({"opened": len(connections), "answered": answered, "seconds": time.monotonic() - start})
    pipe.recv()
    pipe.send({"open": sum(is_open(each) for each in connections)})
    pipe.recv()
    for number, connection in enumerate(connections):
        if number % 4 < 2:
            # Half of them go without a goodbye.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    pipe.send({})


def is_answered(connection):
    connection.settimeout(0.5)
    try:
        return connection.recv(4096).startswith(b"HTTP/1.1 200 ")
    except OSError:
        return False


def is_open(connection):
    """Nothing to read: neither an answer nobody asked for nor an end."""
    poll = select.poll()
    poll.register(connection, select.POLLIN | select.POLLRDHUP)
    return not poll.poll(0)
