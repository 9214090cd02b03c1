#!/usr/bin/env bash
# Checks that a Swift toolchain is there that can build this package, and says what to do if not. Installs the one
# library that the build needs besides. To be called from the top of the repository.
set -euo pipefail

wanted_major=6
wanted_minor=2

advise() {
    echo "toolchain: $1" >&2
    echo "toolchain: install Swift $wanted_major.$wanted_minor or later from https://www.swift.org/install/linux/ and" >&2
    echo "toolchain: see to it that \`swift\` is on the PATH; \`swift --version\` tells" >&2
    exit 1
}

command -v swift >/dev/null || advise "there is no \`swift\` on the PATH"
said=$(swift --version 2>&1) || advise "\`swift --version\` fails: $said"
[[ $said =~ Swift\ version\ ([0-9]+)\.([0-9]+) ]] || advise "\`swift --version\` says: $said"
major=${BASH_REMATCH[1]}
minor=${BASH_REMATCH[2]}
if ((major < wanted_major || (major == wanted_major && minor < wanted_minor))); then
    advise "this is Swift $major.$minor, which is too old"
fi

# The store for one machine stands on the system's SQLite.
[[ -e /usr/include/sqlite3.h ]] || deploy/packages.sh libsqlite3-dev
