#!/usr/bin/env bash
# Builds the release binary and prints its path as the last line. Releases, CI and benchmarks use this script.
#
# The standard library is linked statically. Dynamic exclusivity checks are enabled in debug builds, which the tests use,
# and disabled here, also for the dependencies: the checks were a fifth of the instructions of a request.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Only the path is written to standard output, because callers capture it.
deploy/toolchain.sh >&2
deploy/dependencies.sh >&2
build=(
    swift build -c release --static-swift-stdlib -Xswiftc -enforce-exclusivity=unchecked --product cloakroom
)
# The commit that `cloakroom_build_info` and the status page show. In an image build, which has no Git history, the caller
# sets CLOAKROOM_COMMIT.
if [[ -z ${CLOAKROOM_COMMIT:-} ]] && commit=$(git rev-parse --short=12 HEAD 2>/dev/null); then
    git diff --quiet HEAD 2>/dev/null || commit+=-dirty
    export CLOAKROOM_COMMIT=$commit
fi
"${build[@]}" >&2
echo "$("${build[@]}" --show-bin-path)/cloakroom"
