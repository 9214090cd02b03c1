#!/usr/bin/env bash
# Counts instructions per forwarded request: installs missing tools, builds the gateway, measures. Arguments: see
# `callgrind.py --help`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

deploy/packages.sh valgrind=valgrind strip=binutils h2load=nghttp2-client nginx=nginx openssl=openssl python3=python3
if [[ " $* " != *" --product"* && " $* " != *" --help "* ]]; then
    deploy/build.sh cloakroom-demo
    deploy/build.sh
fi
valkey=$(deploy/valkey.sh)
PATH=$valkey:$PATH exec python3 Benchmarks/callgrind.py "$@"
