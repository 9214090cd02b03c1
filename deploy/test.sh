#!/usr/bin/env bash
# Runs all tests, and installs first what they use. Arguments go to `swift test`.
#
# usage: deploy/test.sh [--filter NAME] [--skip-build] ...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The one list of what tests use besides Swift: promtool checks metrics; certificates are made with openssl; curl, nghttp,
# h2load stand in for clients that are not ours; redis-server and its sentinel keep sessions; pages are opened in Chromium.
tools=(
    git=git promtool=prometheus openssl=openssl curl=curl python3=python3 nghttp=nghttp2-client h2load=nghttp2-client
    chromium=chromium chromedriver=chromium-driver redis-server=redis-server redis-sentinel=redis-sentinel redis-cli=redis-tools sqlite3=sqlite3
)

deploy/toolchain.sh
if ! deploy/packages.sh "${tools[@]}"; then
    if grep -qx 'ID=ubuntu' /etc/os-release; then
        echo "test: Ubuntu has Chromium as a snap only, and apt-get brings no chromium and chromedriver there. Put both on" >&2
        echo "test: PATH, under these names: links to Google Chrome and the ChromeDriver of its version will do." >&2
    fi
    exit 1
fi
python=$(deploy/python.sh Tests/requirements.txt)
export PATH=$python:$PATH

# A crash under test would otherwise spend minutes on its backtrace. SWIFT_BACKTRACE=enable=yes brings it back.
export SWIFT_BACKTRACE=${SWIFT_BACKTRACE:-enable=no}
# One after the other: many tests start whole gateways, and all at once they starve each other on a small machine.
exec swift test --no-parallel "$@"
