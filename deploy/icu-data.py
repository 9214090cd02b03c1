#!/usr/bin/env python3
"""Writes the part of Foundation's ICU data that the gateway can need, for Sources/CloakroomBuild/icudata.c.

usage: deploy/icu-data.py FOLDER [--report]     writes the data to a file in FOLDER and prints the symbol and the file's path;
                                                with --report also what was removed
       deploy/icu-data.py --binary FILE         prints the symbol and the size of the ICU data in an unstripped program

Foundation's static library contains 34 MB of ICU data: formats, names and collations of 200 languages, conversion tables
of legacy character sets, word lists for line breaks. The data is one symbol, in an archive member of its own. The linker
does not load a member whose symbols are already defined, so an object file with the same symbol replaces it.

Kept: everything that is not specific to a language, and English. For another language ICU falls back to the root locale,
as it does for languages that it does not know. The gateway formats nothing in the language of its environment.

Fails without a result if the toolchain's data does not have the expected form; deploy/build.sh then links the complete
data. The file is written once per toolchain; its name contains a digest of this script and of the archive's size and time.
"""

import hashlib
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

ARCHIVE = "lib/swift_static/linux/lib_FoundationICU.a"
SYMBOL = re.compile(r"^icudt\d+_dat$")
# The names of resource bundles that belong to one language: `de`, `zh_Hant_TW`, `ca_ES_VALENCIA`. The others are `root`,
# `pool`, `supplementalData` and the like.
LOCALE = re.compile(r"^([a-z]{2,3})(_[A-Z][a-z]{3})?(_([A-Z]{2}|[0-9]{3}))?(_[A-Z0-9]+)?$")
LANGUAGE = "en"
HEADER_MAGIC = (0xDA, 0x27)
COMMON_DATA = b"CmnD"
# Of each item, as in the original.
ALIGNMENT = 16


class Unexpected(Exception):
    pass


def tool(name):
    """A tool of the toolchain, or else of the system."""
    beside = pathlib.Path(swift_folder(), "bin", name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if not found:
        raise Unexpected(f"{name} not found")
    return found


def swift_folder():
    swift = shutil.which("swiftc")
    if not swift:
        raise Unexpected("swiftc not found on the PATH")
    text = subprocess.run([swift, "-print-target-info"], capture_output=True, text=True, check=True).stdout
    resources = re.search(r'"runtimeResourcePath"\s*:\s*"([^"]+)"', text)
    if not resources:
        raise Unexpected("swiftc -print-target-info does not print a runtimeResourcePath")
    return pathlib.Path(resources.group(1)).parent.parent


def symbols(path):
    """Data symbols of an object or program: name, offset, size, and the file offset of the data."""
    data = pathlib.Path(path).read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise Unexpected(f"{path} is not a 64-bit little-endian ELF file")
    table, = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + index * size) for index in range(count)]
    for section in sections:
        if section[1] != 2:  # SHT_SYMTAB
            continue
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name, _, _, index, value, length = struct.unpack_from("<IBBHQQ", data, at)
            if not length or index == 0 or index >= count:
                continue
            end = data.index(b"\0", names + name)
            text = data[names + name : end].decode("utf-8", "replace")
            if SYMBOL.match(text):
                start = sections[index][4] + value - sections[index][3]
                yield text, data[start : start + length]


def read_archive(folder):
    """The symbol and its data, from the only archive member that defines it."""
    archive = swift_folder() / ARCHIVE
    if not archive.exists():
        raise Unexpected(f"{archive} not found")
    listed = subprocess.run([tool("llvm-nm"), "--print-file-name", "--defined-only", archive], capture_output=True, text=True).stdout
    defined = [line.split() for line in listed.splitlines()]
    members = {words[0].split(":")[-2] for words in defined if words and SYMBOL.match(words[-1])}
    if len(members) != 1:
        raise Unexpected(f"{len(members)} members of {archive} define the data, not one")
    member = members.pop()
    others = [words[-1] for words in defined if words and words[0].split(":")[-2] == member and not SYMBOL.match(words[-1])]
    if others:
        raise Unexpected(f"{member} also defines {others[0]}, so it cannot be replaced")
    subprocess.run([tool("llvm-ar"), "x", archive, member], cwd=folder, check=True)
    found = list(symbols(folder / member))
    if len(found) != 1:
        raise Unexpected(f"{member} has {len(found)} definitions of the data, not one")
    return found[0]


def entries(data):
    """The header, and the named items of ICU data in the common format: see ICU's udata.h and pkg_gencmn.cpp."""
    header, *magic = struct.unpack_from("<HBB", data, 0)
    if tuple(magic) != HEADER_MAGIC or data[12:16] != COMMON_DATA or data[8] != 0:
        raise Unexpected("the data has not the common format of ICU, little-endian")
    count, = struct.unpack_from("<I", data, header)
    table = [struct.unpack_from("<II", data, header + 4 + 8 * index) for index in range(count)]
    ends = [offset for _, offset in table[1:]] + [len(data) - header]
    items = []
    for (name, offset), end in zip(table, ends):
        at = header + name
        text = data[at : data.index(b"\0", at)].decode("ascii")
        # Each item has a header of its own with the same magic.
        if end <= offset or tuple(data[header + offset + 2 : header + offset + 4]) != HEADER_MAGIC:
            raise Unexpected(f"{text} is not an ICU data item")
        items.append((text, data[header + offset : header + end]))
    return data[:header], items


def is_kept(name):
    """Whether an item remains. `name` is `icudt76l/FOLDER/NAME.KIND`, or without FOLDER."""
    base, _, kind = name.rpartition("/")[2].rpartition(".")
    folder = name.split("/")[1] if name.count("/") == 2 else ""
    if kind == "cnv":
        # UTF-8, UTF-16, UTF-32, ASCII and Latin-1 are code, not data.
        return False
    if folder == "brkitr" and (kind == "dict" or "_cj" in base):
        return False
    match = LOCALE.match(base) if kind == "res" else None
    return match is None or match.group(1) == LANGUAGE


def packed(header, items):
    """The items in the common format. Their names are in order, because ICU searches by bisection."""
    names = b""
    starts = []
    for name, _ in items:
        starts.append(4 + 8 * len(items) + len(names))
        names += name.encode("ascii") + b"\0"
    body = bytearray(struct.pack("<I", len(items)) + bytes(8 * len(items)) + names)
    for index, (_, content) in enumerate(items):
        body += bytes(-(len(header) + len(body)) % ALIGNMENT)
        struct.pack_into("<II", body, 4 + 8 * index, starts[index], len(body))
        body += content
    return header + bytes(body)


def key():
    """Changes with this script and with the toolchain."""
    state = (swift_folder() / ARCHIVE).stat()
    text = pathlib.Path(__file__).read_bytes() + f"{state.st_size} {state.st_mtime_ns}".encode()
    return hashlib.sha256(text).hexdigest()[:16]


def written(folder):
    """Writes the data to a file in the folder. The result is the symbol, the path, and a description of what was kept."""
    with tempfile.TemporaryDirectory() as name:
        symbol, data = read_archive(pathlib.Path(name))
    header, items = entries(data)
    kept = [item for item in items if is_kept(item[0])]
    # What ICU reads for every locale.
    for wanted in ("root.res", "pool.res", "supplementalData.res", "zoneinfo64.res", "en.res"):
        if not any(text.split("/", 1)[1] == wanted for text, _ in kept):
            raise Unexpected(f"the data has no {wanted}")
    smaller = packed(header, kept)
    if entries(smaller)[1] != kept:
        raise Unexpected("the written data does not contain what was kept")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{symbol}-{key()}"
    # Complete or absent, also if two builds run at the same time.
    temporary = folder / f"{target.name}.{os.getpid()}"
    temporary.write_bytes(smaller)
    os.replace(temporary, target)
    return symbol, target, f"{len(items)} items, {len(data)} bytes; kept: {len(kept)} items, {len(smaller)} bytes"


def main(arguments):
    if arguments[:1] == ["--help"] or not arguments:
        print(__doc__.strip())
        return 0 if arguments else 2
    if arguments[0] == "--binary":
        for symbol, data in symbols(arguments[1]):
            print(symbol, len(data))
        return 0
    folder = pathlib.Path(arguments[0]).resolve()
    existing = list(folder.glob(f"*_dat-{key()}"))
    if existing and "--report" not in arguments:
        print(existing[0].name.rpartition("-")[0], existing[0])
        return 0
    symbol, path, report = written(folder)
    print(symbol, path)
    if "--report" in arguments:
        print(report)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Unexpected, OSError, subprocess.CalledProcessError) as error:
        print(f"icu-data: {error}", file=sys.stderr)
        sys.exit(1)
