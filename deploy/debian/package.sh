#!/usr/bin/env bash
# Makes a Debian package of the gateway from the files of a release, and prints its path.
#
# usage: deploy/debian/package.sh --tree FOLDER --output FOLDER [--version VERSION]
#
#   --tree FOLDER       the unpacked archive of deploy/release.sh: bin, share, lib
#   --output FOLDER     gets cloakroom_VERSION_ARCHITECTURE.deb
#   --version VERSION   by default that of the program; in 1.0.0-rc.1 the hyphen becomes ~, which Debian sorts before 1.0.0
#
# The package is for the Debian release on which it is made, and later ones. The same tree gives the same bytes: all times
# are SOURCE_DATE_EPOCH, by default the time of the commit. DEBFULLNAME and DEBEMAIL name its maintainer.
if [[ ${1:-} == --help ]]; then
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit
fi
set -euo pipefail

fail() {
    echo "package: $1" >&2
    exit 1
}
tree="" output="" version=""
while (($#)); do
    case $1 in
        --tree) tree=$(realpath "${2:?"package: --tree requires a folder"}") && shift ;;
        --output) output=$(mkdir -p "${2:?"package: --output requires a folder"}" && realpath "$2") && shift ;;
        --version) version=${2:?"package: --version requires a version"} && shift ;;
        *) fail "unknown argument $1; see deploy/debian/package.sh --help" ;;
    esac
    shift
done
[[ -x $tree/bin/cloakroom && -n $output ]] || fail "--tree with bin/cloakroom and --output are required; see deploy/debian/package.sh --help"
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
deploy/packages.sh dpkg-shlibdeps=dpkg-dev >&2

export LC_ALL=C TZ=UTC
umask 022
version=${version:-$("$tree/bin/cloakroom" --version)}
version=${version//-/\~}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
maintainer="${DEBFULLNAME:-Cloakroom maintainers} <${DEBEMAIL:-maintainers@cloakroom.example}>"
architecture=$(dpkg --print-architecture)

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
trap 'exit 130' INT TERM
root=$stage/root
shipped=$tree/share/doc/cloakroom
documents=$root/usr/share/doc/cloakroom

PREFIX=/usr DESTDIR=$root deploy/install.sh "$tree/bin/cloakroom" >&2
# Debian's zsh does not search /usr/share/zsh/site-functions.
mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
find "$root/usr/share/man" -name '*.1' -exec gzip -9n {} +
sed -i '1{/^#!/d}' "$root/usr/share/bash-completion/completions/cloakroom"
install -D --mode=644 --target-directory="$documents" "$shipped/cloakroom.cdx.json" deploy/debian/README.Debian
install -D --mode=644 "$shipped/examples/cloakroom.yaml" "$documents/examples/cloakroom.yaml"
install -D --mode=644 deploy/debian/lintian-overrides "$root/usr/share/lintian/overrides/cloakroom"
install -D --mode=644 deploy/debian/sysusers "$root/usr/lib/sysusers.d/cloakroom.conf"
config=$root/etc/cloakroom/cloakroom.yaml
install -D --mode=640 "$shipped/examples/cloakroom-systemd.yaml" "$config"
sed -i "s|config/cloakroom.yaml of the repository|/usr/share/doc/cloakroom/examples/cloakroom.yaml|" "$config"

# The unit of the release, without the steps of its installation, and with a user that always exists: the configuration
# belongs to its group.
unit=$root/usr/lib/systemd/system/cloakroom.service
install -D --mode=644 "$tree/lib/systemd/system/cloakroom.service" "$unit"
sed -i -e '1,/^\[Unit\]$/{/^\[Unit\]$/!d}' -e 's|/usr/local/bin/cloakroom|/usr/bin/cloakroom|' \
    -e 's/^# The user exists only while the service runs\. /# /' -e '/^DynamicUser=yes$/d' -e 's/^User=cloakroom$/&\nGroup=cloakroom/' \
    -e 's|^Description=.*|&\nDocumentation=man:cloakroom(1) file:/usr/share/doc/cloakroom/README.Debian|' "$unit"
if (($(grep -cE '^(Documentation|Exec(Start|Reload)=/usr/bin/cloakroom|User|Group)\b' "$unit") != 5)) ||
    grep -qE 'DynamicUser|/usr/local|only while the service' "$unit"; then
    fail "deploy/systemd/cloakroom.service has changed; adapt deploy/debian/package.sh"
fi

# Licences and notices of everything that is linked. Debian has the terms of the Apache License in one place.
copyright() {
    local file text reference="Apache License, Version 2.0: see /usr/share/common-licenses/Apache-2.0"
    local terms='/^ *Apache License$/,/END OF TERMS AND CONDITIONS/'
    local -A seen=()
    printf 'Cloakroom\n\nCopyright: the authors of Cloakroom\n%s\n\n' "$reference"
    echo "The program contains code of other projects, with these licences and notices. cloakroom.cdx.json lists the sources."
    while read -r file; do
        text=$(<"$shipped/licences/$file")
        if cmp --silent <(sed -n "${terms}p" <<<"$text" | tr -d '[:space:]') <(sed -n "${terms}p" LICENSE | tr -d '[:space:]'); then
            text=$(sed "${terms}c\\    $reference" <<<"$text")
        fi
        [[ -z ${seen[$text]:-} ]] || text="The same text as ${seen[$text]}."
        seen[$text]=$file
        printf '\n--------------------  %s\n\n%s\n' "$file" "$text"
    done < <(find "$shipped/licences" -type f -printf '%P\n' | sort)
    ((${#seen[@]}))
}
copyright >"$documents/copyright" || fail "no licences in $shipped/licences"
printf 'cloakroom (%s) unstable; urgency=medium\n\n  * %s\n\n -- %s  %s\n' "$version" \
    "New version. The messages of the repository's commits describe the changes." "$maintainer" \
    "$(date --date="@$SOURCE_DATE_EPOCH" '+%a, %d %b %Y %T %z')" | gzip -9n >"$documents/changelog.gz"

# dpkg-shlibdeps requires a file debian/control.
mkdir -p "$stage/source/debian" "$root/DEBIAN"
printf 'Source: cloakroom\n\nPackage: cloakroom\nArchitecture: any\n' >"$stage/source/debian/control"
libraries=$(cd "$stage/source" && dpkg-shlibdeps -O -e"$root/usr/bin/cloakroom" 2>"$stage/messages") ||
    fail "dpkg-shlibdeps: $(<"$stage/messages")"
install --mode=755 --target-directory="$root/DEBIAN" deploy/debian/{postinst,prerm,postrm}
echo /etc/cloakroom/cloakroom.yaml >"$root/DEBIAN/conffiles"
(cd "$root" && find usr -type f | sort | xargs -d '\n' md5sum) >"$root/DEBIAN/md5sums"
cat >"$root/DEBIAN/control" <<CONTROL
Package: cloakroom
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(find "$root/usr" "$root/etc" -printf '%y %s\n' | awk '{ sum += $1 == "f" ? int(($2 + 1023) / 1024) : 1 } END { print sum }')
Depends: ${libraries#shlibs:Depends=}, adduser | systemd-sysusers, ca-certificates
Section: httpd
Priority: optional
Description: reverse proxy and BFF gateway that keeps tokens on the server
 Cloakroom signs users in on behalf of its clients, at an API or an OpenID
 Provider, and keeps their tokens. A client has only an opaque session cookie;
 requests are forwarded with the tokens that their route requires.
 .
 The service is neither enabled nor started by the installation, because it
 needs the address of your API and a certificate first. README.Debian lists the
 steps. A running service is restarted by an upgrade.
CONTROL

find "$root" -type d -exec chmod 755 {} +
find "$root" -exec touch --date="@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group --uniform-compression -Zxz -z3 --build "$root" "$output/cloakroom_${version}_$architecture.deb" >&2
echo "$output/cloakroom_${version}_$architecture.deb"
