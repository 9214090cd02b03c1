"""The gateway's build and configuration, and access to a running gateway."""

import json
import pathlib
import subprocess
import time

from harness.command import Failure
from harness.http import request
from harness.measure import descriptor_count, resident_bytes

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def release_build():
    """The binary that `deploy/build.sh` makes."""
    command = ["swift", "build", "-c", "release", "--static-swift-stdlib", "--package-path", str(ROOT)]
    command += ["--scratch-path", str(ROOT / ".build-release")]
    shown = subprocess.run([*command, "--show-bin-path"], capture_output=True, text=True, check=True)
    return pathlib.Path(shown.stdout.strip()) / "cloakroom"


def require_binary(binary, build="deploy/build.sh"):
    if not pathlib.Path(binary).is_file():
        raise Failure(f"no file {binary}; build it: {build}")
    return binary


def demo_program(binary):
    """The program with the mocks, in the folder of the gateway's binary."""
    return require_binary(pathlib.Path(binary).with_name("cloakroom-demo"), "deploy/build.sh cloakroom-demo")


def version_of(command):
    """The first line that a version command prints."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unknown ({error.__class__.__name__})"
    lines = (done.stdout + done.stderr).strip().splitlines()
    # wrk prints its version with a failure status, so the status is not checked.
    return lines[0].strip() if lines and "Traceback" not in lines[0] else "unknown"


def make_certificate(folder):
    """Writes a certificate for localhost: certificate.pem, key.pem, and both in one file as HAProxy requires."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 7 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command.split(), *names, *files], capture_output=True, check=True)
    (folder / "certificate-and-key.pem").write_text(certificate.read_text() + key.read_text())


def set_options(values):
    """Configuration keys and values as `--set` options."""
    return [part for key, value in values.items() for part in ("--set", f"{key}={value}")]


def route(name, path, upstream, methods):
    return {"name": name, "methods": methods, "path": path, "upstream": upstream, "requiresAuthorization": False}


def configuration(ports, folder, upstream_port, bystander_port, changes):
    """A configuration that forwards every request. `changes` are its keys; dictionaries are merged, others replaced."""
    port, tls_port, admin_port = ports
    files = {"certificateFile": str(folder / "certificate.pem"), "keyFile": str(folder / "key.pem")}
    config = {
        "listeners": [
            {"address": f"127.0.0.1:{port}"},
            {"address": f"127.0.0.1:{tls_port}", "tls": files},
        ],
        "admin": {"address": f"127.0.0.1:{admin_port}"},
        "upstreams": {
            "api": {"targets": [f"http://127.0.0.1:{upstream_port}"]},
            "bystander": {"targets": [f"http://127.0.0.1:{bystander_port}"], "pool": {"idleTimeout": "1s"}},
        },
        "session": {"cookie": {"name": "cloakroom", "secure": False}},
        "routes": [
            route("all", "/*", "api", ["GET", "POST", "PUT", "DELETE", "OPTIONS"]),
            route("bystander", "/bystander/{number}", "bystander", ["GET"]),
        ],
        "eventLoops": 2,
    }
    for key, value in changes.items():
        config[key] = {**config.get(key, {}), **value} if isinstance(value, dict) else value
    # `upstream` changes the upstream `api` without repeating its name.
    config["upstreams"]["api"] |= config.pop("upstream", {})
    return config


def write_configuration(path, config):
    # JSON is YAML.
    path.write_text(json.dumps(config, indent=2))
    return path


class Gateway:
    """A running gateway."""

    def __init__(self, process, port, tls_port, admin_port):
        self.process, self.port, self.tls_port, self.admin_port = process, port, tls_port, admin_port

    @property
    def pid(self):
        return self.process.pid

    def resident(self):
        """Its resident memory in bytes, without child processes: cheap enough for ten samples per second."""
        try:
            return resident_bytes(self.pid)
        except OSError:
            raise Failure(f"the gateway has ended\n{self.process.last_lines()}") from None

    def descriptors(self):
        return descriptor_count(self.pid)

    def warnings(self):
        """The warnings in its log so far."""
        return [line for line in self.process.output().splitlines() if '"level":"warning"' in line]

    def metrics(self):
        """Its metrics, as Prometheus scrapes them."""
        return request(f"http://127.0.0.1:{self.admin_port}/metrics")[2].decode()

    def metric(self, name, **labels):
        """The sum of all series of a name that have these labels."""
        total = 0
        for line in self.metrics().splitlines():
            series, _, value = line.rpartition(" ")
            has_labels = all(f'{label}="{wanted}"' in series for label, wanted in labels.items())
            if series.partition("{")[0] == name and has_labels:
                total += float(value)
        return total

    def settle(self, measure, limit, seconds):
        """Waits until `measure()` is at most `limit` or the time is over. Returns the last value."""
        deadline = time.monotonic() + seconds
        while (value := measure()) > limit and time.monotonic() < deadline:
            time.sleep(0.1)
        return value

    def stop(self):
        """Stops it before its environment ends. Returns its exit status."""
        return self.process.stop()
