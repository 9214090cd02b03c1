"""Thousands of connections that are opened, used or not, idle and closed; other clients are served meanwhile."""

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

RELEASE_LIMIT = 16 * MIB
ADDRESSES = 100
IDLE_SECONDS = 5
# Descriptors for everything else.
RESERVE = 500
REQUEST = b"GET /connections HTTP/1.1\r\nHost: localhost\r\n\r\n"


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
        # The second wave shows whether memory of the first is reused.
        wave(checks, gateway, count, "first" if number == 1 else "second")
    gateway.stop()


def wave(checks, gateway, count, name):
    gateway.settle(gateway.descriptors, 0, 1.5)
    descriptors = gateway.descriptors()
    pipe, child_pipe = multiprocessing.Pipe()
    # A process of its own, so that its work does not delay the bystander client.
    child = multiprocessing.get_context("fork").Process(
        target=connections_process, args=(gateway.port, count, child_pipe), daemon=True
    )
    with MemorySamples(gateway) as samples, BystanderClient(gateway) as bystander:
        child.start()
        opened = receive_report(pipe, child, 120)
        time.sleep(IDLE_SECONDS)
        at_most = gateway.descriptors()
        still_open = request_report(pipe, child, "count")
        request_report(pipe, child, "drop")
        child.join(20)
        gateway.settle(gateway.descriptors, descriptors + 20, 10)
    checks.expect(
        f"{name} wave: {count} connections are open and idle",
        opened["opened"] == count == still_open["open"] and opened["responses"] == count // 2,
        f"{opened['opened']} opened in {opened['seconds']:.1f} s, {opened['responses']} used once, "
        f"{still_open['open']} open after {IDLE_SECONDS} s, the gateway had {at_most} descriptors; {samples}, "
        f"{samples.growth / max(1, opened['opened']) / 1024:.1f} KiB each",
    )
    bystander.check(checks, f"{name} wave: other clients are served")
    left = gateway.settle(gateway.descriptors, descriptors, 10)
    checks.expect(f"{name} wave: descriptors are released", left <= descriptors, f"{descriptors} before, {left} after")
    after = gateway.settle(gateway.resident, samples.before + RELEASE_LIMIT, 15)
    figures = f"{samples.before / MIB:.1f} MiB before, {after / MIB:.1f} MiB after"
    checks.expect(f"{name} wave: memory is released within 16 MiB", after <= samples.before + RELEASE_LIMIT, figures)


def receive_report(pipe, child, seconds):
    if not pipe.poll(seconds):
        child.kill()
        raise Failure(f"no report from the process of connections within {seconds} s")
    return pipe.recv()


def request_report(pipe, child, name):
    pipe.send(name)
    return receive_report(pipe, child, 30)


def connect(port, number):
    """Connects from one of many addresses."""
    connection = socket.socket()
    # The port is chosen at connect, so that ports may be equal for different source addresses.
    connection.setsockopt(socket.IPPROTO_IP, 24, 1)
    connection.bind((f"127.0.1.{1 + number % ADDRESSES}", 0))
    connection.settimeout(5)
    connection.connect(("127.0.0.1", port))
    return connection


def connections_process(port, count, pipe):
    allow_many_files()
    start, connections, responses, waiting = time.monotonic(), [], 0, []
    for number in range(count):
        try:
            connections.append(connect(port, number))
            if number % 2:
                connections[-1].sendall(REQUEST)
                waiting.append(connections[-1])
        except OSError:
            # Visible in the figures.
            continue
        if len(waiting) == 100 or number == count - 1:
            served = sum(map(has_response, waiting))
            responses += served
            # The gateway has stopped accepting: further connections would only wait.
            if waiting and not served:
                break
            waiting = []
    pipe.send({"opened": len(connections), "responses": responses, "seconds": time.monotonic() - start})
    pipe.recv()
    pipe.send({"open": sum(is_open(each) for each in connections)})
    pipe.recv()
    for number, connection in enumerate(connections):
        if number % 4 < 2:
            # Half of them are closed by RST.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    pipe.send({})


def has_response(connection):
    connection.settimeout(0.5)
    try:
        return connection.recv(4096).startswith(b"HTTP/1.1 200 ")
    except OSError:
        return False


def is_open(connection):
    """Whether there is nothing to read: no unsolicited response, no end."""
    poll = select.poll()
    poll.register(connection, select.POLLIN | select.POLLRDHUP)
    return not poll.poll(0)
