#!/usr/bin/env python3
"""Draws the CPU time per request by gateway and protocol, from a file that `compare.py --json` wrote.

Writes PATH-dark.png next to PATH.png, for pages with a dark background. plot.sh installs what it needs.
"""

import argparse
import json
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

PROTOCOLS = {"h1": "HTTP/1.1", "h1tls": "HTTP/1.1 over TLS", "h2": "HTTP/2 over TLS"}
GATEWAYS = {"cloakroom": "Cloakroom", "haproxy": "HAProxy", "nginx": "nginx + Lua", "envoy": "Envoy + Lua", "caddy": "Caddy"}
# The product's color has a contrast of more than 3:1 to both backgrounds and to that of the other bars.
THEMES = {
    "": {"background": "#ffffff", "text": "#1f2328", "muted": "#59636e", "product": "#0969da", "other": "#afb8c1"},
    "-dark": {"background": "#0d1117", "text": "#e6edf3", "muted": "#9198a1", "product": "#4493f8", "other": "#57606a"},
}  # fmt: skip


def figures(result):
    """The median of each gateway by protocol; measured scenarios only."""
    for protocol, title in PROTOCOLS.items():
        gateways = result["scenarios"].get(protocol, {}).get("gateways", {})
        medians = {name: gateways[name]["median"] for name in GATEWAYS if gateways.get(name, {}).get("valid")}
        if "cloakroom" in medians:
            yield title, medians


def draw(result, theme, file):
    protocols = list(figures(result))
    if not protocols:
        sys.exit("plot: no valid sample of the product in the scenarios h1, h1tls and h2")
    plt.rcParams.update({"font.family": "DejaVu Sans", "font.size": 10, "text.color": theme["text"]})
    rows = max(len(medians) for _, medians in protocols)
    figure, panels = plt.subplots(1, len(protocols), figsize=(10, 0.36 * rows + 0.95), squeeze=False, sharex=True)
    figure.patch.set_facecolor(theme["background"])
    longest = max(median for _, medians in protocols for median in medians.values())
    for index, (panel, (title, medians)) in enumerate(zip(panels[0], protocols)):
        names = list(medians)
        colors = [theme["product" if name == "cloakroom" else "other"] for name in names]
        panel.barh(range(len(names)), [medians[name] for name in names], color=colors, height=0.68)
        for row, name in enumerate(names):
            label = f"{medians[name]:.1f}"
            if name != "cloakroom":
                label += f"  ({medians[name] / medians['cloakroom']:.2f}×)"
            weight = "bold" if name == "cloakroom" else "normal"
            panel.text(medians[name] + longest * 0.02, row, label, va="center", fontsize=9, fontweight=weight)
        panel.set_title(title, loc="left", fontsize=11, fontweight="bold", color=theme["text"])
        panel.set_yticks(range(len(names)), [GATEWAYS[name] for name in names] if index == 0 else [])
        panel.set_xlim(0, longest * 1.42)
        panel.invert_yaxis()
        panel.set_facecolor(theme["background"])
        # Every bar has its figure, so there is no scale.
        panel.set_xticks([])
        panel.tick_params(length=0, labelcolor=theme["text"])
        for side in panel.spines.values():
            side.set_visible(False)
    caption = f"µs of CPU time per request, one core; less is better. In parentheses: ratio to Cloakroom. {result['date']}"
    figure.text(0.01, 0.02, caption, fontsize=9, color=theme["muted"])
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    # 180 dots per inch: sharp on screens with two pixels per point.
    figure.savefig(file, dpi=180, facecolor=theme["background"])
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=pathlib.Path, help="the file of compare.py --json")
    parser.add_argument("picture", type=pathlib.Path, help="the picture, with the ending .png")
    options = parser.parse_args()
    result = json.loads(options.results.read_text())
    for suffix, theme in THEMES.items():
        draw(result, theme, options.picture.with_name(f"{options.picture.stem}{suffix}.png"))


if __name__ == "__main__":
    main()
