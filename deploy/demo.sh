#!/usr/bin/env bash
# Builds the gateway and its demo, and runs the demo: mock API, gateway, admin listener, one test user. Prints example commands. Ctrl-C
# ends it.
#
# usage: deploy/demo.sh [--port P] [--clear-port P] [--admin-port P] [--api-port P] [--identity NAME [--identity-port P]]
#
# --identity glewlwyd also runs a real OpenID Provider (Debian) that the user can sign in at; --identity mock runs the
# demo's own mock provider, which asks for no password. --identity-port is 4593 by default.
if [[ ${1:-} == --help ]]; then
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit
fi
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

identity=""
identity_port=4593
port=8443
clear_port=8080
arguments=()
while (($#)); do
    case $1 in
        --identity) identity=${2:?"demo: --identity requires a name: glewlwyd or mock"} && shift ;;
        --identity=*) identity=${1#*=} ;;
        --identity-port) identity_port=${2:?"demo: --identity-port requires a port"} && shift ;;
        --identity-port=*) identity_port=${1#*=} ;;
        --port) port=${2:?"demo: --port requires a port"} && arguments+=("$1" "$2") && shift ;;
        --clear-port) clear_port=${2:?"demo: --clear-port requires a port"} && arguments+=("$1" "$2") && shift ;;
        --clear-port=*) clear_port=${1#*=} && arguments+=("$1") ;;
        --port=*) port=${1#*=} && arguments+=("$1") ;;
        *) arguments+=("$1") ;;
    esac
    shift
done
case $identity in
    "" | glewlwyd | mock) ;;
    *)
        echo "demo: --identity must be glewlwyd or mock, not $identity" >&2
        exit 1
        ;;
esac
if [[ -n $identity && ($port == 0 || $clear_port == 0) ]]; then
    echo "demo: --identity requires a --port and a --clear-port that the provider knows, not 0" >&2
    exit 1
fi

deploy/toolchain.sh
# SwiftPM fetches with git; the example commands of the demo use curl.
deploy/packages.sh git=git curl=curl

if [[ $identity == glewlwyd ]]; then
    program=$(deploy/glewlwyd/install.sh | tail -n 1)
    PATH=$program:$PATH
fi

# A build that finds nothing to do takes far longer than the start. It is left out if nothing has changed since the beginning of
# the last one: the compiler, the commit, the versions of the dependencies, and the files, by the time of their last change
# in the file system, which no copy or checkout keeps. A file that is removed changes its folder.
inputs() {
    swift --version 2>&1
    echo "${CLOAKROOM_COMMIT:-$(git rev-parse HEAD 2>/dev/null) $(git diff --quiet HEAD 2>/dev/null || echo changed)}"
}
resolved() { cksum 2>/dev/null <Package.resolved || true; }
is_built() {
    local changed
    [[ -x $demo && -x ${demo%/*}/cloakroom ]] || return 1
    [[ $(tail -n +2 "$stamp") == "$(inputs && resolved)" ]] || return 1
    changed=$(find Package.swift Sources deploy/*.sh deploy/*.py deploy/*.txt -cnewer "$stamp" -print -quit) || return 1
    [[ -z $changed ]]
}
stamp=.build-release/demo-inputs
demo=$(head -n 1 "$stamp" 2>/dev/null || true)
if ! is_built; then
    mkdir -p .build-release
    rm -f "$stamp"
    touch "$stamp.begin"
    before=$(inputs)
    deploy/build.sh >/dev/null
    # Finds the gateway in its own folder.
    demo=$(deploy/build.sh cloakroom-demo | tail -n 1)
    printf '%s\n' "$demo" "$before" "$(resolved)" >"$stamp.new"
    touch -r "$stamp.begin" "$stamp.new"
    mv "$stamp.new" "$stamp"
fi
if [[ -z $identity ]]; then
    # exec, so that Ctrl-C and SIGTERM reach only the gateway.
    exec "$demo" "${arguments[@]}"
fi

folder=$(mktemp -d)
processes=()
# Ends what this script started, by process id, and waits for it.
clean_up() {
    for process in "${processes[@]}"; do kill "$process" 2>/dev/null || true; done
    wait
    rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 130' INT
# Each process gets a process group of its own: Ctrl-C reaches only this script, which then ends both.
set -m
trap 'exit 143' TERM

gateway=https://localhost:$port
echo cloakroom-client-secret >"$folder/client-secret"
if [[ $identity == glewlwyd ]]; then
    # It would reject the demo's self-signed certificate: logouts are reported to the listener without TLS.
    deploy/glewlwyd/run.py --folder "$folder/glewlwyd" --port "$identity_port" --gateway "$gateway" \
        --back-channel "http://127.0.0.1:$clear_port/auth/backchannel" \
        >"$folder/provider" 2>"$folder/log" &
else
    "$demo" mock-provider --port "$identity_port" --redirect-uri "$gateway/auth/callback" --ask-user \
        >"$folder/provider" 2>"$folder/log" &
fi
processes+=($!)
# Its last word is the issuer, once it listens.
for _ in {1..300}; do
    [[ -s $folder/provider ]] && break
    if ! kill -0 "${processes[0]}" 2>/dev/null; then break; fi
    sleep 0.1
done
issuer=$(awk 'END { print $NF }' "$folder/provider")
if [[ -z $issuer ]]; then
    echo "demo: the provider $identity did not start; the end of its log:" >&2
    tail -n 20 "$folder/log" >&2
    exit 1
fi

# Not exec: the provider ends with the gateway.
"$demo" "${arguments[@]}" --issuer "$issuer" --identity "$identity" --client-secret-file "$folder/client-secret" &
processes+=($!)
# Its text precedes this one.
until curl -kso /dev/null "$gateway/"; do
    if ! kill -0 "${processes[1]}" 2>/dev/null; then break; fi
    sleep 0.1
done
if ! kill -0 "${processes[1]}" 2>/dev/null; then
    : # It has reported why.
elif [[ $identity == glewlwyd ]]; then
    echo "  At glewlwyd, sign in as jo / secret, check both boxes, click on Grant access, then on Continue."
else
    echo "  The mock provider asks for no password."
fi
wait "${processes[1]}"
