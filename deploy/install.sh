#!/usr/bin/env bash
# Installs the program with its completions and manual pages, or removes them.
#
# usage: install.sh [BINARY]
#        install.sh --uninstall
#
# BINARY is by default that of the release which contains this script; in the source tree it is built. Completions and
# manual pages are those of the release, or generated.
#
# Variables:
#   PREFIX    the folder to install to, by default /usr/local
#   DESTDIR   a folder in front of PREFIX, for packages; by default none
#
# Files, below PREFIX:
#   bin/cloakroom
#   share/bash-completion/completions/cloakroom
#   share/zsh/site-functions/_cloakroom
#   share/fish/vendor_completions.d/cloakroom.fish
#   share/man/man1/cloakroom.1, cloakroom.COMMAND.1
#
# Users, configurations, secrets and services are neither created nor removed: see deploy/systemd.
if [[ ${1:-} == --help ]]; then
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit
fi
set -euo pipefail

fail() {
    echo "install: $1" >&2
    exit 1
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix=${PREFIX:-/usr/local}
[[ $prefix == /* ]] || fail "PREFIX must be an absolute path, not $prefix"
root=${DESTDIR:-}$prefix
manual=man/man1
declare -A completions=(
    [bash]=bash-completion/completions/cloakroom
    [zsh]=zsh/site-functions/_cloakroom
    [fish]=fish/vendor_completions.d/cloakroom.fish
)

uninstall() {
    local file removed=0
    for file in bin/cloakroom "${completions[@]/#/share/}"; do
        if [[ -e $root/$file || -L $root/$file ]]; then rm -- "$root/$file" && removed=$((removed + 1)); fi
    done
    for file in "$root/share/$manual"/cloakroom.1 "$root/share/$manual"/cloakroom.*.1; do
        if [[ -e $file ]]; then rm -- "$file" && removed=$((removed + 1)); fi
    done
    echo "install: removed $removed files below $root"
}

case ${1:-} in
    --uninstall)
        uninstall
        exit
        ;;
    -*) fail "unknown option $1; see install.sh --help" ;;
esac

binary=${1:-}
if [[ -z $binary ]]; then
    if [[ -x $here/bin/cloakroom ]]; then
        binary=$here/bin/cloakroom
    elif [[ -x $here/build.sh ]]; then
        binary=$("$here/build.sh" | tail -n 1)
    else
        fail "no binary next to this script; write install.sh BINARY"
    fi
fi
[[ -f $binary && -x $binary ]] || fail "$binary is not a program"
# The files of a release: bin/cloakroom and share/.
shipped=$(cd "$(dirname "$binary")/.." && pwd)/share

made=$(mktemp -d)
clean_up() {
    rm -rf "$made"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# Everything is made before the first file is installed.
mkdir "$made/manual"
for shell in "${!completions[@]}"; do
    if [[ -f $shipped/${completions[$shell]} ]]; then
        cp "$shipped/${completions[$shell]}" "$made/$shell"
    else
        "$binary" --generate-completion-script "$shell" >"$made/$shell" || fail "$binary does not generate completions"
    fi
done
if [[ -f $shipped/$manual/cloakroom.1 ]]; then
    cp "$shipped/$manual"/cloakroom.1 "$shipped/$manual"/cloakroom.*.1 "$made/manual/"
elif [[ -x $here/manual.sh ]]; then
    "$here/manual.sh" "$binary" "$made/manual" >&2
else
    echo "install: no manual pages: none below $shipped, and no script manual.sh to generate them" >&2
fi

# A running gateway keeps its program: install replaces the file and does not overwrite it.
install -D -m 755 "$binary" "$root/bin/cloakroom"
for shell in "${!completions[@]}"; do install -D -m 644 "$made/$shell" "$root/share/${completions[$shell]}"; done
pages=0
for page in "$made/manual"/*.1; do
    if [[ -f $page ]]; then
        install -D -m 644 "$page" "$root/share/$manual/${page##*/}"
        pages=$((pages + 1))
    fi
done
echo "install: $root/bin/cloakroom, completions for bash, zsh and fish, $pages manual pages"
