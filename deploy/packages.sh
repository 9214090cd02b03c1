#!/usr/bin/env bash
# Installs Debian packages that are missing, and nothing if none is.
#
# usage: deploy/packages.sh PACKAGE | COMMAND=PACKAGE ...
#
# PACKAGE is looked up in dpkg's database. COMMAND=PACKAGE is content with any COMMAND on the path, so that a tool which
# came another way, or a system without apt, will do. Services that a package brings are neither started nor enabled:
# it is their tools that are wanted here.
set -euo pipefail

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
    echo "packages: there is no apt-get here; install what these Debian packages hold in your system's own way" >&2
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

# What Debian's package scripts ask before they start a service; 101 is "no". One that stands there already belongs to
# somebody else and stays.
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
    echo "packages: apt-get does not install these, and says above why: ${missing[*]}" >&2
    if ((${#commands[@]})); then
        echo "packages: these commands will do as well, wherever on PATH they come from: ${commands[*]}" >&2
    fi
    exit 1
fi

# Without this a service that was not started now would be at the next boot.
if command -v systemctl >/dev/null; then
    mapfile -t added < <(installed_packages | comm -13 "$before" -)
    for package in "${added[@]}"; do
        while read -r unit; do
            "${as_root[@]}" systemctl --quiet disable "$unit" 2>/dev/null || true
        done < <(dpkg-query --listfiles "$package" | sed -n 's|.*/lib/systemd/system/\([^/@]*\.service\)$|\1|p')
    done
fi
