#!/usr/bin/env bash
# Runs the microbenchmarks, which are a Swift package of their own. Arguments are those of `swift package benchmark`, for
# example `--filter 'HPACK.*'`, `--scale` (figures per operation instead of per thousand) or `baseline update main`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

deploy/toolchain.sh
# Exclusivity checks are disabled as in the release build. The build folder is outside of the package, because CI lints all
# Swift files in Benchmarks.
exec swift package --package-path Benchmarks/Micro --scratch-path .build/micro \
    -Xswiftc -enforce-exclusivity=unchecked --allow-writing-to-package-directory benchmark "$@"
