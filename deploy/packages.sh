#!/usr/bin/env bash
# Installs the Debian packages that are missing.
#
# usage: deploy/packages.sh PACKAGE | COMMAND=PACKAGE ...
#
# PACKAGE is checked in dpkg's database. COMMAND=PACKAGE is satisfied by any COMMAND on the path, which also covers tools
# from other sources and systems without apt. Services of a package are neither started nor enabled, because only the
# tools are needed.
if [[ ${1:-} == --help ]]; then
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit
fi
set -euo pipefail

# Scripts that run side by side install one after another.
exec 9<"${BASH_SOURCE[0]}"
if command -v flock >/dev/null; then flock 9; fi

missing=()
commands=()
for wanted in "$@"; do
    package=${wanted#*=}
    if [[ $wanted == *=* ]]; then
        command -v "${wanted%%=*}" >/dev/null && continue
        commands+=("${wanted%%=*}")
    else
        state=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
        [[ $state == installed ]] && continue
    fi
    missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

if ! command -v apt-get >/dev/null; then
    echo "packages: missing: ${missing[*]}" >&2
    echo "packages: apt-get not found; install the equivalents of these Debian packages with your system's package manager" >&2
    exit 1
fi

as_root=()
if [[ $EUID -ne 0 ]]; then
    if ! command -v sudo >/dev/null; then
        echo "packages: missing: ${missing[*]}" >&2
        echo "packages: run as root: apt-get update && apt-get install ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi

# Debian's package scripts run this file before they start a service; exit status 101 denies the start. An existing file
# is kept.
policy=/usr/sbin/policy-rc.d
before=$(mktemp)
made_policy=no
clean_up() {
    rm -f "$before"
    if [[ $made_policy == yes ]]; then "${as_root[@]}" rm -f "$policy"; fi
}
trap clean_up EXIT
trap 'exit 130' INT TERM

installed_packages() {
    dpkg-query --show --showformat='${Package} ${db:Status-Status}\n' | sed -n 's/ installed$//p' | sort -u
}

if [[ ! -e $policy ]]; then
    made_policy=yes
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
    "${as_root[@]}" chmod 755 "$policy"
fi
installed_packages >"$before"

echo "packages: installing ${missing[*]}"
install_missing() {
    "${as_root[@]}" apt-get update -qq &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}
if ! install_missing; then
    echo "packages: apt-get failed to install (see its output above): ${missing[*]}" >&2
    if ((${#commands[@]})); then
        echo "packages: alternatively, provide these commands on PATH: ${commands[*]}" >&2
    fi
    exit 1
fi

# Disables the services; otherwise they would start at the next boot.
if command -v systemctl >/dev/null; then
    mapfile -t added < <(installed_packages | comm -13 "$before" -)
    for package in "${added[@]}"; do
        while read -r unit; do
            "${as_root[@]}" systemctl --quiet disable "$unit" 2>/dev/null || true
        done < <(dpkg-query --listfiles "$package" | sed -n 's|.*/lib/systemd/system/\([^/@]*\.service\)$|\1|p')
    done
fi
