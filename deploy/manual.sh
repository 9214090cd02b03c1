#!/usr/bin/env bash
# Generates the manual pages, one for each command, with the tool of swift-argument-parser: cloakroom.1,
# cloakroom.serve.1, and so on.
#
# usage: deploy/manual.sh BINARY FOLDER
#
# The date of the pages is SOURCE_DATE_EPOCH, by default the time of the commit. MANUAL_TOOL is the tool `generate-manual`;
# by default it is built with the flags of deploy/build.sh, so that no module is built twice.
if [[ ${1:-} == --help ]]; then
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit
fi
set -euo pipefail

binary=$(realpath "${1:?"usage: deploy/manual.sh BINARY FOLDER"}")
mkdir -p "${2:?"usage: deploy/manual.sh BINARY FOLDER"}"
folder=$(realpath "$2")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tool=${MANUAL_TOOL:-}
[[ -n $tool ]] || tool=$(deploy/build.sh generate-manual | tail -n 1)
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
# The tool reads the date in the local time zone.
TZ=UTC "$tool" "$binary" --multi-page --section 1 --date "$(date --utc --date "@$epoch" +%F)" --output-directory "$folder"
