#!/usr/bin/env bash
# Installs the tools that the tests use, then runs all tests. Arguments are passed to `swift test`.
#
# usage: deploy/test.sh [--filter NAME] [--skip-build] ...
if [[ ${1:-} == --help ]]; then
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit
fi
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# All tools that tests use in addition to Swift: promtool checks metrics; openssl creates certificates; curl, nghttp,
# h2load and haproxy are independent clients; nghttpd, nginx and haproxy are HTTP/2 upstreams; redis-server and
# redis-sentinel store sessions; Chromium opens pages. The OpenID Providers are glewlwyd and, from PyPI, idpyoidc. Also
# from PyPI: valkey-server 9, of which tests start clusters.
tools=(
    git=git promtool=prometheus openssl=openssl curl=curl python3=python3 nghttp=nghttp2-client h2load=nghttp2-client
    nghttpd=nghttp2-server nginx=nginx-light haproxy=haproxy
    chromium=chromium chromedriver=chromium-driver redis-server=redis-server redis-sentinel=redis-sentinel redis-cli=redis-tools sqlite3=sqlite3
)

deploy/toolchain.sh
deploy/dependencies.sh
if ! deploy/packages.sh "${tools[@]}"; then
    if grep -qx 'ID=ubuntu' /etc/os-release; then
        echo "test: on Ubuntu, apt-get does not provide chromium and chromedriver (Chromium is a snap). Put both on PATH" >&2
        echo "test: under these names; links to Google Chrome and the matching ChromeDriver are sufficient." >&2
    fi
    exit 1
fi
python=$(deploy/python.sh Tests/requirements.txt)
glewlwyd=$(deploy/glewlwyd/install.sh)
valkey=$(deploy/valkey.sh)
export PATH=$python:$glewlwyd:$valkey:$PATH

# A backtrace of a crash would take minutes. Set SWIFT_BACKTRACE=enable=yes to enable backtraces.
export SWIFT_BACKTRACE=${SWIFT_BACKTRACE:-enable=no}
output=$(mktemp)
trap 'rm -f "$output"' EXIT
# Sequential: many tests start complete gateways, which in parallel would exhaust the CPU of a small machine.
if ! swift test --no-parallel "$@" 2>&1 | tee "$output"; then
    echo
    echo "test: what failed:" >&2
    grep -E '^✘|error:' "$output" >&2 || echo "test: no test; see the output above" >&2
    exit 1
fi
