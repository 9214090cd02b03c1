#!/usr/bin/env bash
# Measures what the gateway adds to the latency of an nginx that asks it: installs what is needed, builds the gateway, measures.
# Arguments: see `forward_auth.py --help`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

deploy/packages.sh nginx=nginx openssl=openssl taskset=util-linux python3=python3 cc=gcc libc6-dev libssl-dev libnghttp2-dev
if [[ " $* " != *" --product"* && " $* " != *" --help "* ]]; then
    deploy/build.sh
fi
exec python3 Benchmarks/forward_auth.py "$@"
