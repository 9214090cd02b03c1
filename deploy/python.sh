#!/usr/bin/env bash
# Makes a Python environment of its own with what a requirements file names, from PyPI, and prints the folder of its
# programs as the last line. Made once; anew when the file changes. Nothing of the system's Python is touched.
#
# usage: deploy/python.sh REQUIREMENTS
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

requirements=${1:?usage: deploy/python.sh REQUIREMENTS}
[[ -f $requirements ]] || {
    echo "python: there is no $requirements" >&2
    exit 1
}
digest=$(sha256sum "$requirements")
folder=$PWD/.build/python-${digest:0:16}

if [[ ! -e $folder/complete ]]; then
    # Debian splits what makes environments from its Python.
    deploy/packages.sh python3=python3 >&2
    python3 -c 'import ensurepip' 2>/dev/null || deploy/packages.sh python3-venv >&2
    rm -rf "$folder"
    python3 -m venv "$folder" >&2
    "$folder/bin/pip" --quiet --disable-pip-version-check install --requirement "$requirements" >&2
    touch "$folder/complete"
fi
echo "$folder/bin"
