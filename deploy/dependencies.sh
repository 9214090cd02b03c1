#!/usr/bin/env bash
# Pins all dependencies, also those of dependencies, to the versions and commits of deploy/dependencies.txt.
#
# usage: deploy/dependencies.sh             writes Package.resolved if it does not exist; SwiftPM then uses these commits
#        deploy/dependencies.sh --check     fails and prints the differences if Package.resolved has other commits
#        deploy/dependencies.sh --update    writes the list from Package.resolved; review the difference and commit it
#
# Package.swift pins only direct dependencies: SwiftPM warns about a package that no target uses. Package.resolved is not
# in the repository, because each toolchain writes its own format of it.
if [[ ${1:-} == --help ]]; then
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit
fi
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

list=deploy/dependencies.txt
resolved=Package.resolved

# The pins of Package.resolved, one line each: identity, version, commit, location. SwiftPM writes one key per line. It takes
# the location of any package that depends on the other one, with or without `.git`.
pins() {
    awk -F '"' '
        $2 == "identity" || $2 == "location" || $2 == "revision" || $2 == "version" { if (NF > 3) value[$2] = $4 }
        $2 == "identity" { delete value["version"] }
        $2 == "version" && NF > 3 { print value["identity"], value["version"], value["revision"], value["location"] }
    ' "$resolved" | sed 's/\.git$//' | LC_ALL=C sort
}

# The lines of the list without comments.
listed() {
    grep -v -e '^#' -e '^$' "$list" | sed 's/\.git$//' | LC_ALL=C sort
}

as_json() {
    echo '{'
    echo '  "pins" : ['
    listed | awk '
        NR > 1 { print "    }," }
        {
            print "    {"
            print "      \"identity\" : \"" $1 "\","
            print "      \"kind\" : \"remoteSourceControl\","
            print "      \"location\" : \"" $4 "\","
            print "      \"state\" : {"
            print "        \"revision\" : \"" $3 "\","
            print "        \"version\" : \"" $2 "\""
            print "      }"
        }
        END { print "    }" }'
    echo '  ],'
    echo '  "version" : 2'
    echo '}'
}

case ${1:-} in
    "")
        [[ -e $resolved ]] || as_json >"$resolved"
        ;;
    --check)
        if grep -nE '\.package\(url:' Package.swift | grep -v 'exact: "'; then
            echo "dependencies: Package.swift must name one version of each package: exact: \"VERSION\"" >&2
            exit 1
        fi
        if [[ ! -e $resolved ]]; then
            echo "dependencies: $resolved not found; run \`swift package resolve\` first" >&2
            exit 1
        fi
        if ! difference=$(diff --label "$list" --label "$resolved" -u0 <(listed) <(pins)); then
            echo "dependencies: $resolved differs from $list:" >&2
            grep -E '^[-+][^-+]' <<<"$difference" >&2 || true
            echo "dependencies: if the change is intended, run deploy/dependencies.sh --update and commit $list;" >&2
            echo "dependencies: otherwise delete $resolved, run deploy/dependencies.sh and build again" >&2
            exit 1
        fi
        echo "dependencies: $(listed | wc -l) packages at the listed commits"
        ;;
    --update)
        {
            sed -n '/^#/p' "$list"
            pins
        } >"$list.new"
        mv "$list.new" "$list"
        echo "dependencies: $(listed | wc -l) packages written to $list"
        ;;
    *)
        echo "dependencies: unknown argument $1; see deploy/dependencies.sh --help" >&2
        exit 1
        ;;
esac
