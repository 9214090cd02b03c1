"""Byte streams that are determined by a seed and a length, so that bodies can be compared by hash and are not stored."""

import hashlib
import random

# A prime length: a repeated, missing or swapped buffer of any size shifts the bytes after it.
LENGTH = 1_048_583
PIECE = 262_144
_block = random.Random(20).randbytes(LENGTH)
_twice = memoryview(_block + _block[:PIECE])


def pieces(seed, count, size=PIECE):
    """The stream of a seed, cut after `count` bytes, in pieces of at most `size` (itself at most PIECE) bytes."""
    place = seed * 7919 % LENGTH
    while count:
        piece = _twice[place : place + min(size, count)]
        yield piece
        count -= len(piece)
        place = (place + len(piece)) % LENGTH


def digest(seed, count):
    """SHA-256 of that stream, in hexadecimal."""
    sha = hashlib.sha256()
    for piece in pieces(seed, count):
        sha.update(piece)
    return sha.hexdigest()
