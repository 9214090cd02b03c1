"""Records of sessions as the gateway writes them, and many more of the same sizes.

A sign-in at a gateway leaves keys in the server. They are read back as a template, from which records of any number are
made: with the same keys, fields, lengths and lifetimes, but ids, hashes and sealed bytes of their own.
"""

import dataclasses
import multiprocessing
import os
import re

from harness.command import Failure
from sizing.servers import Client, encode, slot_of

ID = re.compile(rb"\{([a-z]?)([0-9a-f]{16})\}")
# Commands are sent in pieces of about this size.
PIECE_BYTES = 256 * 1024
# Odd numbers, so that products modulo 2^64 differ for different numbers.
SPREADS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)
NOISE = os.urandom(1 << 20)


def spread(number, salt):
    """The same 64 bits for the same number; different ones for different numbers."""
    return (number * SPREADS[salt] + salt) & 0xFFFF_FFFF_FFFF_FFFF


@dataclasses.dataclass
class Key:
    """A key of the template."""

    head: bytes
    kind: bytes  # The letter before the id: none for a session, `a` for an account, `p` for a session at a provider.
    salt: int
    tail: bytes
    lifetime: int
    fields: list  # Of a hash: names and values. Of an index: nothing.


def keep_sessions(names):
    """Only keys that stay as long as their session: no marks, no leases, nothing about failures."""
    return sorted(name for name in names if name.endswith((b":session", b":sessions")))


class Template:
    """The keys of one session."""

    def __init__(self, server):
        self.keys, salts = [], {}
        for name in keep_sessions(server.call("KEYS", "*")):
            found = ID.search(name)
            salt = salts.setdefault(found[0], 0 if name.endswith(b":session") else 1 + len(salts) % 3)
            kind = server.call("TYPE", name)
            fields = server.call("HGETALL", name) if kind == b"hash" else []
            head, tail = name[: found.start(2)], name[found.end(2) :]
            self.keys.append(Key(head, found[1], salt, tail, server.call("PTTL", name), fields))
        if sum(bool(key.fields) for key in self.keys) != 1:
            raise Failure(f"one session was expected, but the server has {server.call('KEYS', '*')}")

    def describe(self):
        """Names of keys, and the lengths of the values of fields."""
        described = {}
        for key in self.keys:
            pairs = zip(key.fields[::2], key.fields[1::2])
            fields = {name.decode(): len(value) for name, value in pairs}
            described[(key.kind + key.tail[1:]).decode()] = fields or "index"
        return described

    def commands(self, number):
        """The slot and the commands of each key of a session."""
        session = b"%016x" % spread(number, 0)
        for key in self.keys:
            hashed = spread(number, key.salt)
            name = key.head + b"%016x" % hashed + key.tail
            if key.fields:
                values = list(key.fields)
                for index in range(0, len(values), 2):
                    values[index + 1] = self.value(values[index], values[index + 1], number)
                write = encode(b"HSET", name, *values)
            else:
                write = encode(b"ZADD", name, b"1800000000000", session)
            yield slot_of(name), write + encode(b"PEXPIRE", name, 2_000_000_000)

    @staticmethod
    def value(field, value, number):
        if field in (b"d", b"o"):
            start = number * 7919 % (len(NOISE) - len(value))
            return NOISE[start : start + len(value)]
        if field == b"k":
            return b"".join(spread(number, salt).to_bytes(8, "big") for salt in range(4))
        if field in (b"a", b"n", b"p"):
            return b"%0*d" % (len(value), spread(number, 1) % 10 ** len(value))
        return value


def _load(template, first, end, ports, owners, pipe):
    """Writes sessions with the numbers from `first` to `end` - 1. Reports its failure, or nothing."""
    try:
        os.nice(10)
        clients = [Client(port, timeout=600) for port in ports]
        pieces, sizes = [[] for _ in ports], [0] * len(ports)
        for client in clients:
            client.socket.sendall(encode("CLIENT", "REPLY", "OFF"))
        for number in range(first, end):
            for slot, commands in template.commands(number):
                owner = owners[slot]
                pieces[owner].append(commands)
                sizes[owner] += len(commands)
                if sizes[owner] > PIECE_BYTES:
                    clients[owner].socket.sendall(b"".join(pieces[owner]))
                    pieces[owner], sizes[owner] = [], 0
        for client, piece in zip(clients, pieces):
            client.socket.sendall(b"".join(piece))
            client.call("CLIENT", "REPLY", "ON")
        pipe.send(None)
    except (OSError, Failure) as error:
        pipe.send(str(error))


def load(template, shards, first, end, processes=2):
    """Writes the sessions with these numbers, and fails unless all of their keys are there."""
    before = shards.key_count()
    ports, context = [server.port for server in shards.servers], multiprocessing.get_context("fork")
    share, running = -(-(end - first) // processes), []
    try:
        for start in range(first, end, share):
            pipe, child_pipe = multiprocessing.Pipe()
            arguments = (template, start, min(end, start + share), ports, shards.owners, child_pipe)
            child = context.Process(target=_load, args=arguments, daemon=True)
            child.start()
            running.append((pipe, child))
        for pipe, child in running:
            if not pipe.poll(60 + (end - first) // 1_000):
                raise Failure("the sessions were not written in time")
            if problem := pipe.recv():
                raise Failure(f"writing sessions: {problem}")
            child.join(20)
    finally:
        for _, child in running:
            if child.is_alive():
                child.kill()
    added = shards.key_count() - before
    if added != (end - first) * len(template.keys):
        raise Failure(f"{added} keys were added, instead of {(end - first) * len(template.keys)}")
