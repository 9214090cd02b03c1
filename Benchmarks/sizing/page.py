"""The figures in Capacity.md: each block between `<!-- figures: NAME -->` and `<!-- end of figures -->` is written anew."""

import json
import pathlib
import re
import subprocess

from harness.command import Failure

PAGE = pathlib.Path(__file__).resolve().parent.parent.parent / "Sources/cloakroom/Documentation.docc/Capacity.md"
BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->\n)", re.DOTALL)
EXAMPLE = "capacity --users 1000000 --requests-per-second 20000 --gateways 4 --shards 3 --cache-size 1000000"
NAMES = {
    "request": "a request with a cached session",
    "lookUp": "a look-up of a session that is not cached",
    "lookUpAgain": "a look-up of a session that has changed",
    "providerLookUp": "a look-up of a session of a provider",
    "touch": "a use that is written",
    "refresh": "a refresh",
    "signIn": "a sign-in with a password",
    "signOut": "a sign-out",
    "login": "a login at a provider",
}
KINDS = {
    "password": "password, API reports the user's id",
    "name": "password, without an id",
    "provider": "provider",
}
# Users, requests per second, gateways, shards, and whether sessions are sticky.
SCENARIOS = (
    (100_000, 2_000, 2, 1, False),
    (1_000_000, 20_000, 4, 3, False),
    (1_000_000, 20_000, 4, 3, True),
    (10_000_000, 200_000, 32, 24, False),
    (10_000_000, 200_000, 32, 24, True),
)


def command(binary, text):
    done = subprocess.run([str(binary), *text.split()], capture_output=True, text=True, timeout=30)
    if done.returncode != 0:
        raise Failure(f"cloakroom {text}: {done.stderr.strip()}")
    return done.stdout


def table(head, rows):
    cells = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells) + "\n"


def example(binary, _figures):
    return f"<!-- output: {EXAMPLE} -->\n```text\n{command(binary, EXAMPLE)}```\n"


def microseconds(busy, idle):
    return f"{busy:,.0f} µs" if busy == idle else f"{busy:,.0f} to {idle:,.0f} µs"


def costs(_binary, figures):
    rows = []
    for name, meaning in NAMES.items():
        cost = figures["model"][name]
        micro = [microseconds(cost[of + "Microseconds"], cost[of + "IdleMicroseconds"]) for of in ("gateway", "server")]
        size = [f"{cost[key]:,.0f} B" for key in ("bytesToServer", "bytesFromServer")]
        rates = [f"{1e6 / each:,.0f}" if each else "" for each in (cost["gatewayMicroseconds"], cost["serverMicroseconds"])]
        rows.append([meaning, *micro, *size, *rates])
    head = ["operation", "gateway", "server", "to server", "from server", "per second and core of a gateway", "of a shard"]
    return table(head, rows)


def memory(_binary, figures):
    measured, model = figures["serverBytesPerSession"], figures["model"]
    rows = []
    for kind, name in KINDS.items():
        ours = [measured[kind][encoding][size] for encoding in ("default", "compact") for size in ("bytes", "resident")]
        rows.append([name, *(f"{each:,} B" for each in ours)])
    text = table(["a session in the server", "in use", "resident", "in use, compact", "resident, compact"], rows)
    sizes = "; ".join(f"{row[0]:,}" for row in measured["password"]["default"]["rows"])
    text += f"\nThe figures are slopes over these numbers of sessions: {sizes}.\n"
    rows = [
        ["a server, per key that a gateway has read", f"{model['serverBytesPerTrackedKey']:,} B"],
        ["and per further gateway", f"{model['serverBytesPerFurtherGateway']:,} B"],
        ["a gateway, per cached session with a password", f"{model['gatewayBytesPerPasswordSession']:,} B"],
        ["a gateway, per cached session of a provider", f"{model['gatewayBytesPerProviderSession']:,} B"],
    ]
    return text + "\n" + table(["further memory", "bytes"], rows)


def largest(_binary, figures):
    if "largest" not in figures:
        return "More than a million sessions are extrapolated from these figures.\n"
    rows, wanted = figures["largest"]["rows"], figures["largest"]["wanted"]
    cells = [[f"{count:,}", f"{used / 1e9:,.2f} GB", f"{resident / 1e9:,.2f} GB", f"{used / count:,.0f} B"]
             for count, used, resident in rows]  # fmt: skip
    text = table(["sessions in three shards", "in use", "resident", "in use each"], cells)
    if rows[-1][0] < wanted:
        text += f"\nThe memory of {wanted:,} sessions is extrapolated from the last column.\n"
    if costs := figures["largest"].get("costs"):
        few = figures["model"]
        compared = [
            f"{name} took a shard {costs[key]['serverMicroseconds']:,.0f} µs"
            f" ({few[key]['serverMicroseconds']:,.0f} µs in the table above)"
            for key, name in (("signIn", "a sign-in"), ("lookUp", "a look-up"))
        ]
        text += f"\nWith {rows[-1][0]:,} sessions, {' and '.join(compared)}.\n"
    return text


def check(_binary, figures):
    if "check" not in figures:
        return "It was not run with these figures.\n"
    cells = [
        [f"{row['requests']:,.0f}" if row["requests"] else "", row["name"], *map(digits, (row["measured"], row["predicted"])),
         f"{row['predicted'] / row['measured'] - 1:+.0%}"]
        for row in figures["check"]
    ]  # fmt: skip
    return table(["requests/s", "figure", "measured", "predicted", "difference"], cells)


def digits(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3f}"


def scenarios(binary, _figures):
    rows = []
    for users, requests, gateways, shards, is_sticky in SCENARIOS:
        options = f"--users {users} --requests-per-second {requests} --gateways {gateways} --shards {shards}"
        options += f" --cache-size {users}" + (" --sticky" if is_sticky else "")
        done = json.loads(command(binary, f"capacity {options} --json"))
        gateway, shard, rates = done["gateway"], done["shard"], done["rates"]
        cells = [f"{users:,}", f"{requests:,}", "yes" if is_sticky else "no", f"{rates['lookUps'] / requests:.0%}"]
        cells += [f"{gateways} × {gateway['cores']:.1f} cores, {gateway['memoryBytes'] / 1e9:.1f} GB"]
        cells += [f"{shards} × {shard['cores']:.2f} cores, {shard['memoryBytes'] / 1e9:.1f} GB"]
        rows.append(cells)
    return table(["users", "requests/s", "sticky", "requests that read from a shard", "gateways", "shards"], rows)


BLOCKS = {"example": example, "costs": costs, "memory": memory, "largest": largest, "check": check, "scenarios": scenarios}


def write(binary, figures):
    """Writes the page from the figures, and from what the binary, which is built with them, prints."""
    fill = lambda found: found[1] + BLOCKS[found[2]](binary, figures) + found[3]  # noqa: E731
    PAGE.write_text(BLOCK.sub(fill, PAGE.read_text()))
