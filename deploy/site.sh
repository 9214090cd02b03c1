#!/usr/bin/env bash
# Makes a site of the documents: HTML with navigation and a search that runs in the browser. It needs no server: the files can
# be opened from a folder. All links within the site are checked.
#
# usage: deploy/site.sh FOLDER       which is created, or empty
if [[ ${1:-} == --help ]]; then
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit
fi
set -euo pipefail

mkdir -p "${1:?"usage: deploy/site.sh FOLDER"}"
folder=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=$(deploy/python.sh deploy/site/requirements.txt)
umask 022
PYTHONDONTWRITEBYTECODE=1 "$python/python" deploy/site/make.py "$folder"
