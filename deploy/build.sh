#!/usr/bin/env bash
# Builds the release binary and prints its path as the last line. Releases, CI and benchmarks use this script.
#
# usage: deploy/build.sh [PRODUCT]      by default cloakroom, the gateway; cloakroom-demo is the demo with its mocks,
#                                       generate-manual the tool of deploy/manual.sh
#
# The standard library is linked statically. Dynamic exclusivity checks are enabled in debug builds, which the tests use,
# and disabled here, also for the dependencies: the checks were a fifth of the instructions of a request.
# The names of 60,000 functions, which the toolchain exports for plugins by default, are removed.
if [[ ${1:-} == --help ]]; then
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit
fi
set -euo pipefail
product=${1:-cloakroom}
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Only the path is written to standard output, because callers capture it.
deploy/toolchain.sh >&2
deploy/dependencies.sh >&2
build=(
    # A folder of its own: a debug build can run at the same time.
    swift build --scratch-path .build-release -c release --static-swift-stdlib -Xswiftc -enforce-exclusivity=unchecked
    -Xlinker --no-export-dynamic --product "$product"
    # Paths in the binary are relative to this folder, and debug information does not refer to the compiler's cache.
    -Xswiftc -file-prefix-map -Xswiftc "$PWD=." -Xcc "-ffile-prefix-map=$PWD=."
    -Xswiftc -Xfrontend -Xswiftc -no-clang-module-breadcrumbs
)
# The commit that `cloakroom_build_info` and the status page show. In an image build, which has no Git history, the caller
# sets CLOAKROOM_COMMIT.
if [[ -z ${CLOAKROOM_COMMIT:-} ]] && commit=$(git rev-parse --short=12 HEAD 2>/dev/null); then
    git diff --quiet HEAD 2>/dev/null || commit+=-dirty
    export CLOAKROOM_COMMIT=$commit
fi
# A third of the binary would be ICU data in 200 languages. Without Python, or with a toolchain in which the data has another
# form, or if the path has unusual characters, the complete data is linked.
if icu=$(deploy/icu-data.py .build/icu); then
    export CLOAKROOM_ICU_SYMBOL=${icu%% *} CLOAKROOM_ICU_DATA=${icu#* }
else
    echo "build: the complete ICU data is linked; the binary is 28 MB larger" >&2
fi
# SwiftPM warns in each build about files in dependencies that belong to no target, for example CMakeLists.txt. Only the
# authors of the dependencies can change that; all other warnings remain.
without_unhandled_files() {
    awk '/^warning: .* found [0-9]+ file\(s\) which are unhandled/ { skipped = 1; next }
        skipped && /^ / { next }
        { skipped = 0; print; fflush() }'
}
# SwiftPM shows its progress on standard output, which stays a terminal, and warns on standard error.
exec 3>&2 4> >(without_unhandled_files >&3)
filter=$!
status=0
"${build[@]}" >&3 2>&4 4>&- || status=$?
exec 4>&-
wait "$filter" || true
((status == 0)) || exit "$status"
echo "$("${build[@]}" --show-bin-path)/$product"
