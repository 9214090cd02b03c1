#!/usr/bin/env python3
"""Draws the pictures of Upstreams.md from the figures of the simulation: latency by policy, and shares by weight.

Reads latency.csv and shares.csv, which the tests write (`FiguresTests`); they are the same at each run. plot.sh runs
both, and installs what is needed.
"""

import argparse
import collections
import csv
import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

POLICIES = {
    "latency": ("latency (default)", "#0969da"),
    "requests": ("requests", "#bf8700"),
    "roundRobin": ("roundRobin", "#cf222e"),
}
TEXT, MUTED, GRID, PERIOD, OTHER = "#1f2328", "#59636e", "#d1d9e0", "#eff2f5", "#8c959f"
SLOW = (5, 20)
"""Seconds in which a target is slow, as in `Figures.latency`."""


def rows(file):
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def panel(title):
    plt.rcParams.update({"font.family": "DejaVu Sans", "font.size": 10, "text.color": TEXT})
    figure, axes = plt.subplots(figsize=(8, 2.9))
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(colors=MUTED, length=0)
    axes.set_xlabel("seconds", color=MUTED)
    axes.margins(x=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return figure, axes


def save(figure, file):
    figure.tight_layout()
    # 160 dots per inch: sharp on screens with two pixels per point.
    figure.savefig(file, dpi=160, facecolor="#ffffff")
    plt.close(figure)
    print(file)


def draw_latency(data, file):
    figure, axes = panel("One of ten targets is 100 times slower in the grey period: 99th percentile")
    for policy, (name, color) in POLICIES.items():
        points = [(int(row["second"]) + 0.5, float(row["p99_ms"]) / 1e3) for row in data if row["policy"] == policy]
        axes.plot(*zip(*points, strict=True), color=color, linewidth=1.8, label=name)
    axes.axvspan(*SLOW, color=PERIOD, linewidth=0)
    axes.set_yscale("log")
    axes.set_ylim(0.03, 60)
    axes.set_yticks([0.1, 1, 10], ["0.1 s", "1 s", "10 s"])
    axes.minorticks_off()
    axes.legend(frameon=False, loc="upper right", title="balance.policy")
    save(figure, file)


def draw_shares(data, file):
    shares = collections.defaultdict(list)
    for row in data:
        shares[int(row["target"])].append(float(row["share"]) * 100)
    end = len(shares[0])
    figure, axes = panel("Weights 400, 100, 100, 100, 100; the heavy target is 10 times slower in the grey period")
    seconds = [second + 0.5 for second in range(end)]
    for target, values in sorted(shares.items(), reverse=True):
        axes.plot(
            seconds, values, color=POLICIES["latency"][1] if target == 0 else OTHER, linewidth=1.8 - 0.6 * (target > 0)
        )
    axes.axvspan(end / 2, end, color=PERIOD, linewidth=0)
    axes.set_ylim(0, 60)
    axes.set_yticks([0, 20, 40, 60], ["0", "20 %", "40 %", "60 %"])
    axes.annotate("weight 400", (2, 53.5), color=POLICIES["latency"][1])
    axes.annotate("weight 100", (2, 22), color=MUTED)
    save(figure, file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", type=pathlib.Path, help="the folder with latency.csv and shares.csv")
    parser.add_argument(
        "pictures", type=pathlib.Path, help="the folder for upstreams-latency.png and upstreams-shares.png"
    )
    options = parser.parse_args()
    draw_latency(rows(options.figures / "latency.csv"), options.pictures / "upstreams-latency.png")
    draw_shares(rows(options.figures / "shares.csv"), options.pictures / "upstreams-shares.png")


if __name__ == "__main__":
    main()
