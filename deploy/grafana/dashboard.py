#!/usr/bin/env python3
"""Prints the Grafana dashboard as JSON. After a change:

    deploy/grafana/dashboard.py > deploy/grafana/dashboards/cloakroom.json

panels.py defines the panels; this script assembles the dashboard. Positions and ids are derived from the order of the
panels, which avoids overlaps and keeps diffs small.
"""

import json
import sys

from panels import ROWS

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24
HEIGHT = {"stat": 4, "timeseries": 8}


def query(panel, index, expression, legend):
    instant = panel["type"] == "stat"
    return {
        "datasource": DATASOURCE,
        "editorMode": "code",
        "expr": expression,
        "instant": instant,
        "legendFormat": legend,
        "range": not instant,
        "refId": chr(ord("A") + index),
    }


def field_config(panel):
    steps = [{"color": color, "value": value} for color, value in panel["thresholds"]]
    defaults = {
        "color": {"mode": "thresholds" if panel["type"] == "stat" else "palette-classic"},
        "decimals": panel["decimals"],
        "mappings": [
            {
                "type": "value",
                "options": {
                    value: {"color": color, "index": index, "text": text}
                    for index, (value, text, color) in enumerate(panel["texts"])
                },
            }
        ]
        if panel["texts"]
        else [],
        "max": panel["max"],
        "min": panel["min"],
        "noValue": panel["none"],
        "thresholds": {"mode": "absolute", "steps": steps},
        "unit": panel["unit"],
    }
    if panel["type"] == "timeseries":
        defaults["custom"] = {
            "drawStyle": "line",
            "fillOpacity": 25 if panel["stacked"] else 8,
            "lineWidth": 1,
            "showPoints": "never",
            "spanNulls": False,
            "stacking": {"group": "A", "mode": "normal" if panel["stacked"] else "none"},
        }
    return {"defaults": {key: value for key, value in defaults.items() if value is not None}, "overrides": []}


def options(panel):
    if panel["type"] == "stat":
        return {
            "colorMode": "value",
            "graphMode": "none",
            "justifyMode": "auto",
            "orientation": "auto",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "textMode": "value_and_name" if panel["names"] else "auto",
        }
    return {
        "legend": {"calcs": ["mean", "max", "lastNotNull"], "displayMode": "table", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }


def drawn(panel, number, x, y):
    return {
        "datasource": DATASOURCE,
        "description": panel["description"],
        "fieldConfig": field_config(panel),
        "gridPos": {"h": HEIGHT[panel["type"]], "w": panel["width"], "x": x, "y": y},
        "id": number,
        "options": options(panel),
        "targets": [query(panel, index, *what) for index, what in enumerate(panel["queries"])],
        "title": panel["title"],
        "type": panel["type"],
    }


def laid_out():
    result, y = [], 0
    for title, panels in ROWS:
        result.append(
            {
                "collapsed": False,
                "gridPos": {"h": 1, "w": COLUMNS, "x": 0, "y": y},
                "id": len(result) + 1,
                "panels": [],
                "title": title,
                "type": "row",
            }
        )
        x, y, height = 0, y + 1, 0
        for panel in panels:
            if x + panel["width"] > COLUMNS:
                x, y, height = 0, y + height, 0
            result.append(drawn(panel, len(result) + 1, x, y))
            x, height = x + panel["width"], max(height, HEIGHT[panel["type"]])
        y += height
    return result


def choice(name, label, expression, several):
    variable = {
        "datasource": DATASOURCE,
        "hide": 0,
        "includeAll": several,
        "label": label,
        "multi": several,
        "name": name,
        "query": {"query": expression, "refId": "variable"},
        # Refreshed at each change of the time range, because the set of gateways changes over time.
        "refresh": 2,
        "sort": 1,
        "type": "query",
    }
    if several:
        variable["allValue"] = ".*"
        variable["current"] = {"selected": True, "text": ["All"], "value": ["$__all"]}
    return variable


def dashboard():
    return {
        "annotations": {
            "list": [
                {
                    "datasource": DATASOURCE,
                    "enable": True,
                    "expr": 'changes(process_start_time_seconds{job=~"$job", instance=~"$instance"}[$__rate_interval]) > 0',
                    "hide": False,
                    "iconColor": "blue",
                    "name": "Restarts",
                    "titleFormat": "{{instance}} started",
                }
            ]
        },
        "description": "A gateway that handles authentication on behalf of its clients: requests, sign-ins, sessions, "
        "token refreshes, the session store and upstreams.",
        "editable": True,
        "fiscalYearStartMonth": 0,
        "graphTooltip": 1,
        "links": [],
        "panels": laid_out(),
        "refresh": "30s",
        "schemaVersion": 39,
        "tags": ["cloakroom"],
        "templating": {
            "list": [
                {
                    "current": {},
                    "hide": 0,
                    "label": "Data source",
                    "name": "datasource",
                    "query": "prometheus",
                    "refresh": 1,
                    "regex": "",
                    "type": "datasource",
                },
                choice("job", "Job", "label_values(cloakroom_build_info, job)", several=False),
                choice("instance", "Instance", 'label_values(cloakroom_build_info{job=~"$job"}, instance)', several=True),
                choice("route", "Route",
                    'label_values(http_server_request_duration_seconds_count{job=~"$job", instance=~"$instance"}, route)',
                    several=True),
                choice("upstream", "Upstream",
                    'label_values(cloakroom_upstream_healthy{job=~"$job", instance=~"$instance"}, upstream)', several=True),
            ]
        },
        "time": {"from": "now-1h", "to": "now"},
        "timepicker": {},
        "timezone": "browser",
        "title": "Cloakroom",
        "uid": "cloakroom",
        "weekStart": "",
    }


json.dump(dashboard(), sys.stdout, indent=2, ensure_ascii=False)
print()
