#!/usr/bin/env bash
# Builds the gateway and runs its demo: mock API, gateway, admin listener, one user, and lines to paste. Ctrl-C ends it.
#
# usage: deploy/demo.sh [--port P] [--clear-port P] [--admin-port P] [--api-port P]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

deploy/toolchain.sh
# SwiftPM fetches with git; the lines that the demo prints are for curl.
deploy/packages.sh git=git curl=curl

binary=$(deploy/build.sh)
# exec, so that Ctrl-C and SIGTERM reach the gateway and nothing else.
exec "$binary" demo "$@"
