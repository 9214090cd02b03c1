#!/usr/bin/env python3
"""Writes the software bill of materials (CycloneDX 1.6, JSON) of the release binaries, and the licences of their
contents.

usage: deploy/sbom.py BINARY... --version VERSION --commit COMMIT --epoch SECONDS --sbom FILE --licences FOLDER

Each BINARY is unstripped, as deploy/build.sh makes it: the bill lists the packages of deploy/dependencies.txt with symbols in
one; the other ones have the scope `excluded`. Also listed: the Swift runtime with Foundation and ICU, which is linked
statically, the BoringSSL of swift-nio-ssl and swift-crypto, and the shared libraries that they load. The same input
gives the same bytes: the time is that of the commit, the serial number is derived from the contents.

LICENCES gets one folder per package with its licence and notice files. A package without a licence file is an error.
"""

import argparse
import datetime
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import uuid

from parts import CHECKOUTS, TOP, linked_packages

LIST = TOP / "deploy/dependencies.txt"
LICENCE_FILE = re.compile(r"^(licen[cs]e|notices?|copying|acknowledge?ments)\b", re.IGNORECASE)
# The first words by which a licence is recognized, and its SPDX identifier.
LICENCES = (
    ("Apache License", "Apache-2.0"),
    ("Permission is hereby granted, free of charge", "MIT"),
    ("Redistribution and use in source and binary forms", "BSD-3-Clause"),
)
# Code of other projects that a package contains: package, repository, SPDX expression, file that states the revision, pattern.
BORINGSSL = ("google/boringssl", "Apache-2.0 OR ISC OR OpenSSL", "Package.swift", r"BoringSSL Commit: ([0-9a-f]{40})")
VENDORED = (
    ("swift-nio-ssl", *BORINGSSL),
    ("swift-crypto", *BORINGSSL),
    ("swift-nio", "nodejs/llhttp", "MIT", "Sources/CNIOLLHTTP/include/CNIOLLHTTP.h", r""),
    ("Yams", "yaml/libyaml", "MIT", "CHANGELOG.md", r"yaml/libyaml/compare/[0-9a-f]+\.\.\.([0-9a-f]+)"),
)


class Failure(Exception):
    pass


def licence_files(folder):
    """Licence and notice files at the top of a package and next to vendored sources."""
    files = [path for path in folder.iterdir() if path.is_file() and LICENCE_FILE.match(path.name)]
    for path in folder.glob("Sources/**/*"):
        if path.is_file() and LICENCE_FILE.match(path.name) and path.suffix in ("", ".txt", ".md"):
            files.append(path)
    return sorted(files)


def identifier_of(path):
    text = path.read_text(encoding="utf-8", errors="replace")
    for words, identifier in LICENCES:
        if words in " ".join(text.split()):
            return identifier
    raise Failure(f"{path.relative_to(TOP)} is not a licence that deploy/sbom.py knows; add its first words to LICENCES")


def copied(files, root, target):
    for path in files:
        to = target / path.relative_to(root)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)


def package_components(linked, licences):
    """The packages of the list, each with licence and source, and the code of other projects in them."""
    checkouts = {path.name.lower(): path for path in CHECKOUTS.iterdir()}
    for line in LIST.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        identity, version, revision, location = line.split()
        folder = checkouts.get(identity)
        if folder is None:
            raise Failure(f"the checkout of {identity} is not in {CHECKOUTS}; run deploy/build.sh first")
        files = licence_files(folder)
        main = [path for path in files if path.parent == folder and path.name.lower().startswith("licen")]
        if not main:
            raise Failure(f"{identity} has no licence file")
        copied(files, folder, licences / folder.name)
        path = location.removeprefix("https://").removesuffix(".git")
        component = {
            "type": "library",
            "bom-ref": f"pkg:swift/{path}@{version}",
            "name": folder.name,
            "version": version,
            "scope": "required" if folder.name in linked else "excluded",
            "licenses": [{"license": {"id": identifier_of(main[0])}}],
            "purl": f"pkg:swift/{path}@{version}",
            "externalReferences": [{"type": "vcs", "url": location}],
            "properties": [{"name": "cloakroom:commit", "value": revision}],
        }
        parts = list(vendored(folder))
        if parts:
            component["components"] = parts
        yield component


def vendored(folder):
    for package, repository, expression, file, pattern in VENDORED:
        if package != folder.name:
            continue
        name = repository.split("/")[1]
        component = {
            "type": "library",
            "bom-ref": f"{package}/{name}",
            "name": name,
            "licenses": [{"expression": expression}],
        }
        source = folder / file
        found = re.search(pattern, source.read_text(errors="replace")) if pattern and source.exists() else None
        if found:
            component["version"] = found.group(1)
            component["purl"] = f"pkg:github/{repository}@{found.group(1)}"
        yield component


def toolchain():
    """The folder of the Swift toolchain, and its version."""
    text = subprocess.run(["swiftc", "-print-target-info"], capture_output=True, text=True, check=True).stdout
    info = json.loads(text)
    version = re.search(r"Swift version (\S+)", info["compilerVersion"])
    if not version:
        raise Failure("swiftc -print-target-info does not contain the version of Swift")
    return pathlib.Path(info["paths"]["runtimeResourcePath"]).parent.parent, version.group(1)


def runtime_components(binaries, licences):
    """The statically linked runtime, and the shared libraries."""
    folder, version = toolchain()
    licence = folder / "share/swift/LICENSE.txt"
    if not licence.exists():
        raise Failure(f"{licence} not found")
    copied([licence], licence.parent, licences / "swift")
    expression = [{"expression": "Apache-2.0 WITH Swift-exception"}]
    names = ("swift", "swift-corelibs-foundation", "swift-foundation", "swift-corelibs-libdispatch")
    for name in names:
        yield {
            "type": "library", "bom-ref": f"pkg:github/swiftlang/{name}@{version}", "name": name, "version": version,
            "scope": "required", "licenses": expression, "purl": f"pkg:github/swiftlang/{name}@{version}",
        }
    icu = re.search(r"\bicudt(\d+)_dat\b", subprocess.run(["nm", *binaries], capture_output=True, text=True, check=True).stdout)
    if icu:
        yield {
            "type": "library", "bom-ref": f"pkg:github/swiftlang/swift-foundation-icu@{version}",
            "name": "swift-foundation-icu", "version": version, "scope": "required",
            "description": f"ICU {icu.group(1)}", "licenses": [{"license": {"id": "Unicode-3.0"}}],
            "purl": f"pkg:github/swiftlang/swift-foundation-icu@{version}",
        }
    dynamic = subprocess.run(["readelf", "--dynamic", "--wide", *binaries], capture_output=True, text=True, check=True).stdout
    for library in sorted(set(re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic))):
        yield {
            "type": "library", "bom-ref": f"shared:{library}", "name": library, "scope": "required",
            "properties": [{"name": "cloakroom:linkage", "value": "shared library of the system, not in the release"}],
        }


def bill(options, components):
    main = f"pkg:generic/cloakroom@{options.version}"
    time = datetime.datetime.fromtimestamp(options.epoch, datetime.timezone.utc)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": main,
                "name": "cloakroom",
                "version": options.version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "purl": main,
                "properties": [{"name": "cloakroom:commit", "value": options.commit}],
            },
        },
        "components": components,
        "dependencies": [
            {"ref": main, "dependsOn": sorted(c["bom-ref"] for c in components if c["scope"] == "required")}
        ],
    }
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}"
    return document


def main():
    if sys.argv[1:] == ["--help"]:
        print(__doc__.strip())
        return 0
    parser = argparse.ArgumentParser(add_help=False, usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("binaries", nargs="+", metavar="BINARY")
    parser.add_argument("--version", required=True)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("--sbom", type=pathlib.Path, required=True)
    parser.add_argument("--licences", type=pathlib.Path, required=True)
    options = parser.parse_args()
    linked = set().union(*map(linked_packages, options.binaries))
    components = list(package_components(linked, options.licences)) + list(runtime_components(options.binaries, options.licences))
    if not any(component["scope"] == "excluded" for component in components):
        print("sbom: note: every listed package has symbols in a binary", file=sys.stderr)
    options.sbom.write_text(json.dumps(bill(options, components), indent=2, sort_keys=True, ensure_ascii=False) + "\n")
    print(f"sbom: {len(components)} components, {sum(c['scope'] == 'required' for c in components)} of them in the binaries")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failure, OSError, subprocess.CalledProcessError) as error:
        print(f"sbom: {error}", file=sys.stderr)
        sys.exit(1)
