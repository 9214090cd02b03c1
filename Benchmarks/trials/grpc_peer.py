"""A gRPC server and a client of all four kinds of call, with bytes as messages. Needs grpcio.

usage: python3 -m trials.grpc_peer server PORT MAX_AGE_MS
       python3 -m trials.grpc_peer client PORT SECONDS CHANNELS FILE

The server ends each connection after its age, gracefully. The client writes
{"calls": N, "kinds": {kind: count}, "failures": {sentence: count}}.
"""

import collections
import concurrent.futures
import json
import sys
import threading
import time

import grpc

SERVICE = "trial.Echo"
MESSAGES = 5
DEADLINE = 10


class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        kinds = {
            "/trial.Echo/Unary": grpc.unary_unary_rpc_method_handler(lambda request, _: request),
            "/trial.Echo/Down": grpc.unary_stream_rpc_method_handler(lambda request, _: iter([request] * MESSAGES)),
            "/trial.Echo/Up": grpc.stream_unary_rpc_method_handler(lambda requests, _: b"".join(requests)),
            "/trial.Echo/Both": grpc.stream_stream_rpc_method_handler(lambda requests, _: requests),
            "/trial.Echo/Fail": grpc.unary_unary_rpc_method_handler(self.fail),
        }
        return kinds.get(details.method)

    @staticmethod
    def fail(_, context):
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "as expected: 100 %")


def serve(port, age):
    pool = concurrent.futures.ThreadPoolExecutor(16)
    options = [("grpc.max_connection_age_ms", age), ("grpc.max_connection_age_grace_ms", 20_000)]
    server = grpc.server(pool, options=options)
    server.add_generic_rpc_handlers([Echo()])
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    server.wait_for_termination()


def check(name, call):
    """Nothing if the call did what it should, otherwise a sentence."""
    try:
        wanted, received = call()
    except grpc.RpcError as error:
        return f"{name}: {error.code().name}: {error.details()}"[:160]
    return None if wanted == received else f"{name}: received {str(received)[:60]}"


def expected_failure(channel):
    try:
        channel.unary_unary(f"/{SERVICE}/Fail")(b"x", timeout=DEADLINE)
    except grpc.RpcError as error:
        if error.code() == grpc.StatusCode.FAILED_PRECONDITION:
            return "as expected: 100 %", error.details()
        raise
    return "a failure", "success"


def calls(channel, number):
    message = b"message %d" % number
    several = [message] * MESSAGES
    path = f"/{SERVICE}/"
    return {
        "unary": lambda: (message, channel.unary_unary(path + "Unary")(message, timeout=DEADLINE)),
        "server stream": lambda: (several, list(channel.unary_stream(path + "Down")(message, timeout=DEADLINE))),
        "client stream": lambda: (
            b"".join(several),
            channel.stream_unary(path + "Up")(iter(several), timeout=DEADLINE),
        ),
        "both streams": lambda: (several, list(channel.stream_stream(path + "Both")(iter(several), timeout=DEADLINE))),
        "failure": lambda: expected_failure(channel),
    }


def work(port, end, counts, failures):
    number = 0
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        while time.monotonic() < end:
            number += 1
            for name, call in calls(channel, number).items():
                failure = check(name, call)
                counts[name] += 1
                if failure:
                    failures[failure] += 1
            time.sleep(0.01)


def client(port, seconds, channels, file):
    end = time.monotonic() + seconds
    counts, failures = collections.Counter(), collections.Counter()
    threads = [threading.Thread(target=work, args=(port, end, counts, failures)) for _ in range(channels)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open(file, "w") as output:
        json.dump({"calls": sum(counts.values()), "kinds": counts, "failures": failures}, output)


if __name__ == "__main__":
    kind, port, *others = sys.argv[1:]
    if kind == "server":
        serve(int(port), int(others[0]))
    else:
        client(int(port), float(others[0]), int(others[1]), others[2])
