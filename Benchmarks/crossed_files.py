#!/usr/bin/env python3
"""Lists the source files whose code every warm forwarded request executes, by coverage.

The binary must be instrumented: `swift build --product cloakroom --scratch-path .build-coverage
-Xswiftc -profile-generate -Xswiftc -profile-coverage-mapping`. See README.md.
"""

import argparse
import collections
import json
import pathlib
import subprocess

from harness.command import Failure, run_command
from harness.environment import BenchmarkEnvironment

PATH = "/videos/1"


def executions(environment, binary, requests):
    """How often each function below Sources ran, by file."""
    raw, profile = environment.folder / f"{requests}.profraw", environment.folder / f"{requests}.profdata"
    gateway = environment.product(binary)
    gateway.variables = {"LLVM_PROFILE_FILE": str(raw)}
    with gateway.running(core=None):
        # One connection, so that what runs once per connection is not counted.
        load = ["h2load", "--h1", "--clients=1", "--threads=1", f"--requests={requests}"]
        command = [*load, "--header", f"Cookie: {gateway.cookie}", gateway.url("http", PATH)]
        output = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
        if f"status codes: {requests} 2xx" not in output:
            raise Failure(f"not all of {requests} requests have a 2xx response:\n{output}")
    subprocess.run(["llvm-profdata", "merge", "-o", profile, raw], check=True)
    export = ["llvm-cov", "export", "-format=text", f"-instr-profile={profile}", str(binary)]
    data = json.loads(subprocess.run(export, capture_output=True, check=True).stdout)["data"][0]
    counts = collections.defaultdict(dict)
    for function in data["functions"]:
        file = function["filenames"][0]
        if "/Sources/" in file and "/checkouts/" not in file:
            counts[file.partition("/Sources/")[2]][function["name"]] = function["count"]
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--product", type=pathlib.Path, required=True, help="the instrumented binary")
    parser.add_argument("--requests", type=int, default=50, help="requests of the longer run; default: %(default)s")
    options = parser.parse_args()
    few = max(1, options.requests // 10)
    with BenchmarkEnvironment() as environment:
        before = executions(environment, options.product, few)
        after = executions(environment, options.product, options.requests)
    # A function that runs at start, at sign-in or per connection only is not part of a request.
    needed = options.requests - few
    crossed = {
        file: sum(count - before[file].get(name, 0) >= needed for name, count in functions.items())
        for file, functions in after.items()
    }
    for file, functions in sorted(crossed.items()):
        if functions:
            print(f"{functions:4} functions  {file}")
    print(f"{sum(map(bool, crossed.values()))} files")


if __name__ == "__main__":
    run_command(main)
