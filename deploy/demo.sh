#!/usr/bin/env bash
# Builds the gateway and runs its demo: mock API, gateway, admin listener, one test user. Prints example commands. Ctrl-C
# ends it.
#
# usage: deploy/demo.sh [--port P] [--clear-port P] [--admin-port P] [--api-port P]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

deploy/toolchain.sh
# SwiftPM fetches with git; the example commands of the demo use curl.
deploy/packages.sh git=git curl=curl

binary=$(deploy/build.sh)
# exec, so that Ctrl-C and SIGTERM reach only the gateway.
exec "$binary" demo "$@"
