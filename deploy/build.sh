#!/usr/bin/env bash
# Builds the release binary and prints its path as the last line. Releases, CI and benchmarks use this script.
#
# usage: deploy/build.sh [PRODUCT]      by default cloakroom; generate-manual is the tool of deploy/manual.sh
#
# The standard library is linked statically. Dynamic exclusivity checks are enabled in debug builds, which the tests use,
# and disabled here, also for the dependencies: the checks were a fifth of the instructions of a request.
set -euo pipefail
product=${1:-cloakroom}
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Only the path is written to standard output, because callers capture it.
deploy/toolchain.sh >&2
build=(
    swift build -c release --static-swift-stdlib -Xswiftc -enforce-exclusivity=unchecked --product "$product"
)
# The commit that `cloakroom_build_info` and the status page show. In an image build, which has no Git history, the caller
# sets CLOAKROOM_COMMIT.
if [[ -z ${CLOAKROOM_COMMIT:-} ]] && commit=$(git rev-parse --short=12 HEAD 2>/dev/null); then
    git diff --quiet HEAD 2>/dev/null || commit+=-dirty
    export CLOAKROOM_COMMIT=$commit
fi
"${build[@]}" >&2
echo "$("${build[@]}" --show-bin-path)/$product"
