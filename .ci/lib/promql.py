"""The metrics and labels that a PromQL expression names.

This is not a parser: Prometheus checks the syntax. It finds the names in an expression that is correct.
"""

import re

STRING = r'"(?:[^"\\]|\\.)*"' + r"|'(?:[^'\\]|\\.)*'"
GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)")
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
SELECTOR = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*\{((?:" + STRING + r"|[^{}\"'])*)\}")
MATCHER = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*(" + STRING + ")")
GROUPED = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")
KEYWORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}


def selectors(expression):
    """Each metric with its matchers: (name, [(label, operator, value)])."""
    found = []
    for name, inside in SELECTOR.findall(expression):
        found.append((name, [(label, operator, value[1:-1]) for label, operator, value in MATCHER.findall(inside)]))
    rest = SELECTOR.sub(" ", expression)
    rest = re.sub(r"\[[^\]]*\]", " ", re.sub(STRING, " ", rest))
    # Removed first, so that an aggregation is followed by its parenthesis.
    rest = GROUPING.sub(" ", rest)
    for match in NAME.finditer(rest):
        follows = rest[match.end():].lstrip()
        before = rest[: match.start()]
        if follows.startswith("(") or match.group().lower() in KEYWORDS or re.search(r"[\d.]$", before):
            continue
        found.append((match.group(), []))
    return found


def groupings(expression):
    """The labels that results are grouped by."""
    bare = re.sub(STRING, " ", expression)
    return {label.strip() for group in GROUPED.findall(bare) for label in group.split(",") if label.strip()}


def find_mismatches(expression, series):
    """The names in an expression that no series has, as sentences.

    `series` has the existing labels: for each metric name, for each label, the set of its values.
    """
    found = []
    for name, matchers in selectors(expression):
        if name not in series:
            found.append(f"no metric {name}")
            continue
        for label, operator, value in matchers:
            if label not in series[name]:
                found.append(f"{name} has no label {label}")
            elif operator == "=" and value and value not in series[name][label]:
                found.append(f"{name} never has {label}={value!r}")
            elif operator == "=~":
                for alternative in value.split("|"):
                    if not any(re.fullmatch(alternative, existing) for existing in series[name][label]):
                        found.append(f"{name} never has a {label} that matches {alternative!r}")
    known = {label for name, _ in selectors(expression) for label in series.get(name, {})}
    for label in groupings(expression) - known:
        found.append(f"no metric in it has the label {label} that it groups by")
    return found
