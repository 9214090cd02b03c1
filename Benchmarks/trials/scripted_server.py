"""An HTTP/2 server (h2c, prior knowledge) that does one unusual thing. Needs the package h2.

usage: python3 -m trials.scripted_server PORT BEHAVIOUR FILE

goaway    the connection of the first request ends with GOAWAY, last id 0
resets    the first 201 requests for /odd are reset (INTERNAL_ERROR)
lowered   10 streams at first; after the 10th response 1 stream
large     responses to /odd have a head of 64 KiB
late      responses to /odd have a head, then DATA that does not end; DATA for a reset stream continues
silent    the connection of the first request for /odd never reads or writes again
hang      never responds to /odd
http1     responds with HTTP/1.1

FILE gets JSON each 100 ms: {"connections", "requests", "most", "resets"}. `most` is the highest number of streams
that were open on one connection after `lowered` took effect, `resets` are the monotonic times (ns) of the peer's
RST_STREAM.
"""

import json
import pathlib
import socket
import sys
import threading
import time

import h2.config
import h2.connection
import h2.events
import h2.exceptions
from h2.errors import ErrorCodes
from h2.settings import SettingCodes

BODY = b"x" * 650
FRAME = bytes(1_000)
RESETS = 201
LATE = 0.05
"""Seconds after its head until DATA is sent: the peer has reset the stream by then."""


class Counts:
    def __init__(self):
        self.lock = threading.Lock()
        self.resets = []
        self.connections = self.requests = self.odd = self.most = self.responses = self.victims = 0

    def add(self, name):
        with self.lock:
            value = getattr(self, name) + 1
            setattr(self, name, value)
            return value


class Connection:
    def __init__(self, connection, behaviour, counts):
        self.socket, self.behaviour, self.counts = connection, behaviour, counts
        self.is_counted = False
        # Validation is off: some of the things that are done here are not allowed.
        config = h2.config.H2Configuration(client_side=False, validate_outbound_headers=False)
        self.http2 = h2.connection.H2Connection(config)
        self.paths, self.open, self.late, self.is_lowered = {}, set(), {}, False

    def serve(self):
        try:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.behaviour == "http1":
                if self.socket.recv(65_536):
                    self.counts.add("connections")
                self.socket.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            self.http2.initiate_connection()
            streams = 10 if self.behaviour == "lowered" else 100
            self.http2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: streams})
            self.flush()
            self.socket.settimeout(LATE if self.behaviour == "late" else None)
            while self.turn():
                pass
        except OSError:
            pass
        except h2.exceptions.ProtocolError as error:
            print(f"the peer violates the protocol: {error!r}", flush=True)
        finally:
            self.socket.close()

    def flush(self):
        self.socket.sendall(self.http2.data_to_send())

    def turn(self):
        try:
            data = self.socket.recv(65_536)
        except TimeoutError:
            self.send_late()
            return True
        self.send_late()
        if not data:
            return False
        if not self.is_counted:
            # Not when it is accepted: some connections only test whether the port is open.
            self.is_counted = True
            self.counts.add("connections")
        events = self.http2.receive_data(data)
        # A stream that the same bytes open and reset is closed already.
        reset = {event.stream_id for event in events if isinstance(event, h2.events.StreamReset)}
        for event in events:
            if isinstance(event, h2.events.RequestReceived):
                self.paths[event.stream_id] = dict(event.headers)[b":path"]
                self.open.add(event.stream_id)
                if self.is_lowered:
                    self.counts.most = max(self.counts.most, len(self.open))
            elif isinstance(event, h2.events.StreamEnded):
                if event.stream_id not in reset and not self.request(event.stream_id):
                    return False
            elif isinstance(event, h2.events.StreamReset):
                self.open.discard(event.stream_id)
                self.counts.resets.append(time.monotonic_ns())
            elif isinstance(event, h2.events.RemoteSettingsChanged | h2.events.SettingsAcknowledged):
                self.is_lowered = self.is_lowered or self.behaviour == "lowered" and self.counts.responses >= 10
        self.flush()
        return True

    def request(self, stream):
        """Returns whether the connection goes on."""
        self.counts.add("requests")
        is_odd = self.paths[stream].startswith(b"/odd")
        if self.behaviour == "goaway" and self.counts.add("victims") == 1:
            self.http2.close_connection(ErrorCodes.NO_ERROR, last_stream_id=0)
            self.flush()
            time.sleep(0.2)
            return False
        if self.behaviour == "silent" and is_odd and self.counts.add("victims") == 1:
            time.sleep(60)
            return False
        if self.behaviour == "resets" and is_odd and self.counts.add("odd") <= RESETS:
            self.http2.reset_stream(stream, ErrorCodes.INTERNAL_ERROR)
            self.open.discard(stream)
            return True
        if self.behaviour == "hang" and is_odd:
            return True
        fields = [(":status", "200"), ("content-type", "text/plain"), ("x-origin", "0")]
        if self.behaviour == "large" and is_odd:
            fields += [(f"x-large-{number}", "y" * 1_000) for number in range(64)]
        if self.behaviour == "late" and is_odd:
            self.http2.send_headers(stream, fields)
            self.late[stream] = time.monotonic() + LATE
            return True
        self.http2.send_headers(stream, [*fields, ("content-length", str(len(BODY)))])
        self.http2.send_data(stream, BODY, end_stream=True)
        self.open.discard(stream)
        if self.behaviour == "lowered" and self.counts.add("responses") == 10:
            self.http2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 1})
        return True

    def send_late(self):
        """DATA for streams, whether or not the peer has reset them: raw frames, which the library would reject."""
        now = time.monotonic()
        for stream in [stream for stream, due in self.late.items() if due <= now]:
            length = len(FRAME)
            self.socket.sendall(length.to_bytes(3, "big") + b"\x00\x00" + stream.to_bytes(4, "big") + FRAME)
            del self.late[stream]


def report(counts, file):
    while True:
        names = ("connections", "requests", "most", "resets")
        new = file.with_suffix(".new")
        new.write_text(json.dumps({name: getattr(counts, name) for name in names}))
        new.rename(file)
        time.sleep(0.1)


def main(port, behaviour, file):
    counts = Counts()
    threading.Thread(target=report, args=(counts, pathlib.Path(file)), daemon=True).start()
    with socket.create_server(("127.0.0.1", port), backlog=1024) as listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=Connection(connection, behaviour, counts).serve, daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
