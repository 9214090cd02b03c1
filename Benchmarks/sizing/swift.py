"""The figures as Swift, for the command `capacity`."""

import pathlib

FILE = pathlib.Path(__file__).resolve().parent.parent.parent / "Sources/cloakroom/Capacity/CapacityFigures+Measured.swift"
# Each figure and the part of capacity.py that measures it.
OPERATIONS = ("request", "lookUp", "lookUpAgain", "providerLookUp", "touch", "refresh", "signIn", "signOut", "login")
COSTS = (
    ("gatewayMicroseconds", "gatewayIdleMicroseconds"), ("serverMicroseconds", "serverIdleMicroseconds"),
    ("bytesToServer", "bytesFromServer"),
)  # fmt: skip
GATEWAY_SIZES = (
    "gatewayBytes", "gatewayBytesPerPasswordSession", "gatewayBytesPerProviderSession", "serverBytes",
)  # fmt: skip
SERVER_SIZES = (
    "serverBytesPerPasswordSession", "serverBytesPerProviderSession", "serverBytesPerTrackedKey",
    "serverBytesPerFurtherGateway",
)  # fmt: skip


def number(value):
    """A literal with the digits in groups of three."""
    whole, _, rest = f"{value}".partition(".")
    return f"{int(whole):_}" + (f".{rest}" if rest.strip("0") else "")


def write(figures):
    """Writes the file; the figures have to be complete."""
    model = figures["model"]
    lines = [
        "extension CapacityFigures {",
        "    /// The figures of `Benchmarks/capacity.json`, with which this file is written by `Benchmarks/capacity.py`:",
        f"    /// {figures['server']}, {figures['machine']}.",
        "    static let measured = CapacityFigures(",
        "        // Benchmarks/capacity.py costs",
    ]
    for name in OPERATIONS:
        cost = model[name]
        rows = (", ".join(f"{key}: {number(cost[key])}" for key in keys) for keys in COSTS)
        lines.append(f"        {name}: OperationCost(")
        lines += [f"            {row}," for row in rows]
        lines[-1] = lines[-1].removesuffix(",") + "),"
    lines += [f"        {name}: {number(model[name])}," for name in GATEWAY_SIZES]
    lines.append("        // Benchmarks/capacity.py memory")
    lines += [f"        {name}: {number(model[name])}," for name in SERVER_SIZES]
    lines[-1] = lines[-1].removesuffix(",") + ")"
    FILE.write_text("\n".join([*lines, "}"]) + "\n")


def is_complete(figures):
    return all(name in figures.get("model", {}) for name in (*OPERATIONS, *GATEWAY_SIZES, *SERVER_SIZES))
