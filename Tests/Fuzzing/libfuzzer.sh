#!/usr/bin/env bash
# Fuzzes one target with libFuzzer, whose mutations are guided by code coverage and reach more code than random ones.
# Builds in a separate scratch path. New inputs are stored there, outside of version control; add valuable ones to
# Tests/Fuzzing/Corpus/TARGET. An input that fails is written to a file whose name is printed.
#
# usage: Tests/Fuzzing/libfuzzer.sh TARGET SECONDS [LIBFUZZER-OPTION...]
#        TARGET                   a folder in Tests/Fuzzing/Corpus, such as json or requests
#        CLOAKROOM_FUZZ_SCRATCH   the folder for the build and the inputs; .build-fuzz by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

target=${1:?usage: Tests/Fuzzing/libfuzzer.sh TARGET SECONDS [LIBFUZZER-OPTION...]}
seconds=${2:?usage: Tests/Fuzzing/libfuzzer.sh TARGET SECONDS [LIBFUZZER-OPTION...]}
shift 2
scratch=${CLOAKROOM_FUZZ_SCRATCH:-.build-fuzz}
seeds=Tests/Fuzzing/Corpus/$target
[[ -d $seeds ]] || {
    echo "libfuzzer.sh: no such corpus: $seeds" >&2
    exit 2
}

# Swift's crash handler would prevent libFuzzer from storing the input.
export SWIFT_BACKTRACE=enable=no
export CLOAKROOM_LIBFUZZER=1 CLOAKROOM_FUZZ_TARGET=$target
build=(swift build --configuration release --scratch-path "$scratch" --sanitize fuzzer --product cloakroom-fuzz
    -Xswiftc -enable-testing)
"${build[@]}"
binary=$("${build[@]}" --show-bin-path)/cloakroom-fuzz

mkdir -p "$scratch/fuzz/$target" "$scratch/fuzz/found"
exec "$binary" -max_total_time="$seconds" -max_len=8192 -timeout=10 -print_final_stats=1 \
    -artifact_prefix="$scratch/fuzz/found/$target-" "$@" "$scratch/fuzz/$target" "$seeds"
