"""The samples of a run: tables, and the file of results."""

import json
import statistics

from comparison.gateways import REFERENCES

FORMAT = 1
"""The version of the file's format."""


class Report:
    """The samples by scenario and gateway, and the failures."""

    def __init__(self, scenarios, names, about):
        self.scenarios = {scenario.name: scenario for scenario in scenarios}
        self.names = names
        self.about = about
        self.samples = {}
        self.failures = {}

    def add(self, scenario, gateway, sample):
        self.samples.setdefault((scenario, gateway), []).append(sample)

    def fail(self, scenario, gateway, reason):
        self.failures[scenario, gateway] = str(reason)

    def is_valid(self, scenario, gateway):
        samples = self.samples.get((scenario, gateway))
        complete = bool(samples) and (scenario, gateway) not in self.failures
        return complete and not any(sample["unexpected"] for sample in samples)

    @property
    def is_complete(self):
        return all(self.is_valid(*key) for key in [*self.samples, *self.failures])

    def figures(self, scenario, gateway):
        """The figure that gateways are compared by, of each sample."""
        key = self.scenarios[scenario].figure
        return [sample[key] for sample in self.samples.get((scenario, gateway), [])]

    def median(self, scenario, gateway):
        """The median of valid samples, or nothing."""
        if scenario not in self.scenarios or not self.is_valid(scenario, gateway):
            return None
        return statistics.median(self.figures(scenario, gateway))

    def reference(self, scenario):
        return min(filter(None, (self.median(scenario, name) for name in REFERENCES)), default=None)

    def ratio(self, scenario, gateway):
        """The ratio to the better of the references."""
        return quotient(self.median(scenario, gateway), self.reference(scenario))

    def share(self, scenario, gateway):
        """The ratio to the gateway's own figure in another scenario."""
        return quotient(self.median(scenario, gateway), self.median(self.scenarios[scenario].share_of, gateway))

    def table(self, name):
        """A Markdown table of one scenario."""
        scenario = self.scenarios[name]
        ratios = [] if scenario.only_product else [("ratio to better of " + " and ".join(REFERENCES), self.ratio)]
        if scenario.share_of in self.scenarios:
            ratios.append((f"ratio to its `{scenario.share_of}`", self.share))
        titles = ["gateway", scenario.unit, "spread", *(title for title, _ in ratios)]
        titles += [column.title for column in scenario.columns]
        yield f"### `{name}`: {scenario.title}\n"
        yield f"| {' | '.join(titles)} |"
        yield f"| --- |{' ---: |' * (len(titles) - 1)}"
        digits = 3 if scenario.unit == "s CPU/GB" else 1
        for gateway in self.names:
            samples = self.samples.get((name, gateway), [])
            valid = self.is_valid(name, gateway)
            if samples:
                values = self.figures(name, gateway)
                cells = [f"{statistics.median(values):.{digits}f}", f"{min(values):.{digits}f}–{max(values):.{digits}f}"]
                cells += [formatted(ratio(name, gateway)) if valid else "**invalid**" for _, ratio in ratios]
                for column in scenario.columns:
                    figure = statistics.median(sample[column.figure] for sample in samples) * column.scale
                    cells.append(f"{figure:,.{column.digits}f}")
                yield f"| {gateway} | {' | '.join(cells)} |"
            elif (name, gateway) in self.failures:
                yield f"| {gateway} | **invalid**: no sample |{' |' * (len(titles) - 2)}"
        yield ""

    def result(self):
        """Everything, for a file."""
        return {
            "format": FORMAT,
            **self.about,
            "scenarios": {name: self.result_of(name) for name in self.scenarios},
        }

    def result_of(self, name):
        scenario = self.scenarios[name]
        gateways = {}
        for gateway in self.names:
            values = self.figures(name, gateway)
            if not values and (name, gateway) not in self.failures:
                continue
            gateways[gateway] = {
                "valid": self.is_valid(name, gateway),
                "median": statistics.median(values) if values else None,
                "lowest": min(values, default=None),
                "highest": max(values, default=None),
                "ratio": None if scenario.only_product else self.ratio(name, gateway),
                "share": self.share(name, gateway),
                "failure": self.failures.get((name, gateway)),
                "samples": self.samples.get((name, gateway), []),
            }
        return {"title": scenario.title, "unit": scenario.unit, "share_of": scenario.share_of, "gateways": gateways}

    def write(self, file):
        file.write_text(json.dumps(self.result(), indent=1) + "\n")


def quotient(value, reference):
    return value / reference if value and reference else None


def formatted(ratio):
    return f"{ratio:.2f}" if ratio else "–"
