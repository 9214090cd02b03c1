"""Network namespaces on one bridge: hosts that can be cut off from each other. They need the permissions of root."""

import contextlib
import random
import shutil
import subprocess

from harness.command import Failure


class Network:
    """A bridge to which this machine and `count` namespaces are connected. It exists as long as the block."""

    def __init__(self, count):
        self.name = f"crt{random.randrange(0x10000):04x}"
        self.subnet = f"10.{random.randrange(64, 255)}.{random.randrange(255)}"
        self.names = [f"{self.name}n{number}" for number in range(count)]
        self.hosts = [f"{self.subnet}.{number + 10}" for number in range(count)]

    @staticmethod
    def is_permitted():
        """Whether this process can create namespaces and bridges."""
        if not shutil.which("ip"):
            return False
        try:
            with Network(1):
                return True
        except Failure:
            return False

    def __enter__(self):
        try:
            run("ip", "link", "add", self.name, "type", "bridge")
            run("ip", "addr", "add", f"{self.subnet}.1/24", "dev", self.name)
            run("ip", "link", "set", self.name, "up")
            for name, host in zip(self.names, self.hosts):
                run("ip", "netns", "add", name)
                run("ip", "link", "add", f"{name}v", "type", "veth", "peer", "name", "eth0", "netns", name)
                run("ip", "link", "set", f"{name}v", "master", self.name, "up")
                run("ip", "-n", name, "addr", "add", f"{host}/24", "dev", "eth0")
                for device in ("eth0", "lo"):
                    run("ip", "-n", name, "link", "set", device, "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for command in [("link", "del", self.name), *(("netns", "del", name) for name in self.names)]:
            with contextlib.suppress(Failure):
                run("ip", *command)

    def prefix(self, number):
        """The words before a command that runs in a namespace."""
        return ["ip", "netns", "exec", self.names[number]]

    def cut(self, number):
        """Drops all packets from one namespace to the others. This machine still reaches it."""
        self.change_routes("add", number)

    def heal(self, number):
        self.change_routes("del", number)

    def change_routes(self, action, number):
        for other, host in enumerate(self.hosts):
            if other != number:
                run("ip", "-n", self.names[number], "route", action, "blackhole", f"{host}/32")


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise Failure(f"{' '.join(command)}: {result.stderr.strip()}")
