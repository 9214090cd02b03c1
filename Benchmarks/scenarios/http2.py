"""An HTTP/2 client built from frames, because libraries do not permit windows that stay closed.

It uses TLS with ALPN, and HPACK without its dynamic table. It decodes only the status of a response.
"""

import select
import socket
import ssl
import struct
import time

from harness.http import unverified_context

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1
HEADER_TABLE_SIZE, ENABLE_PUSH, INITIAL_WINDOW, MAX_FRAME = 1, 2, 4, 5
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
STATUSES = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}
LARGEST_WINDOW = 2**31 - 1


class NotSupported(Exception):
    """The peer does not support HTTP/2."""


class ConnectionEnded(Exception):
    """GOAWAY with an error, or the end of the connection, while streams were open."""


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def setting(name, value):
    return struct.pack(">HI", name, value)


def fields(pairs):
    """A field block of literals without indexing and Huffman coding. Names and values have at most 126 bytes."""
    block = bytearray()
    for name, value in pairs:
        block += b"\x00"
        for text in (name.encode(), value.encode()):
            assert len(text) < 127
            block += bytes([len(text)]) + text
    return bytes(block)


def status_of(block):
    """The status at the beginning of a field block without references to the dynamic table."""
    at = 0
    while block[at] & 0xE0 == 0x20:
        at += 1
    if block[at] & 0x80:
        return STATUSES[block[at] & 0x7F]
    # A literal with the name :status of the static table, with a prefix of four or six bits.
    at += 1
    length = block[at] & 0x7F
    value = block[at + 1 : at + 1 + length]
    if not block[at] & 0x80:
        return int(value)
    # Huffman code: 0, 1 and 2 have five bits, 3 to 9 have six.
    bits, digits = "".join(f"{byte:08b}" for byte in value), ""
    while len(digits) < 3:
        if bits[:5] in ("00000", "00001", "00010"):
            digits, bits = digits + str(int(bits[:5], 2)), bits[5:]
        else:
            digits, bits = digits + str(int(bits[:6], 2) - 22), bits[6:]
    return int(digits)


class Stream:
    """One request. `take` is called with each piece of the response body."""

    def __init__(self, identifier, window, body=None, take=None, rate=0, is_slow_reader=False):
        self.identifier = identifier
        self.window = window
        self.body = iter(body) if body is not None else None
        self.waiting = memoryview(b"")
        self.take = take or (lambda piece: None)
        self.rate, self.is_slow_reader = rate, is_slow_reader
        self.start = time.monotonic()
        self.sent = self.received = self.credited = 0
        self.status = 0
        self.is_complete = False
        self.reset = None

    @property
    def is_over(self):
        return self.is_complete or self.reset is not None

    def allowed(self, count):
        """How many bytes the rate permits now in addition to `count`."""
        return max(0, int((time.monotonic() - self.start) * self.rate) - count) if self.rate else LARGEST_WINDOW


class Connection:
    """A connection and its streams, in one thread: `run` reads and writes until a condition is true."""

    def __init__(self, port, window=2**24, connection_window=2**30, source=None):
        context = unverified_context()
        context.set_alpn_protocols(["h2", "http/1.1"])
        plain = socket.create_connection(("127.0.0.1", port), timeout=20, source_address=source)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = context.wrap_socket(plain, server_hostname="localhost")
        if self.socket.selected_alpn_protocol() != "h2":
            self.socket.close()
            raise NotSupported("the gateway does not select h2 by ALPN")
        self.socket.setblocking(False)
        self.receive_window = window
        self.streams = {}
        self.next_identifier = 1
        self.send_window = self.initial_window = 65_535
        self.largest_frame = 16_384
        self.unread, self.unsent = bytearray(), bytearray()
        self.uncredited = 0
        self.goaway = None
        self.is_ended = False
        self.is_writable = True
        self.failure = None
        own = setting(HEADER_TABLE_SIZE, 0) + setting(ENABLE_PUSH, 0) + setting(INITIAL_WINDOW, window)
        self.unsent += PREFACE + frame(SETTINGS, 0, 0, own)
        if connection_window:
            self.unsent += frame(WINDOW, 0, 0, struct.pack(">I", connection_window))

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def request(self, method, target, body=None, length=None, take=None, rate=0, send_rate=0):
        """Opens a stream. `rate` limits the response, `send_rate` the request body, in bytes per second."""
        pairs = [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", target)]
        if length is not None:
            pairs.append(("content-length", str(length)))
        stream = Stream(self.next_identifier, self.initial_window, body, take, rate or send_rate, bool(rate))
        self.next_identifier += 2
        self.streams[stream.identifier] = stream
        flags = END_HEADERS | (END_STREAM if body is None else 0)
        self.unsent += frame(HEADERS, flags, stream.identifier, fields(pairs))
        return stream

    def run(self, until, seconds):
        """Reads and writes until the condition is true or the time is over. Returns the condition."""
        deadline = time.monotonic() + seconds
        while not until():
            if self.is_ended or time.monotonic() > deadline:
                return until()
            moved = self.write()
            moved = self.read() or moved
            if not moved:
                select.select([self.socket], [self.socket] if self.unsent else [], [], 0.01)
        self.write()
        return True

    def complete(self, *streams, seconds):
        """Runs until these streams have ended."""
        return self.run(lambda: all(stream.is_over for stream in streams), seconds)

    # Writing

    def write(self):
        if not self.is_writable:
            self.unsent.clear()
            return False
        if len(self.unsent) < 65_536:
            self.add_bodies()
        if not self.unsent:
            return False
        try:
            count = self.socket.send(bytes(self.unsent[:65_536]))
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return False
        except OSError as error:
            # Frames that the peer sent before it closed may still be unread, such as the last GOAWAY.
            self.failure, self.is_writable = error, False
            self.unsent.clear()
            return False
        del self.unsent[:count]
        return True

    def add_bodies(self):
        for stream in list(self.streams.values()):
            if stream.is_slow_reader and (credit := stream.allowed(stream.credited)) > 4096:
                # At most the received bytes: the window is what makes this reader slow.
                credit = min(credit, stream.received - stream.credited)
                self.credit(stream, credit)
            while stream.body is not None and not stream.is_over and len(self.unsent) < 131_072:
                if not stream.waiting:
                    piece = next(stream.body, None)
                    if piece is None:
                        stream.body = None
                        self.unsent += frame(DATA, END_STREAM, stream.identifier)
                        break
                    stream.waiting = memoryview(piece)
                room = min(self.send_window, stream.window, self.largest_frame, len(stream.waiting))
                if stream.rate and not stream.is_slow_reader:
                    room = min(room, stream.allowed(stream.sent))
                if room <= 0:
                    break
                self.unsent += frame(DATA, 0, stream.identifier, bytes(stream.waiting[:room]))
                stream.waiting = stream.waiting[room:]
                stream.window -= room
                stream.sent += room
                self.send_window -= room

    def credit(self, stream, count):
        if count > 0:
            stream.credited += count
            self.unsent += frame(WINDOW, 0, stream.identifier, struct.pack(">I", count))

    # Reading

    def read(self):
        try:
            piece = self.socket.recv(262_144)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError as error:
            self.end(error)
            return False
        if not piece:
            self.end(None)
            return False
        self.unread += piece
        at = 0
        while len(self.unread) - at >= 9:
            length = int.from_bytes(self.unread[at : at + 3], "big")
            if len(self.unread) - at < 9 + length:
                break
            kind, flags = self.unread[at + 3], self.unread[at + 4]
            stream = int.from_bytes(self.unread[at + 5 : at + 9], "big")
            self.handle(kind, flags, stream, bytes(self.unread[at + 9 : at + 9 + length]))
            at += 9 + length
        del self.unread[:at]
        return True

    def end(self, error):
        self.is_ended = True
        self.failure = self.failure or error

    def handle(self, kind, flags, identifier, payload):
        stream = self.streams.get(identifier)
        if kind == DATA and stream:
            stream.received += len(payload)
            stream.take(payload)
            self.return_credit(stream, len(payload))
        elif kind == HEADERS and stream:
            status = status_of(payload) if stream.status < 200 else stream.status
            stream.status = status
        elif kind == RESET and stream:
            stream.reset = int.from_bytes(payload, "big")
        elif kind == SETTINGS and not flags & ACK:
            self.settings(payload)
        elif kind == PING and not flags & ACK:
            self.unsent += frame(PING, ACK, 0, payload)
        elif kind == GOAWAY:
            self.goaway = struct.unpack(">II", payload[:8])
        elif kind == WINDOW:
            increment = int.from_bytes(payload, "big")
            if stream:
                stream.window += increment
            elif not identifier:
                self.send_window += increment
        if stream and kind in (DATA, HEADERS) and flags & END_STREAM:
            stream.is_complete = True

    def settings(self, payload):
        for at in range(0, len(payload), 6):
            name, value = struct.unpack(">HI", payload[at : at + 6])
            if name == INITIAL_WINDOW:
                for stream in self.streams.values():
                    stream.window += value - self.initial_window
                self.initial_window = value
            elif name == MAX_FRAME:
                self.largest_frame = min(value, 65_536)
        self.unsent += frame(SETTINGS, ACK, 0)

    def return_credit(self, stream, count):
        """Returns the received bytes as credit to the connection, and to streams without a rate."""
        self.uncredited += count
        if self.uncredited > 2**20:
            self.unsent += frame(WINDOW, 0, 0, struct.pack(">I", self.uncredited))
            self.uncredited = 0
        owed = stream.received - stream.credited
        if not stream.is_slow_reader and owed > self.receive_window // 4 > 1024:
            self.credit(stream, owed)
