#!/usr/bin/env bash
# Provides glewlwyd, the OpenID Provider of tests and trials, and prints the folder of the program as the last line.
#
# usage: deploy/glewlwyd/install.sh
#
# A `glewlwyd` on the path is used as it is. Otherwise Debian's package is unpacked into `.build/` and its libraries are
# installed. The package itself is not installed, because its scripts create a database, a system user and a service.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if program=$(command -v glewlwyd); then
    dirname "$program"
    exit
fi

folder=$PWD/.build/glewlwyd
if [[ ! -e $folder/complete ]]; then
    if ! command -v apt-get >/dev/null; then
        echo "glewlwyd: apt-get not found; install glewlwyd with your system's package manager" >&2
        exit 1
    fi
    rm -rf "$folder"
    mkdir -p "$folder"
    # apt-get downloads as an unprivileged user, who may not have access to this folder. Its warning is not an error.
    if ! (cd "$folder" && apt-get download -qq glewlwyd) 2>"$folder/log"; then
        cat "$folder/log" >&2
        echo "glewlwyd: apt-get failed to download the package; run apt-get update as root, or install glewlwyd" >&2
        exit 1
    fi
    dpkg-deb --extract "$folder"/glewlwyd_*.deb "$folder"
    # The libraries of the program: names without versions, the first of each alternative.
    mapfile -t libraries < <(dpkg-deb --field "$folder"/glewlwyd_*.deb Depends | tr ',' '\n' | awk '$1 ~ /^lib/ { print $1 }')
    deploy/packages.sh "${libraries[@]}" sqlite3=sqlite3 openssl=openssl python3=python3 >&2
    touch "$folder/complete"
fi
if [[ ! -e $folder/usr/share/glewlwyd/webapp/login.html ]] && command -v apt-get >/dev/null; then
    # Its web pages, with their scripts and fonts. Tests need none, so a failure is tried again the next time.
    pages=(glewlwyd-common fonts-fork-awesome libjs-jquery libjs-bootstrap4 libjs-popper.js)
    if (cd "$folder" && apt-get download -qq "${pages[@]}") 2>"$folder/log"; then
        for package in "${pages[@]}"; do dpkg-deb --extract "$folder/${package}"_*.deb "$folder"; done
    else
        echo "glewlwyd: without its web pages: browsers get 404 instead of them" >&2
    fi
fi
echo "$folder/usr/bin"
