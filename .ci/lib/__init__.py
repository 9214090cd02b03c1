"""Libraries of the checks in .ci. Importing this package makes Benchmarks/harness importable."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent.parent / "Benchmarks"))
