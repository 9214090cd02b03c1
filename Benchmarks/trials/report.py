"""The table of all trials, in Markdown and JSON."""

import json
import math

COLUMNS = ("errors", "victims", "p50 ms", "p99 ms", "attempts", "CPU µs", "goals")
MARKS = {True: "✓", False: "✗", None: "–"}
TITLES = {"cloakroom": "Cloakroom", "envoy": "Envoy", "haproxy": "HAProxy", "nginx": "nginx", "machine": "(no gateway)"}


def number(value, digits=1):
    if value is None or isinstance(value, float) and math.isnan(value):
        return "–"
    if isinstance(value, float):
        return "∞" if math.isinf(value) else f"{value:.{digits}f}"
    return str(value)


class Report:
    def __init__(self, options, versions):
        self.options, self.rows = options, []
        self.conditions = {
            "versions": versions,
            "seconds": options.trial_seconds,
            "rate": options.rate,
            "baseline": options.baseline,
            "slack": options.slack,
        }

    def add(self, trial, name, row, goals, facts):
        for each in self.rows:
            if each["trial"] == trial.name and each["gateway"] == name:
                raise ValueError("one row per trial and gateway")
        goals = [
            {"goal": each.statement, "reached": each.is_reached, "figures": each.figures, "used": each.used}
            for each in goals
        ]
        shown = {key: value for key, value in facts.items() if key != "cpu"}
        self.rows.append(
            {"trial": trial.name, "title": trial.title, "gateway": name, **row, "goals": goals, "facts": shown}
        )

    def table(self, trial=None):
        """Lines of a Markdown table: of one trial, or of all."""
        lines = [
            "| trial | gateway | " + " | ".join(COLUMNS) + " |",
            "| --- | --- |" + " ---: |" * (len(COLUMNS) - 1) + " --- |",
        ]
        last = None
        for row in self.rows:
            if trial not in (None, row["trial"]):
                continue
            first = row["trial"] if row["trial"] != last else ""
            last = row["trial"]
            if "failure" in row:
                lines.append(f"| {first} | {TITLES[row['gateway']]} | {row['failure']} |" + " |" * (len(COLUMNS) - 1))
                continue
            errors = f"{row['errors']}" + (f" ({row['statuses']})" if row.get("statuses") else "")
            cells = [
                errors,
                number(row["victims"]),
                number(row["p50"]),
                number(row["p99"]),
                number(row["attempts"], 3),
                number(row["cpu"], 0),
            ]
            goals = "; ".join(f"{MARKS[goal['reached']]} {goal['goal']}: {goal['figures']}" for goal in row["goals"])
            lines.append(f"| {first} | {TITLES[row['gateway']]} | " + " | ".join([*cells, goals]) + " |")
        return lines

    def overview(self):
        """Lines of a table with one row per trial: goals reached, errors / victims / p99, for each gateway."""
        names = [name for name in TITLES if name != "machine" and any(row["gateway"] == name for row in self.rows)]
        lines = ["| trial | " + " | ".join(TITLES[name] for name in names) + " |", "| --- |" + " --- |" * len(names)]
        for trial in dict.fromkeys(row["trial"] for row in self.rows):
            cells = {row["gateway"]: self.cell(row) for row in self.rows if row["trial"] == trial}
            lines.append(f"| {trial} | " + " | ".join(cells.get(name, "–") for name in names) + " |")
        return lines

    @staticmethod
    def cell(row):
        if "failure" in row:
            return "–"
        judged = [goal["reached"] for goal in row["goals"] if goal["reached"] is not None]
        mark = "✓" if judged and all(judged) else f"✗ {sum(judged)} of {len(judged)}"
        if len(judged) < len(row["goals"]):
            mark += f", {len(row['goals']) - len(judged)} not judged"
        p99 = "" if math.isnan(row["p99"]) else f" / {number(row['p99'])} ms"
        return f"{mark}: {row['errors']} / {row['victims']}{p99}"

    def better(self):
        """Sentences on peers with clearly better figures than Cloakroom's in the same trial."""
        found = []
        ours = {row["trial"]: row for row in self.gateway_rows()}
        for row in self.rows:
            own = ours.get(row["trial"])
            if row["gateway"] in ("cloakroom", "machine") or "failure" in row or not own:
                continue
            peer = f"{row['trial']}: {row['gateway']}"
            for key, difference in (("errors", 2), ("victims", 3)):
                if own[key] > row[key] * 1.2 + difference:
                    found.append(f"{peer} has fewer {key}: {row[key]}, Cloakroom {own[key]}")
            if own["p99"] > row["p99"] * 1.5 + 3:
                found.append(f"{peer} has a lower p99: {row['p99']:.1f}, Cloakroom {own['p99']:.1f} ms")
        return found

    def gateway_rows(self):
        return [row for row in self.rows if row["gateway"] == "cloakroom" and "failure" not in row]

    def margins(self, count=5):
        """Sentences on the goals that Cloakroom was closest to missing, and on those that were not judged."""
        goals = [(row["trial"], goal) for row in self.gateway_rows() for goal in row["goals"]]
        limited = [(trial, goal) for trial, goal in goals if goal["used"] is not None]
        limited.sort(key=lambda each: -each[1]["used"])
        found = [f"{goal['used']:.0%} of the limit: {trial}: {goal['goal']}" for trial, goal in limited[:count]]
        return found + [f"not judged: {trial}: {goal['goal']}" for trial, goal in goals if goal["reached"] is None]

    def write(self):
        if not self.options.json:
            return
        document = {"conditions": self.conditions, "rows": self.rows}
        self.options.json.write_text(json.dumps(document, indent=1, ensure_ascii=False, default=str) + "\n")
        overview = ["Goals reached, errors / victims / p99.", "", *self.overview(), "", *self.table()]
        self.options.json.with_suffix(".md").write_text("\n".join(overview) + "\n")
