"""The frame of a command: its errors, its exit status, its signals."""

import pathlib
import signal
import sys

NAME = pathlib.Path(sys.argv[0]).name.removesuffix(".py")


class Failure(Exception):
    """An error for the operator: printed without a traceback."""


def exit_on_signals():
    """Turns SIGTERM and SIGHUP into exceptions, as Python does with SIGINT, so that context managers stop all processes."""

    def leave(number, _frame):
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


def run_command(main, *arguments):
    """Runs a command and exits with its status: that of `main`, 130 after Ctrl-C."""
    exit_on_signals()
    try:
        sys.exit(main(*arguments))
    except Failure as failure:
        sys.exit(f"{NAME}: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)
