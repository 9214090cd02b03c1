"""What an expression in PromQL asks for: metrics by name, and what their labels have to be.

Not a parser: Prometheus itself says whether an expression is right. This finds the names in a right one.
"""

import re

STRING = r'"(?:[^"\\]|\\.)*"' + r"|'(?:[^'\\]|\\.)*'"
GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)")
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
SELECTOR = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*\{((?:" + STRING + r"|[^{}\"'])*)\}")
MATCHER = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*(" + STRING + ")")
GROUPED = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")
WORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}


def selectors(expression):
    """Each metric with its matchers: (name, [(label, operator, value)])."""
    found = []
    for name, inside in SELECTOR.findall(expression):
        found.append((name, [(label, how, value[1:-1]) for label, how, value in MATCHER.findall(inside)]))
    rest = SELECTOR.sub(" ", expression)
    rest = re.sub(r"\[[^\]]*\]", " ", re.sub(STRING, " ", rest))
    rest = GROUPING.sub(" ", rest)
    for match in NAME.finditer(rest):
        follows = rest[match.end():].lstrip()
        before = rest[: match.start()]
        if follows.startswith("(") or match.group().lower() in WORDS or re.search(r"[\d.]$", before):
            continue
        # An aggregation whose grouping stood between it and its parenthesis has lost that grouping above.
        found.append((match.group(), []))
    return found


def groupings(expression):
    """The labels that results are grouped by."""
    bare = re.sub(STRING, " ", expression)
    return {label.strip() for group in GROUPED.findall(bare) for label in group.split(",") if label.strip()}


def faults(expression, series):
    """What an expression asks for that is not there, as sentences.

    `series` holds the labels of what is there: for each metric's name, for each label the set of its values.
    """
    said = []
    for name, matchers in selectors(expression):
        if name not in series:
            said.append(f"there is no metric {name}")
            continue
        for label, how, value in matchers:
            if label not in series[name]:
                said.append(f"{name} has no label {label}")
            elif how == "=" and value and value not in series[name][label]:
                said.append(f"{name} never has {label}={value!r}")
            elif how == "=~":
                for alternative in value.split("|"):
                    if not any(re.fullmatch(alternative, there) for there in series[name][label]):
                        said.append(f"{name} never has a {label} that matches {alternative!r}")
    known = {label for name, _ in selectors(expression) for label in series.get(name, {})}
    for label in groupings(expression) - known:
        said.append(f"nothing in it has the label {label} that it groups by")
    return said
