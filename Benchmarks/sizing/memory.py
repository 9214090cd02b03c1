"""Memory of servers per session: from records of three sizes, and with as many as fit."""

import statistics

from scenarios import provider_helpers
from sizing.clients import Load, sign_in_request
from sizing.costs import Costs, cookie_value, start_gateway, start_origin, start_provider_gateway
from sizing.records import Template, load, spread
from sizing.servers import Client, Shards, encode

# Hashes with values of up to this size are stored as one block.
COMPACT = ("--hash-max-listpack-value", "4096")
ENCODINGS = {"default": (), "compact": COMPACT}
SHARDS = 3
TRACKED = 200_000
# Sign-ins and look-ups with the most sessions.
SESSIONS = 10_000
PIECE = 1_000


def templates(environment, binary):
    """The keys of one session of each kind: `password`, `provider`, and `name`, whose API reports no id of the user."""
    shards = Shards(environment, binary, 1)
    server, origin, found = shards.servers[0], start_origin(environment), {}
    for kind, user in (("password", None), ("name", {"id": "none"})):
        gateway = start_gateway(environment, shards, origin, user)
        with Load([gateway]) as clients:
            clients.run([(0, sign_in_request(1), None)])
        gateway.stop()
        found[kind] = Template(server)
        server.call("FLUSHALL")
    gateway = start_provider_gateway(environment, shards, provider_helpers.Provider(environment, 3_600), origin)
    cookie_value(gateway)
    gateway.stop()
    found["provider"] = Template(server)
    shards.stop()
    return found


def grow(environment, binary, template, options, sizes, measure=None):
    """Sessions of each size in turn in a cluster. Returns rows of sessions, memory in use, and resident memory, and what
    is measured with the most sessions."""
    shards = Shards(environment, binary, SHARDS, options)
    empty, resident, rows, loaded = shards.used_memory(), shards.resident(), [], 0
    for size in sizes:
        load(template, shards, loaded, size)
        loaded = size
        rows.append((size, shards.used_memory() - empty, shards.resident() - resident))
        print(f"    {size:,} sessions: {rows[-1][1] / 1e6:,.0f} MB in use, {rows[-1][2] / 1e6:,.0f} MB resident", flush=True)
    measured = measure(shards) if measure else None
    shards.stop()
    return rows, measured


def per_session(environment, binary, found, sizes):
    """Bytes per session by kind and encoding."""
    results = {}
    for kind, template in found.items():
        for encoding, options in ENCODINGS.items():
            print(f"  {kind}, {encoding}", flush=True)
            rows, _ = grow(environment, binary, template, options, sizes)
            results.setdefault(kind, {})[encoding] = {
                "rows": rows,
                "bytes": slope(rows, 1),
                "resident": slope(rows, 2),
            }
    return results


def slope(rows, column):
    """Bytes per session, from rows that begin with the number of sessions."""
    return round(statistics.linear_regression([row[0] for row in rows], [row[column] for row in rows]).slope)


def tracking(environment, binary, template):
    """Bytes by which a server grows per session in the cache of one gateway, and of a second one."""
    shards = Shards(environment, binary, 1, ("--tracking-table-max-keys", "0"))
    server = shards.servers[0]
    load(template, shards, 0, TRACKED)
    head, tail = next((key.head, key.tail) for key in template.keys if key.fields)
    sizes, clients = [server.used_memory()], []
    for _ in range(2):
        client = Client(server.port)
        clients.append(client)
        client.call("HELLO", 3)
        client.call("CLIENT", "TRACKING", "ON", "NOLOOP")
        for start in range(0, TRACKED, PIECE):
            names = (head + b"%016x" % spread(number, 0) + tail for number in range(start, start + PIECE))
            client.socket.sendall(b"".join(encode(b"HEXISTS", name, b"v") for name in names))
            for _ in range(PIECE):
                client.read()
        sizes.append(server.used_memory())
    for client in clients:
        client.__exit__()
    shards.stop()
    return [round((after - before) / TRACKED) for before, after in zip(sizes, sizes[1:])]


def largest(environment, binary, template, each, wanted, limit):
    """As many sessions as wanted, or as fit into the limit of resident bytes, in a cluster, and what operations cost then."""
    count = min(wanted, int(limit / each))
    sizes = [count // 4, count // 2, count]

    def measure(shards):
        costs = Costs(environment, shards, SESSIONS)
        costs.of_sessions()
        return costs.rounded()

    rows, costs = grow(environment, binary, template, COMPACT, sizes, measure)
    return {"wanted": wanted, "rows": rows, "costs": costs}
