#!/usr/bin/env bash
# Builds the release binary, the one way in which it is shipped and measured, and prints its path as the last line.
#
# The standard library is linked statically. Dynamic exclusivity checks are on in debug builds, where the tests run, and off
# here, in the libraries too: they were a fifth of the instructions of a request.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Standard output is the path and nothing else: callers capture it.
deploy/toolchain.sh >&2
build=(
    swift build -c release --static-swift-stdlib -Xswiftc -enforce-exclusivity=unchecked --product cloakroom
)
# What `cloakroom_build_info` and the status page show. Only where git knows; an image is told by its builder.
if [[ -z ${CLOAKROOM_COMMIT:-} ]] && commit=$(git rev-parse --short=12 HEAD 2>/dev/null); then
    git diff --quiet HEAD 2>/dev/null || commit+=-dirty
    export CLOAKROOM_COMMIT=$commit
fi
"${build[@]}" >&2
echo "$("${build[@]}" --show-bin-path)/cloakroom"
