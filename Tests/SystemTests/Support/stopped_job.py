"""Runs a program that asks for a password, as a job of a shell with a terminal of its own.

    stopped_job.py PROGRAM ARGUMENT ...

Types Ctrl-Z at the first prompt, continues the job in the background and then in the foreground, and types a password.
Prints what it observes, one JSON object a line: `echo` is whether the terminal shows what is typed, `prompts` the number of
prompts so far, `signal` what stopped the job, `status` its exit code.
"""

import json
import os
import pty
import select
import signal
import sys
import termios
import time

PROMPT = b"Password: "
SECONDS = 30


def has_echo(terminal):
    return termios.tcgetattr(terminal)[3] & termios.ECHO != 0


def be_shell(program, commands, events):
    """Starts the job in the foreground. When it stops, waits for a command: `b` or `f`."""
    # A shell takes the terminal back while it is in the background.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execv(program[0], program)
    while True:
        _, status = os.waitpid(job, os.WUNTRACED)
        os.tcsetpgrp(0, os.getpgrp())
        event = {"echo": has_echo(0)}
        if not os.WIFSTOPPED(status):
            event["status"] = os.waitstatus_to_exitcode(status)
            os.write(events, json.dumps(event).encode())
            return
        event["signal"] = os.WSTOPSIG(status)
        os.write(events, json.dumps(event).encode())
        command = os.read(commands, 1)
        if not command:
            os.killpg(job, signal.SIGKILL)
        elif command == b"f":
            os.tcsetpgrp(0, job)
        os.killpg(job, signal.SIGCONT)


class Observer:
    def __init__(self, terminal, events):
        self.terminal, self.events, self.output = terminal, events, b""
        self.deadline = time.monotonic() + SECONDS

    def report(self, event):
        print(json.dumps(event | {"prompts": self.output.count(PROMPT)}), flush=True)

    def read(self, *sources):
        """Waits shortly for output of the terminal or for an event, and returns the event."""
        if time.monotonic() > self.deadline:
            sys.exit(f"timeout after {self.output}")
        ready = select.select(sources, [], [], 0.01)[0]
        if self.terminal in ready:
            self.output += os.read(self.terminal, 65536)
        return json.loads(os.read(self.events, 65536)) if self.events in ready else None

    def prompt(self, count):
        while self.output.count(PROMPT) < count or has_echo(self.terminal):
            if event := self.read(self.terminal, self.events):
                return self.report(event)
        self.report({"echo": False})

    def event(self):
        while not (event := self.read(self.events)):
            pass
        # What the job wrote before.
        while select.select([self.terminal], [], [], 0)[0]:
            try:
                self.output += os.read(self.terminal, 65536)
            except OSError:
                # The shell has ended.
                break
        self.report(event)


commands, events = os.pipe(), os.pipe()
shell, terminal = pty.fork()
if shell == 0:
    os.close(commands[1])
    be_shell(sys.argv[1:], commands[0], events[1])
    os._exit(0)
observer = Observer(terminal, events[0])
observer.prompt(1)
os.write(terminal, b"\x1a")
observer.event()
os.write(commands[1], b"b")
observer.event()
os.write(commands[1], b"f")
observer.prompt(2)
os.write(terminal, b"secret\n")
observer.event()
os.waitpid(shell, 0)
