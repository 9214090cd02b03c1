#!/usr/bin/env bash
# Draws the picture of the documentation, in a light and a dark version: CPU time per request of all gateways.
#
# usage: Benchmarks/plot.sh                         from Benchmarks/results.json
#        Benchmarks/plot.sh --measure [OPTION ...]  measures first and writes that file; the options are compare.sh's
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

results=Benchmarks/results.json
picture=${PICTURE:-Sources/cloakroom/Documentation.docc/Resources/benchmarks.png}
if [[ ${1:-} == --measure ]]; then
    Benchmarks/compare.sh --baselines all --scenarios main "${@:2}" --json "$results"
elif [[ $# -gt 0 ]]; then
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit 1
fi
deploy/packages.sh pngquant=pngquant
environment=$(deploy/python.sh Benchmarks/requirements.txt)
"$environment/python" Benchmarks/plot.py "$results" "$picture"
for file in "$picture" "${picture%.png}-dark.png"; do
    pngquant --force --strip --ext .png 16 "$file"
    echo "$file: $(stat --format=%s "$file") bytes"
done
