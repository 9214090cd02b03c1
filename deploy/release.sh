#!/usr/bin/env bash
# Builds a release: two archives, a container image, a software bill of materials and checksums.
#
# usage: deploy/release.sh [--binary FILE] [--output FOLDER] [--manual FOLDER]
#
#   --binary FILE     the gateway as deploy/build.sh makes it, with cloakroom-demo in the same folder; by default both are built
#   --output FOLDER   by default .build/release-VERSION
#   --manual FOLDER   manual pages (*.1) to include; by default deploy/manual.sh generates them
#
# FOLDER then contains:
#   cloakroom-VERSION-linux-ARCHITECTURE.tar.gz         the stripped gateway and demo, completions, manual pages, unit, example
#                                                       configurations, web client, documents, licences of everything, bill of materials
#   cloakroom-VERSION-linux-ARCHITECTURE-debug.tar.gz   the debug symbols, which debuggers find by the binary's debug link
#   cloakroom-VERSION-linux-ARCHITECTURE-image.tar      the image for `docker load` and others, if the system has dpkg
#   cloakroom-VERSION.cdx.json                          the bill of materials, CycloneDX 1.6
#   cloakroom_VERSION_ARCHITECTURE.deb                  the gateway as a Debian package, if the system has dpkg
#   SHA256SUMS                                          checksums of these files; check with `sha256sum --check SHA256SUMS`
#
# The archives depend only on the binary, the commit and the tools: names are sorted, owners are 0, and all times are
# SOURCE_DATE_EPOCH, by default the time of the commit.
if [[ ${1:-} == --help ]]; then
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit
fi
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

binary=""
output=""
manual=""
while (($#)); do
    case $1 in
        --binary) binary=$(realpath "${2:?"release: --binary requires a file"}") && shift ;;
        --output) output=${2:?"release: --output requires a folder"} && shift ;;
        --manual) manual=$(realpath "${2:?"release: --manual requires a folder"}") && shift ;;
        *)
            echo "release: unknown argument $1; see deploy/release.sh --help" >&2
            exit 1
            ;;
    esac
    shift
done

deploy/packages.sh objcopy=binutils python3=python3 >&2
if [[ -z $binary ]]; then
    deploy/build.sh cloakroom-demo >/dev/null
    binary=$(deploy/build.sh | tail -n 1)
fi
demo=$(dirname "$binary")/cloakroom-demo
deploy/dependencies.sh --check >&2
for program in "$binary" "$demo"; do
    [[ -f $program ]] || { echo "release: no file $program; build it: deploy/build.sh [cloakroom-demo]" >&2 && exit 1; }
    if ! readelf --section-headers --wide "$program" | grep -q '\.symtab'; then
        echo "release: $program is stripped; the release needs the binary of deploy/build.sh" >&2
        exit 1
    fi
done

export LC_ALL=C TZ=UTC PYTHONDONTWRITEBYTECODE=1
umask 022
version=$("$binary" --version)
commit=${CLOAKROOM_COMMIT:-$(git rev-parse HEAD)}
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
name=cloakroom-$version-linux-$(uname -m)
output=${output:-.build/release-$version}
mkdir -p "$output"
output=$(realpath "$output")

stage=$(mktemp -d)
clean_up() {
    rm -rf "$stage"
}
trap clean_up EXIT
trap 'exit 130' INT TERM
top=$stage/$name
documents=$top/share/doc/cloakroom
mkdir -p "$top/bin" "$documents/examples" "$top/lib/systemd/system" "$top/lib/sysusers.d" "$stage/debug/$name-debug"

# The compiler's hash of each module depends on the folder of the build, and with it the linker's build ID. The hashes are not
# needed after linking; the build ID becomes the SHA-1 of the program with an empty one.
normalized=$stage/normalized
note=$stage/note
# set_build_id HEXADECIMAL
set_build_id() {
    local header
    header=$(head --bytes=16 "$note" | od -An -v -tx1 | tr -d ' \n')
    # shellcheck disable=SC2001,SC2059 # The format is made of \x escapes only.
    printf "$(sed 's/../\\x&/g' <<<"$header$1")" >"$stage/changed"
    objcopy --update-section .note.gnu.build-id="$stage/changed" "$normalized"
}
# add_program NAME FILE: adds the stripped program, and its debug symbols.
add_program() {
    local debug=$stage/debug/$name-debug/$1.debug
    # Zeros, because without the section objcopy would lose the segment GNU_RELRO.
    objcopy --dump-section .swift_modhash="$stage/hashes" --dump-section .note.gnu.build-id="$note" "$2" "$normalized"
    head --bytes="$(stat --format=%s "$stage/hashes")" /dev/zero >"$stage/zeros"
    objcopy --update-section .swift_modhash="$stage/zeros" "$normalized"
    if (($(stat --format=%s "$note") != 36)); then
        echo "release: the build ID of $2 does not have 20 bytes" >&2
        exit 1
    fi
    set_build_id "$(printf '%040d' 0)"
    set_build_id "$(sha1sum <"$normalized" | cut -c 1-40)"

    # The debug link holds the file's name and checksum: gdb and lldb search it next to the binary and below /usr/lib/debug.
    objcopy --only-keep-debug --compress-debug-sections=zlib "$normalized" "$debug"
    # .swift_ast is for debuggers, but not a debug section to objcopy.
    objcopy --strip-all --remove-section=.swift_ast --add-gnu-debuglink="$debug" "$normalized" "$top/bin/$1"
    chmod 755 "$top/bin/$1"
    chmod 644 "$debug"
    sizes+=("$1 $(megabytes "$2"), stripped $(megabytes "$top/bin/$1"), debug symbols $(megabytes "$debug")")
}
megabytes() {
    awk -v bytes="$(stat --format=%s "$1")" 'BEGIN { printf "%.1f MB", bytes / 1e6 }'
}
sizes=()
add_program cloakroom "$binary"
add_program cloakroom-demo "$demo"

# complete SHELL FILE
complete() {
    mkdir -p "$(dirname "$top/share/$2")"
    "$binary" --generate-completion-script "$1" >"$top/share/$2"
}
complete bash bash-completion/completions/cloakroom
complete zsh zsh/site-functions/_cloakroom
complete fish fish/vendor_completions.d/cloakroom.fish
if [[ -z $manual && -x deploy/manual.sh ]]; then
    manual=$stage/manual
    SOURCE_DATE_EPOCH=$epoch deploy/manual.sh "$binary" "$manual" >&2
fi
if [[ -n $manual ]]; then
    mkdir -p "$top/share/man/man1"
    cp "$manual"/*.1 "$top/share/man/man1/"
fi

cp README.md LICENSE "$documents/"
mkdir "$top/share/cloakroom"
cp -R deploy/web "$top/share/cloakroom/"
deploy/site.sh "$top/share/cloakroom/site" >&2
cp config/cloakroom.yaml "$documents/examples/cloakroom.yaml"
cp deploy/systemd/cloakroom.yaml "$documents/examples/cloakroom-systemd.yaml"
cp deploy/systemd/cloakroom.service deploy/systemd/cloakroom.socket "$top/lib/systemd/system/"
cp deploy/systemd/cloakroom.sysusers "$top/lib/sysusers.d/cloakroom.conf"
if [[ -x deploy/install.sh ]]; then cp deploy/install.sh "$top/"; fi

bill=$output/cloakroom-$version.cdx.json
deploy/sbom.py "$binary" "$demo" --version "$version" --commit "$commit" --epoch "$epoch" --sbom "$bill" \
    --licences "$documents/licences" >&2
cp "$bill" "$documents/cloakroom.cdx.json"
(cd "$top" && find . -type f -print0 | sort --zero-terminated | xargs -0 sha256sum) >"$stage/SHA256SUMS"
mv "$stage/SHA256SUMS" "$top/"

# archive FOLDER NAME
archive() {
    find "$1/$2" -type d -exec chmod 755 {} +
    tar --create --directory "$1" --format=gnu --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner "$2" |
        gzip --no-name >"$output/$2.tar.gz"
}
archive "$stage" "$name"
archive "$stage/debug" "$name-debug"
files=("$name.tar.gz" "$name-debug.tar.gz" "cloakroom-$version.cdx.json")
if command -v dpkg-deb >/dev/null; then
    package=$(SOURCE_DATE_EPOCH=$epoch deploy/debian/package.sh --tree "$top" --output "$output")
    files+=("${package##*/}")
fi
if command -v dpkg-query >/dev/null; then
    deploy/image.py --tree "$top" --output "$output" >/dev/null
    files+=("$name-image.tar")
fi
(cd "$output" && sha256sum "${files[@]}" >SHA256SUMS)

{
    printf 'release: %s\n' "${sizes[@]}"
    echo "release: $name.tar.gz $(megabytes "$output/$name.tar.gz")"
    echo "release: $name-debug.tar.gz $(megabytes "$output/$name-debug.tar.gz")"
} >&2
echo "$output"
