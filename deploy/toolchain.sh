#!/usr/bin/env bash
# Checks that a suitable Swift toolchain is installed; otherwise prints instructions and fails. Installs the SQLite headers
# if they are missing. Must be run in the root of the repository.
#
# usage: deploy/toolchain.sh
if [[ ${1:-} == --help ]]; then
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit
fi
set -euo pipefail

wanted_major=6
wanted_minor=2

advise() {
    echo "toolchain: $1" >&2
    echo "toolchain: install Swift $wanted_major.$wanted_minor or later from https://www.swift.org/install/linux/ and" >&2
    echo "toolchain: make sure that \`swift\` is on the PATH; check with \`swift --version\`" >&2
    exit 1
}

command -v swift >/dev/null || advise "\`swift\` not found on the PATH"
said=$(swift --version 2>&1) || advise "\`swift --version\` failed: $said"
[[ $said =~ Swift\ version\ ([0-9]+)\.([0-9]+) ]] || advise "cannot parse the output of \`swift --version\`: $said"
major=${BASH_REMATCH[1]}
minor=${BASH_REMATCH[2]}
if ((major < wanted_major || (major == wanted_major && minor < wanted_minor))); then
    advise "Swift $major.$minor is too old"
fi

# The SQLite session store uses the system's library.
[[ -e /usr/include/sqlite3.h ]] || deploy/packages.sh libsqlite3-dev
