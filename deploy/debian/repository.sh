#!/usr/bin/env bash
# Makes the files of an apt repository from Debian packages, for a web server or a folder, and prints the folder.
#
# usage: deploy/debian/repository.sh --output FOLDER [--key KEY] PACKAGE...
#
#   --output FOLDER   packages that are in its pool already stay in the repository
#   --key KEY         a key of gpg: fingerprint or e-mail address. Without it the repository is not signed
#
# FOLDER then has `pool`, `dists`, and with --key its public part cloakroom.asc, for /etc/apt/keyrings. The date is
# SOURCE_DATE_EPOCH, by default now: apt ignores a repository that is older than the one it knows.
if [[ ${1:-} == --help ]]; then
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit
fi
set -euo pipefail

fail() {
    echo "repository: $1" >&2
    exit 1
}
output="" key="" packages=()
while (($#)); do
    case $1 in
        --output) output=${2:?"repository: --output requires a folder"} && shift ;;
        --key) key=${2:?"repository: --key requires a key"} && shift ;;
        *.deb) packages+=("$1") ;;
        *) fail "$1 is not a package; see deploy/debian/repository.sh --help" ;;
    esac
    shift
done
[[ -n $output && ${#packages[@]} -gt 0 ]] || fail "--output and packages are required; see deploy/debian/repository.sh --help"
"$(dirname "${BASH_SOURCE[0]}")/../packages.sh" dpkg-scanpackages=dpkg-dev ${key:+gpg=gnupg} >&2

export LC_ALL=C TZ=UTC
umask 022
install -D --mode=644 --target-directory="$output/pool/main/c/cloakroom" "${packages[@]}"
cd "$output"
suite=dists/stable
rm -rf "$suite"
mapfile -t architectures < <(find pool -name '*.deb' | sed 's/.*_\(.*\)\.deb$/\1/' | sort -u)
for architecture in "${architectures[@]}"; do
    index=$suite/main/binary-$architecture
    mkdir -p "$index"
    dpkg-scanpackages --multiversion --hash sha256 --arch "$architecture" pool >"$index/Packages"
    gzip -9n --keep "$index/Packages"
done
cat >"$suite/Release" <<RELEASE
Origin: Cloakroom
Label: Cloakroom
Suite: stable
Codename: stable
Date: $(date --date="@${SOURCE_DATE_EPOCH:-$(date +%s)}" '+%a, %d %b %Y %T UTC')
Architectures: ${architectures[*]}
Components: main
SHA256:
$(cd "$suite" && find main -type f | sort | while read -r path; do
    echo " $(sha256sum "$path" | cut -d ' ' -f 1) $(stat --format=%s "$path") $path"
done)
RELEASE

if [[ -n $key ]]; then
    gpg --batch --local-user "$key" --armor --detach-sign --output "$suite/Release.gpg" "$suite/Release"
    gpg --batch --local-user "$key" --clearsign --output "$suite/InRelease" "$suite/Release"
    gpg --batch --yes --armor --export --output cloakroom.asc "$key"
else
    echo "repository: NOT SIGNED: apt uses it only with [trusted=yes], without any protection; see --key" >&2
fi
pwd
