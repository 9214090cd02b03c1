"""A DNS server for one name, whose response is a line of a file: addresses, `empty` or `fail`.

usage: python3 -m trials.name_server ADDRESS PORT FILE

Responds to queries for type A with the addresses, to others with no records, and to both with SERVFAIL for `fail`. All
with a lifetime of zero, so that only the intervals of clients count.
"""

import ipaddress
import pathlib
import socket
import struct
import sys

NO_ERROR, SERVER_FAILURE = 0, 2
ADDRESS, INTERNET = 1, 1


def response(query, line):
    end = 12
    while query[end]:
        end += 1 + query[end]
    question = query[12 : end + 5]
    kind = struct.unpack("!H", query[end + 1 : end + 3])[0]
    code = SERVER_FAILURE if line == "fail" else NO_ERROR
    addresses = line.split() if kind == ADDRESS and line not in ("fail", "empty") else []
    records = b"".join(
        struct.pack("!HHHIH", 0xC00C, ADDRESS, INTERNET, 0, 4) + ipaddress.IPv4Address(address).packed
        for address in addresses
    )
    # Response, authoritative, recursion as desired and available.
    flags = 0x8480 | (query[2] & 1) << 8 | code
    return query[:2] + struct.pack("!HHHHH", flags, 1, len(addresses), 0, 0) + question + records


def serve(address, port, file):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, port))
        print("ready", flush=True)
        while True:
            query, client = server.recvfrom(2_048)
            if len(query) > 16:
                server.sendto(response(query, pathlib.Path(file).read_text().strip()), client)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3])
