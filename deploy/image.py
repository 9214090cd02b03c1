#!/usr/bin/env python3
"""Makes the container image of a release, without a container engine.

usage: deploy/image.py --tree TREE --output FOLDER       prints the path of the archive
       deploy/image.py --tree TREE --root FOLDER         as root: writes the files of the image to a folder

TREE is an unpacked archive of deploy/release.sh: bin/cloakroom, and share/doc/cloakroom with the bill of materials, which names
version, commit and time. cloakroom-VERSION-linux-ARCHITECTURE-image.tar contains the image cloakroom:VERSION in two forms, as an
OCI image layout and with the manifest.json of `docker save`, for `docker load`, `podman load` and `skopeo copy`.

The image contains the program, its shared libraries, CA certificates, and the licences of all of them; no shell and no package
manager. Libraries and certificates are those of the Debian or Ubuntu system that runs this script; scanners find their packages
in var/lib/dpkg/status.d. The same tree and the same packages give the same bytes.
"""

import datetime
import gzip
import hashlib
import io
import json
import pathlib
import platform
import re
import subprocess
import sys
import tarfile
import uuid

# The user of the process, as in distroless images. Owns only the folder of the SQLite store.
USER = 65532
STORE = "var/lib/cloakroom"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# Names are resolved by getaddrinfo, whose sources `files` and `dns` are part of libc.so.6 since glibc 2.34.
TEXTS = {
    "etc/passwd": f"root:x:0:0:root:/:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/{STORE}:/sbin/nologin\n",
    "etc/group": f"root:x:0:\nnonroot:x:{USER}:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
# Mode and owner of folders without files.
FOLDERS = {"tmp": (0o1777, 0), "etc/cloakroom": (0o755, 0), STORE: (0o700, USER)}
OCI = "application/vnd.oci.image."


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    return result.stdout if result.returncode == 0 else sys.exit(f"image: {command}: {result.stderr}")


def libraries(program):
    """The shared libraries of the program, by the path at which the loader finds them, and the loader itself."""
    for line in run("ldd", program).splitlines():
        found = re.fullmatch(r"\s*(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)", line)
        if found:
            # Only the loader is named without an arrow; the kernel executes it.
            yield pathlib.Path(found[1]), 0o644 if "=>" in line else 0o755
        elif "linux-vdso" not in line:
            sys.exit(f"image: ldd: {line.strip()}")


def package_of(path):
    """The Debian package of a file. With a merged /usr its database contains either form of the path."""
    for candidate in (path, f"/usr{path}", path.resolve()):
        result = subprocess.run(["dpkg-query", "--search", candidate], capture_output=True, text=True)
        if found := re.match(r"([a-z0-9.+-]+)(:\S+)?: /", result.stdout):
            return found[1]
    sys.exit(f"image: {path} does not belong to a Debian package, so its licence is unknown")


def certificates():
    """The CA certificates of the package, without those that an administrator deselected. The system's own bundle can contain
    others, such as those of this machine's network."""
    folder = pathlib.Path("/usr/share/ca-certificates")
    deselected = re.findall(r"^!(.+)$", pathlib.Path("/etc/ca-certificates.conf").read_text(), re.MULTILINE)
    listed = map(pathlib.Path, run("dpkg-query", "--listfiles", "ca-certificates").split())
    files = {path for path in listed if path.suffix == ".crt" and folder in path.parents} - {folder / path for path in deselected}
    return b"".join(path.read_bytes().strip() + b"\n" for path in sorted(files))


def bill_with(bill, packages):
    """The bill of materials with Debian packages in place of the libraries that it names as not in the release."""
    system = platform.freedesktop_os_release()
    bill["components"] = [one for one in bill["components"] if not one["bom-ref"].startswith("shared:")]
    for name in packages:
        version, architecture = run("dpkg-query", "--show", "--showformat=${Version} ${Architecture}\n", name).split()
        purl = f"pkg:deb/{system['ID']}/{name}@{version.replace('+', '%2B').replace(':', '%3A')}?arch={architecture}"
        bill["components"].append({
            "type": "library", "bom-ref": purl, "name": name, "version": version, "scope": "required",
            "licenses": [{"license": {"name": f"see /usr/share/doc/{name}/copyright"}}],
            "purl": f"{purl}&distro={system['ID']}-{system['VERSION_ID']}",
        })
    bill["dependencies"][0]["dependsOn"] = sorted(one["bom-ref"] for one in bill["components"] if one["scope"] == "required")
    digest = hashlib.sha256(json.dumps(bill, sort_keys=True).encode()).hexdigest()
    bill["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}"
    return json.dumps(bill, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def contents(tree, bill):
    """The files of the image: path to mode and bytes."""
    files = {path: (0o644, text.encode()) for path, text in TEXTS.items()}
    files["usr/bin/cloakroom"] = (0o755, (tree / "bin/cloakroom").read_bytes())
    for path in (tree / "share/doc").rglob("*"):
        if path.is_file():
            files[f"usr/{path.relative_to(tree)}"] = (0o644, path.read_bytes())
    # Without the description of the system, scanners do not know whose packages these are.
    packages = {"base-files", "ca-certificates"}
    files["etc/os-release"] = (0o644, pathlib.Path("/etc/os-release").read_bytes())
    files["etc/ssl/certs/ca-certificates.crt"] = (0o644, certificates())
    for path, mode in libraries(tree / "bin/cloakroom"):
        files[str(path)[1:]] = (mode, path.read_bytes())
        packages.add(package_of(path))
    for name in sorted(packages):
        licence = pathlib.Path("/usr/share/doc", name, "copyright").read_bytes()
        files[f"usr/share/doc/{name}/copyright"] = (0o644, licence)
        files[f"var/lib/dpkg/status.d/{name}"] = (0o644, run("dpkg-query", "--status", name).encode())
        for common in re.findall(rb"/usr/share/common-licenses/[\w.+-]*\w", licence):
            files[common.decode()[1:]] = (0o644, pathlib.Path(common.decode()).read_bytes())
    files["usr/share/doc/cloakroom/cloakroom.cdx.json"] = (0o644, bill_with(bill, sorted(packages)).encode())
    return files


def archived(files, folders, epoch):
    """A tar archive: sorted, with the folders of all files, and one time."""
    entries = {str(parent): (0o755, 0) for path in (*files, *folders) for parent in pathlib.PurePath(path).parents} | folders
    del entries["."]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted({*files, *entries}):
            entry = tarfile.TarInfo(path)
            entry.mtime = epoch
            if path in files:
                entry.mode, data = files[path]
                entry.size = len(data)
            else:
                entry.type, data = tarfile.DIRTYPE, b""
                entry.mode, entry.uid = entries[path]
                entry.gid = entry.uid
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def image(layer, version, commit, time, architecture):
    """The files of the archive."""
    files = {}
    described = {"title": "Cloakroom", "description": "A reverse proxy that handles authentication on behalf of its clients",
                 "licenses": "Apache-2.0", "version": version, "revision": commit, "created": time}
    names = {"io.containerd.image.name": f"docker.io/library/cloakroom:{version}", "org.opencontainers.image.ref.name": version}
    # A numeric user, so that Kubernetes can verify that it is not root. ExposedPorts are those of the client listener and of the
    # admin listener; this does not publish them. SIGTERM starts a graceful shutdown, in which in-flight requests complete.
    container = {
        "User": f"{USER}:{USER}", "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        "Entrypoint": ["cloakroom"], "Cmd": ["serve", "--config", "/etc/cloakroom/cloakroom.yaml"],
        "WorkingDir": "/etc/cloakroom", "ExposedPorts": {"8443/tcp": {}, "9464/tcp": {}}, "StopSignal": "SIGTERM",
        # Readiness at the admin listener; nanoseconds. The OCI specification has no such key, Docker reads it.
        "Healthcheck": {"Test": ["CMD", "cloakroom", "health"], "Interval": 10_000_000_000, "Timeout": 5_000_000_000,
                        "StartPeriod": 10_000_000_000, "Retries": 3},
        "Labels": {f"org.opencontainers.image.{key}": value for key, value in described.items()},
    }

    def document(value):
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    def blob(data, kind):
        digest = hashlib.sha256(data).hexdigest()
        files[f"blobs/sha256/{digest}"] = (0o644, data)
        return {"mediaType": OCI + kind, "digest": f"sha256:{digest}", "size": len(data)}

    config = blob(document({
        "created": time, "architecture": architecture, "os": "linux", "config": container,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [{"created": time, "created_by": "deploy/image.py"}],
    }), "config.v1+json")
    packed = blob(gzip.compress(layer, 6, mtime=0), "layer.v1.tar+gzip")
    head = {"schemaVersion": 2, "mediaType": OCI + "manifest.v1+json"}
    manifest = blob(document(head | {"config": config, "layers": [packed]}), "manifest.v1+json")
    manifest |= {"platform": {"architecture": architecture, "os": "linux"}, "annotations": names}
    paths = ["blobs/" + one["digest"].replace(":", "/") for one in (config, packed)]
    for path, value in (
        ("oci-layout", {"imageLayoutVersion": "1.0.0"}),
        ("index.json", head | {"mediaType": OCI + "index.v1+json", "manifests": [manifest]}),
        ("manifest.json", [{"Config": paths[0], "RepoTags": [f"cloakroom:{version}"], "Layers": paths[1:]}]),
    ):
        files[path] = (0o644, document(value))
    return files


def main():
    if sys.argv[1:] == ["--help"]:
        print(__doc__.strip())
        return
    if len(sys.argv) != 5 or sys.argv[1] != "--tree" or sys.argv[3] not in ("--output", "--root"):
        sys.exit("image: unknown arguments; see deploy/image.py --help")
    tree, target = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[4])
    run(pathlib.Path(__file__).parent / "packages.sh", "ca-certificates")
    bill = json.loads((tree / "share/doc/cloakroom/cloakroom.cdx.json").read_text())
    program, time = bill["metadata"]["component"], bill["metadata"]["timestamp"]
    [commit] = [one["value"] for one in program["properties"] if one["name"] == "cloakroom:commit"]
    epoch = int(datetime.datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp())
    layer = archived(contents(tree, bill), FOLDERS, epoch)
    if sys.argv[3] == "--root":
        with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
            # Owners and modes as they are: filters of newer versions of Python would change them.
            archive.extraction_filter = lambda member, path: member
            archive.extractall(target, numeric_owner=True)
        return
    files = image(layer, program["version"], commit, time, ARCHITECTURES[platform.machine()])
    path = target / f"cloakroom-{program['version']}-linux-{platform.machine()}-image.tar"
    path.write_bytes(archived(files, {}, epoch))
    print(path)


try:
    main()
except OSError as error:
    sys.exit(f"image: {error}")
