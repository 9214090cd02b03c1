"""Libraries of the commands in .ci. Importing this package makes Benchmarks/harness importable."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent.parent / "Benchmarks"))


def handle_help(text):
    """Prints the text and exits if the first argument is --help."""
    if sys.argv[1:2] == ["--help"]:
        print(text.strip())
        sys.exit(0)
