#!/usr/bin/env python3
"""Prints what a release binary consists of: bytes by package or library, and by section.

usage: deploy/parts.py BINARY       an unstripped binary, as deploy/build.sh makes it
       deploy/parts.py --times      the time of the last build from nothing, by package

A symbol belongs to the module in its mangled name; C code to the package whose prefix or module it has. Sections without
symbols, such as relocations and unwind tables, are listed by themselves.

The times are from SwiftPM's database of the release build, which must have started without build products. It contains
when each step ended; the time since the end of the previous step is attributed to its package. Steps run in parallel, so
the times of small packages are approximate; their sum is the duration of the build.
"""

import pathlib
import re
import sqlite3
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
CHECKOUTS = TOP / ".build-release/checkouts"
# `$s7NIOCore...`: the module of a Swift symbol is its first identifier with a length.
MODULE = re.compile(r"^_?\$s(?:[^0-9\s]{0,2})(\d+)")
# C and C++ symbols, by prefix, in the order in which they are compared.
PREFIXES = [
    ("icudt", "ICU: data"),
    ("CNIOBoringSSL", "swift-nio-ssl"),
    ("CCryptoBoringSSL", "swift-crypto"),
    ("c_nio", "swift-nio"),
    ("CNIO", "swift-nio"),
    ("yaml_", "Yams"),
    ("dispatch_", "Swift: Dispatch"),
    ("_dispatch_", "Swift: Dispatch"),
    ("swift_", "Swift: standard library"),
    ("CF", "Swift: Foundation"),
    ("_CF", "Swift: Foundation"),
    ("__CF", "Swift: Foundation"),
    ("cloakroom_", "Cloakroom"),
]
RUNTIME = {
    "Swift": "Swift: standard library",
    "Foundation": "Swift: Foundation",
    "FoundationEssentials": "Swift: Foundation",
    "FoundationInternationalization": "Swift: Foundation",
    "FoundationNetworking": "Swift: Foundation",
    "_FoundationCollections": "Swift: Foundation",
    "Dispatch": "Swift: Dispatch",
    "Glibc": "Swift: standard library",
    "Observation": "Swift: standard library",
    "Synchronization": "Swift: standard library",
}
# Modules whose name is not that of their folder.
RENAMED = {"SystemPackage": "swift-system"}
OWN = "Cloakroom"


def packages_of_modules():
    """Module to package: each folder of a checkout's Sources is a module."""
    modules = dict(RENAMED)
    for package in sorted(CHECKOUTS.glob("*")):
        folders = list(package.glob("Sources/*")) + list(package.glob("Sources/*/*"))
        for folder in folders:
            if folder.is_dir():
                modules.setdefault(folder.name, package.name)
    for folder in (TOP / "Sources").iterdir():
        modules[folder.name] = OWN
    return modules


def module_of(symbol):
    """The module of a mangled Swift symbol, or None."""
    match = MODULE.match(symbol)
    if match:
        return symbol[match.end() : match.end() + int(match.group(1))]
    return "Swift" if symbol.startswith(("$s", "_$s")) else None


def part_of(symbol, modules):
    module = module_of(symbol)
    if module is not None:
        if module.startswith(("_Concurrency", "_StringProcessing", "_RegexParser", "_Distributed")):
            return "Swift: standard library"
        if module.startswith(("MLKEM", "MLDSA", "XWING")):
            return "swift-crypto"
        return RUNTIME.get(module) or modules.get(module) or "Swift: standard library"
    for prefix, part in PREFIXES:
        if symbol.startswith(prefix):
            return part
    # Swift's BoringSSL is in C++ namespaces with the same prefixes; ICU's namespace and C functions end with its version.
    for text, part in (("CNIOBoringSSL", "swift-nio-ssl"), ("CCryptoBoringSSL", "swift-crypto")):
        if text in symbol:
            return part
    if re.search(r"icu_?\d{0,3}|(?:_|L)\d\d(?:_swift)?$|^_Z.*(?:UChar|Unicode)", symbol):
        return "ICU: code"
    if symbol.startswith(("_ZN5swift", "_ZNK5swift", "_ZNSt", "_ZSt", "_ZL", "_ZN")):
        return "Swift: standard library"
    return "other C and C++ code"


def symbols(binary):
    """Names and sizes; aliases of one address are counted once."""
    listed = subprocess.run(["nm", "--print-size", "--defined-only", binary], capture_output=True, text=True, check=True).stdout
    seen = set()
    for line in listed.splitlines():
        words = line.split()
        if len(words) == 4 and words[2].lower() != "b" and words[0] not in seen:
            seen.add(words[0])
            yield words[3], int(words[1], 16)


def linked_packages(binary):
    """The packages with at least one symbol in the binary."""
    modules = packages_of_modules()
    return {part_of(name, modules) for name, _ in symbols(binary)}


def sections(binary):
    """Sections that are loaded, with their sizes in the file."""
    text = subprocess.run(["readelf", "--section-headers", "--wide", binary], capture_output=True, text=True, check=True).stdout
    found = []
    for line in text.splitlines():
        match = re.match(r"\s*\[\s*\d+\]\s+(\S+)\s+(\S+)\s+\S+\s+\S+\s+([0-9a-f]+)\s+\S+\s+(\S*)", line)
        if match and match.group(2) != "NOBITS":
            found.append((match.group(1), int(match.group(3), 16), "A" in match.group(4)))
    return found


def print_table(title, rows, total):
    print(f"{title:<44}{'MB':>8}{'share':>8}")
    for name, size in sorted(rows.items(), key=lambda row: -row[1]):
        if size >= 50_000:
            print(f"  {name:<42}{size / 1e6:>8.2f}{size / total:>8.1%}")
    print()


def print_times():
    """The elapsed time of the release build by package, from the end times of its steps."""
    database = sqlite3.connect(f"file:{TOP}/.build-release/build.db?mode=ro", uri=True)
    query = "SELECT CAST(key AS TEXT), start, end FROM rule_results JOIN key_names ON id = key_id"
    steps = [(end, start, key) for key, start, end in database.execute(query) if key.startswith("C") and "release" in key]
    if not steps:
        raise SystemExit("parts: .build-release/build.db contains no release build; run deploy/build.sh first")
    steps.sort()
    modules = packages_of_modules()
    previous = min(start for _, start, _ in steps)
    times = {}
    for end, _, key in steps:
        found = re.search(r"/release/([^/]+)\.(?:build|product)/", key) or re.search(r"C\.(.+?)-[^-/]+-unknown", key)
        module = found.group(1) if found else ""
        package = modules.get(module, "other steps")
        if "BoringSSL" in module:
            package += ": BoringSSL"
        times[package] = times.get(package, 0) + end - previous
        previous = end
    for package, seconds in sorted(times.items(), key=lambda row: -row[1]):
        print(f"  {package:<42}{seconds:>8.0f} s")
    print(f"{len(steps)} steps, {sum(times.values()):.0f} s")


def main(arguments):
    if arguments == ["--times"]:
        print_times()
        return 0
    if len(arguments) != 1 or arguments[0] == "--help":
        print(__doc__.strip())
        return 0 if arguments == ["--help"] else 2
    binary = arguments[0]
    modules = packages_of_modules()
    parts = {}
    for name, size in symbols(binary):
        part = part_of(name, modules)
        parts[part] = parts.get(part, 0) + size
    if not parts:
        print(f"parts: {binary} has no symbols; use the binary of deploy/build.sh, not the stripped one", file=sys.stderr)
        return 1
    loaded = {name: size for name, size, is_loaded in sections(binary) if is_loaded}
    removed = {name: size for name, size, is_loaded in sections(binary) if not is_loaded}
    total = sum(loaded.values())
    print_table("symbols, by package or library", parts, total)
    print_table("sections of the stripped binary", loaded, total)
    print_table("sections that stripping removes", removed, sum(removed.values()) or 1)
    print(f"stripped {total / 1e6:.1f} MB, of which {sum(parts.values()) / 1e6:.1f} MB in symbols; removed {sum(removed.values()) / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
