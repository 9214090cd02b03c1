#!/usr/bin/env python3
"""Counts the instructions that the gateway executes for a forwarded request, under valgrind's callgrind. See README.md.

The binary must be linked with --static-swift-stdlib: Debian 12's valgrind crashes in the shared libdispatch.
"""

import argparse
import pathlib
import re
import subprocess

from harness.command import Failure, run_command
from harness.environment import BenchmarkEnvironment
from harness.gateway import release_build, require_binary

PATH = "/videos/1"


def instructions(environment, gateway, scheme, protocol, requests):
    """Instructions from start to stop, with this number of requests."""
    profile = environment.folder / f"callgrind.{scheme}.{requests}"
    valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}"]
    with gateway.running(core=None, before=valgrind):
        url = gateway.url(scheme, PATH)
        # One connection and one request at a time, so that all runs execute the same steps in the same order.
        load = ["h2load", f"--npn-list={protocol}", "--clients=1", "--threads=1", f"--requests={requests}"]
        load += ["--h1"] if protocol == "http/1.1" else []
        command = [*load, "--header", f"Cookie: {gateway.cookie}", url]
        output = subprocess.run(command, capture_output=True, text=True, timeout=600).stdout
        good = re.search(r"status codes: (\d+) 2xx", output)
        if not good or int(good[1]) != requests:
            raise Failure(f"not all of {requests} requests have a 2xx response:\n{output}")
        if f"Application protocol: {protocol}" not in output:
            raise Failure(f"the protocol is not {protocol}:\n{output}")
    if not profile.is_file():
        raise Failure(f"valgrind wrote no profile:\n{gateway.log.read_text()[-2000:]}")
    found = re.search(r"^(?:summary|totals): (\d+)", profile.read_text(), re.MULTILINE)
    if not found:
        raise Failure(f"no total in {profile}")
    return int(found[1]), profile


def without_debug_info(environment, binary):
    """A copy that valgrind can read: Debian's version does not support all DWARF of Swift. Symbols are kept."""
    copy = environment.folder / "cloakroom"
    subprocess.run(["strip", "--strip-debug", "-o", str(copy), str(require_binary(binary))], check=True)
    return copy


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--product", type=pathlib.Path, help="the gateway's binary; default: the release build's")
    parser.add_argument("--few", type=int, default=1_000, help="requests of the first run; default: %(default)s")
    parser.add_argument("--many", type=int, default=6_000, help="requests of the second run; default: %(default)s")
    parser.add_argument("--tls", action="store_true", help="over TLS instead of clear text")
    parser.add_argument("--http2", action="store_true", help="HTTP/2 over TLS, one stream at a time")
    parser.add_argument(
        "--keep", type=pathlib.Path, help="file for the second run's profile, for callgrind_annotate"
    )
    options = parser.parse_args()
    if not 0 < options.few < options.many:
        parser.error("--few must be more than 0 and less than --many")
    scheme = "https" if options.tls or options.http2 else "http"
    protocol = "h2" if options.http2 else "http/1.1"
    with BenchmarkEnvironment() as environment:
        gateway = environment.product(without_debug_info(environment, options.product or release_build()))
        few, _ = instructions(environment, gateway, scheme, protocol, options.few)
        many, profile = instructions(environment, gateway, scheme, protocol, options.many)
        if options.keep:
            options.keep.write_bytes(profile.read_bytes())
    # The difference excludes start, sign-in and stop, which both runs have in common.
    each = (many - few) / (options.many - options.few)
    print(f"cloakroom {gateway.version}: {each:,.0f} instructions/request")
    print(f"({options.few} requests: {few:,}; {options.many} requests: {many:,}; {scheme}, {protocol})")


if __name__ == "__main__":
    run_command(main)
