#!/usr/bin/env bash
# Draws the pictures of the documentation: the CPU time per request of all gateways, in a light and a dark version, or
# the simulation of upstreams.
#
# usage: Benchmarks/plot.sh                         from Benchmarks/results.json
#        Benchmarks/plot.sh --measure [OPTION ...]  measures first and writes that file; the options are compare.sh's
#        Benchmarks/plot.sh --upstreams [FOLDER]    runs the simulation, or uses what it wrote to the folder
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

results=Benchmarks/results.json
resources=Sources/cloakroom/Documentation.docc/Resources
picture=${PICTURE:-$resources/benchmarks.png}
pictures=("$picture" "${picture%.png}-dark.png")
figures=
case ${1:-} in
    '') ;;
    --measure) Benchmarks/compare.sh --baselines all --scenarios main "${@:2}" --json "$results" ;;
    --upstreams)
        pictures=("$resources"/upstreams-{latency,shares}.png)
        figures=${2:-}
        if [[ -z $figures ]]; then
            figures=$(mktemp -d)
            trap 'rm -rf "$figures"' EXIT
            CLOAKROOM_SIMULATION_FIGURES=$figures deploy/test.sh --filter FiguresTests
        fi
        ;;
    *)
        sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
        exit 1
        ;;
esac
deploy/packages.sh pngquant=pngquant
environment=$(deploy/python.sh Benchmarks/requirements.txt)
if [[ -n $figures ]]; then
    "$environment/python" Benchmarks/plot_upstreams.py "$figures" "$resources"
else
    "$environment/python" Benchmarks/plot.py "$results" "$picture"
fi
for file in "${pictures[@]}"; do
    pngquant --force --strip --ext .png 16 "$file"
    echo "$file: $(stat --format=%s "$file") bytes"
done
