"""What a measurement stands on: a work folder, the upstream, one gateway at a time, and its CPU time and memory.

Everything listens on loopback, on ports that were free a moment ago, and is ended when the rig is left, however that
happens. Linux only: it reads /proc.
"""

import base64
import contextlib
import http.client
import os
import pathlib
import re
import resource
import secrets
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
EMAIL, PASSWORD = "jo@example.com", "secret"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Failure(Exception):
    """Something that a person has to look at; printed without a traceback."""


def exit_on_signals():
    """Turns SIGTERM and SIGHUP into an exception, as SIGINT is one, so that everything is ended on the way out."""

    def leave(number, _frame):
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


def allow_many_files():
    """Raises this process's and its children's limit on open files as far as it goes without root."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def two_cores():
    """The core for the gateway and the core for everything else."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise Failure("two cores are needed: one for the gateway, one for the load generator and the upstream")
    return cores[0], cores[1]


def free_ports(count):
    """Ports that nobody listens on, all different."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def release_build():
    """The product as `deploy/build.sh` leaves it."""
    command = ["swift", "build", "-c", "release", "--static-swift-stdlib", "--package-path", str(ROOT)]
    shown = subprocess.run([*command, "--show-bin-path"], capture_output=True, text=True, check=True)
    return pathlib.Path(shown.stdout.strip()) / "cloakroom"


def make_certificate(folder):
    """Puts a certificate for localhost into a folder: apart from its key, and together with it as HAProxy wants it."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 7 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command.split(), *names, *files], capture_output=True, check=True)
    (folder / "certificate-and-key.pem").write_text(certificate.read_text() + key.read_text())


# Processes


def process_tree(pid):
    """A process and all that descend from it."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                children.setdefault(int(stat_fields(entry)[1]), []).append(int(entry))
    tree = [pid]
    for each in tree:
        tree += children.get(each, [])
    return tree


def stat_fields(pid):
    """The fields of /proc/PID/stat from the state on: the name before them may hold anything."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def cpu_seconds(pid):
    """User and system time of a process tree so far, in seconds."""
    user = system = 0
    for each in process_tree(pid):
        with contextlib.suppress(OSError):
            fields = stat_fields(each)
            user += int(fields[11])
            system += int(fields[12])
    return user / TICKS_PER_SECOND, system / TICKS_PER_SECOND


def resident_bytes(pid):
    """Resident memory of a process tree, in bytes."""
    total = 0
    for each in process_tree(pid):
        with contextlib.suppress(OSError):
            status = pathlib.Path(f"/proc/{each}/status").read_text()
            found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
            total += int(found[1]) * 1024 if found else 0
    return total


class Process:
    """A command that was started, in a process group of its own so that a Ctrl-C reaches it through us only."""

    def __init__(self, name, command, core, log, environment=None):
        self.name = name
        self.log = log
        pin = ["taskset", "--cpu-list", str(core)] if core is not None else []
        with open(log, "wb") as output:
            self.process = subprocess.Popen(
                [*pin, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        self.pid = self.process.pid

    def wait_for(self, port, seconds=20):
        """Waits until something accepts on the port."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise Failure(f"{self.name} ended with status {self.process.returncode}\n{self.last_lines()}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return
            time.sleep(0.05)
        raise Failure(f"{self.name} does not listen on port {port} after {seconds} s\n{self.last_lines()}")

    def stop(self, seconds=20):
        """Asks it to end, and ends it if it does not. Returns its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                print(f"{self.name} does not end on SIGTERM within {seconds} s; killed", file=sys.stderr)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        return self.process.wait()

    def last_lines(self):
        if pathlib.Path(self.log).is_fifo():
            return "    (what it wrote went into a pipe)"
        text = pathlib.Path(self.log).read_text(errors="replace")
        return "\n".join(f"    {line}" for line in text.splitlines()[-10:])


# The rig


class Gateway:
    """One gateway: how it is started, on which ports, and how its sessions are named."""

    def __init__(self, rig, name, template, command, version, environment=None):
        self.rig = rig
        self.name = name
        self.version = version
        self.environment = environment
        self.clear_port, self.tls_port, self.admin_port = free_ports(3)
        ports = {"CLEAR_PORT": self.clear_port, "TLS_PORT": self.tls_port, "ADMIN_PORT": self.admin_port}
        self.config = rig.fill(template, **ports)
        self.command = [part.replace("CONFIG", str(self.config)) for part in shlex.split(command)]
        self.cookie = f"sid={rig.session_id}"

    @contextlib.contextmanager
    def running(self, core, before=()):
        """Runs the gateway while the block runs. `before` is put in front of its command: `valgrind …`."""
        log = self.rig.folder / f"{self.name}.log"
        process = Process(self.name, [*before, *self.command], core, log, self.environment)
        try:
            process.wait_for(self.clear_port, seconds=120 if before else 20)
            process.wait_for(self.tls_port)
            if self.name == "cloakroom":
                self.cookie = sign_in(f"http://127.0.0.1:{self.clear_port}")
            yield process
        finally:
            process.stop(seconds=120 if before else 20)

    def url(self, scheme, path):
        host, port = ("127.0.0.1", self.clear_port) if scheme == "http" else ("localhost", self.tls_port)
        return f"{scheme}://{host}:{port}{path}"


class Rig:
    """A work folder with certificate, configurations and the running upstream."""

    def __init__(self, upstream_core=None):
        self.upstream_core = upstream_core
        self.session_id = secrets.token_urlsafe(32)
        self.access_token = secrets.token_urlsafe(36)
        self.refresh_token = secrets.token_urlsafe(36)
        self.api_token = secrets.token_urlsafe(12)
        self.upstream_port = free_ports(1)[0]

    def __enter__(self):
        exit_on_signals()
        allow_many_files()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cloakroom-benchmark-"))
        self.upstream = None
        try:
            # nginx's workers give up root, and need to get in.
            self.folder.chmod(0o755)
            make_certificate(self.folder)
            (self.folder / "sessions.map").write_text(f"{self.session_id} {self.access_token}\n")
            config = self.fill("upstream.nginx.conf")
            log = self.folder / "upstream.out"
            self.upstream = Process("upstream", ["nginx", "-c", str(config)], self.upstream_core, log)
            self.upstream.wait_for(self.upstream_port)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.upstream:
            self.upstream.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def fill(self, template, **values):
        """Fills in a template of peers/ and puts it into the work folder."""
        values |= {
            "DIR": self.folder,
            "UPSTREAM_PORT": self.upstream_port,
            "SESSION_ID": self.session_id,
            "ACCESS_TOKEN": self.access_token,
            "REFRESH_TOKEN": self.refresh_token,
            "API_TOKEN": self.api_token,
            "VIDEO": video_document(),
        }
        text = (HERE / "peers" / template).read_text()
        text = re.sub(r"@([A-Z_]+)@", lambda found: str(values[found[1]]), text)
        filled = self.folder / template
        filled.write_text(text)
        return filled

    def product(self, binary):
        if not pathlib.Path(binary).is_file():
            raise Failure(f"there is no {binary}; build it: deploy/build.sh")
        command = f"{shlex.quote(str(binary))} serve --config CONFIG"
        return Gateway(self, "cloakroom", "cloakroom.yaml", command, version_of([str(binary), "--version"]))


def video_document():
    """The 650 bytes that are relayed."""
    start = '{"duration":279,"imageURL":"https://images.example.com/large.jpg",'
    start += '"videoURL":"https://videos.example.com/stream.m3u8","description":"'
    return start + "x" * (650 - len(start) - 2) + '"}'


def version_of(command):
    """The first line of what a command says of its version, or why it says nothing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unknown ({error.__class__.__name__})"
    lines = (done.stdout + done.stderr).strip().splitlines()
    # wrk tells its version and calls that a failure.
    return lines[0].strip() if lines and "Traceback" not in lines[0] else "unknown"


# Requests


def request(url, method="GET", headers=None):
    """One request on a connection of its own. Returns status, header fields and body."""
    scheme, _, rest = url.partition("://")
    address, slash, path = rest.partition("/")
    if scheme == "https":
        # Certificates here are made for the occasion by whoever runs the gateway.
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(address, timeout=10, context=context)
    else:
        connection = http.client.HTTPConnection(address, timeout=10)
    with contextlib.closing(connection):
        connection.request(method, slash + path, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.headers, response.read()


def sign_in(gateway_url, email=EMAIL, password=PASSWORD):
    """Signs in at the gateway and returns its cookie as `name=value`."""
    credentials = base64.b64encode(f"{email}:{password}".encode()).decode()
    status, headers, body = request(
        f"{gateway_url}/auth", method="POST", headers={"Authorization": f"Basic {credentials}"}
    )
    cookie = (headers["Set-Cookie"] or "").partition(";")[0]
    if status != 200 or "=" not in cookie:
        raise Failure(f"signing in was answered with {status} and no cookie: {body[:300]!r}")
    return cookie
