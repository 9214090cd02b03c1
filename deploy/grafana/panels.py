"""What the dashboard shows: rows of panels, and each panel's queries in PromQL."""

WHERE = 'job=~"$job", instance=~"$instance"'


def panel(title, description, unit, queries, **others):
    """Queries are pairs of an expression and a legend; WHERE stands in them for the chosen job and instances."""
    made = {
        "title": title,
        "description": description,
        "unit": unit,
        "queries": [(expression.replace("WHERE", WHERE), legend) for expression, legend in queries],
        "type": "timeseries",
        "width": 8,
        "stacked": False,
        "thresholds": [("green", None)],
        "texts": [],
        "names": False,
        "decimals": None,
        "min": 0,
        "max": None,
        "none": None,
    }
    assert others.keys() <= made.keys(), others
    return made | others


def stat(title, description, unit, expression, legend="", **others):
    return panel(title, description, unit, [(expression, legend)], **{"type": "stat", "width": 4, "min": None} | others)


def rate(metric, by, where=""):
    return f"sum by ({by}) (rate({metric}{{WHERE{where}}}[$__rate_interval]))"


def quantiles(metric, by="", where=""):
    """The 50th, 95th and 99th percentile of a histogram, for each value of `by`, a label, if it is given."""
    labels = f"le, {by}" if by else "le"
    prefix = f"{{{{{by}}}}} " if by else ""
    return [
        (f"histogram_quantile({quantile}, {rate(metric + '_bucket', labels, where)})", f"{prefix}p{name}")
        for quantile, name in (("0.5", "50"), ("0.95", "95"), ("0.99", "99"))
    ]


REQUESTS = "http_server_request_duration_seconds"
CALLS = "http_client_request_duration_seconds"
FAILED = ', http_response_status_code=~"5.."'

OVERVIEW = [
    stat("Version", "What runs, and on how many instances.", "none",
        "sum by (version) (cloakroom_build_info{WHERE})", "{{version}}", names=True),
    stat("Instances up", "Those that Prometheus could read.", "none", 'sum(up{WHERE})',
        thresholds=[("red", None), ("green", 1)]),
    stat("Requests", "A second, over all routes.", "reqps", f"sum(rate({REQUESTS}_count{{WHERE}}[$__rate_interval]))"),
    stat("Failed in the last hour", "The share that was answered with a 5xx. The service level allows 0.1%.", "percentunit",
        'max(job:http_server_request_errors:ratio_rate1h{job=~"$job"})', decimals=2,
        thresholds=[("green", None), ("orange", 0.001), ("red", 0.0144)]),
    stat("Session store", "Whether every chosen instance reaches its store.", "none", "min(cloakroom_session_store_up{WHERE})",
        texts=[("0", "down", "red"), ("1", "up", "green")], thresholds=[("red", None), ("green", 1)]),
    stat("Upstream targets away", "Targets that a gateway leaves alone because they could not be reached.", "none",
        'count(cloakroom_upstream_healthy{WHERE} == 0) or vector(0)', thresholds=[("green", None), ("red", 1)]),
]

ROUTES = [
    panel("Requests by route", "`(accounts)` is the gateway's own endpoints, `(unmatched)` what is not listed.", "reqps",
        [(rate(REQUESTS + "_count", "http_route"), "{{http_route}}")], stacked=True),
    panel("Requests by status", "What clients are answered.", "reqps",
        [(rate(REQUESTS + "_count", "http_response_status_code"), "{{http_response_status_code}}")], stacked=True),
    panel("Failed requests by route", "The share of 5xx, over routes that had any request.", "percentunit",
        [(f"({rate(REQUESTS + '_count', 'http_route', FAILED)} or 0 * {rate(REQUESTS + '_count', 'http_route')})"
          f" / ({rate(REQUESTS + '_count', 'http_route')} > 0)", "{{http_route}}")]),
    panel("Duration", "From a request's first byte to its answer's last, over all routes.", "s", quantiles(REQUESTS)),
    panel("Duration by route, p95", "One request in twenty takes longer.", "s", [quantiles(REQUESTS, "http_route")[1]]),
    panel("What the gateway adds, by route", "The total without the upstream's part.", "s",
        [quantiles("cloakroom_overhead_seconds", "route")[0], quantiles("cloakroom_overhead_seconds", "route")[2]]),
    panel("401 by route", "Requests that were told to sign in, by the gateway or by the upstream.", "reqps",
        [(rate(REQUESTS + "_count", "http_route", ', http_response_status_code="401"'), "{{http_route}}")]),
    panel("Requests in progress", "At the moment of the scrape.", "none",
        [('sum by (http_request_method, url_scheme) (http_server_active_requests{WHERE})',
          "{{http_request_method}} {{url_scheme}}")]),
    panel("Refused for their form", "What the gateway does not even take for a request, by what was wrong.", "reqps",
        [(rate("cloakroom_wire_rejections_total", "kind"), "{{kind}}")]),
]

AUTHENTICATION = [
    panel("Sign-ins", "Attempts, by how they ended. `rejected` is a wrong password, `throttled` too many of them.", "reqps",
        [(rate("cloakroom_sign_ins_total", "outcome"), "{{outcome}}")], stacked=True),
    panel("Sign-in duration", "Of attempts that succeeded; mostly the upstream's.", "s",
        quantiles("cloakroom_sign_in_duration_seconds", where=', outcome="success"')),
    panel("Decisions by route", "Whether requests may pass: `forwarded` has a session, `public` needs none.", "reqps",
        [(rate("cloakroom_auth_decisions_total", "route, decision"), "{{route}} {{decision}}")], stacked=True),
    panel("Sign-outs", "By who asked for it.", "reqps", [(rate("cloakroom_sign_outs_total", "kind"), "{{kind}}")]),
    panel("Sessions made and ended", "Ended by reason.", "reqps",
        [("sum(rate(cloakroom_sessions_created_total{WHERE}[$__rate_interval]))", "made"),
         (rate("cloakroom_sessions_ended_total", "reason"), "ended: {{reason}}")]),
    panel("Sessions", "That are alive. Nobody counts them in Valkey.", "none",
        [("sum by (instance) (cloakroom_sessions_active{WHERE})", "{{instance}}")]),
]

REFRESHES = [
    panel("Renewals of tokens", "By how they ended. `coalesced`: another replica was first; `rejected` ends a session.", "reqps",
        [(rate("cloakroom_token_refreshes_total", "outcome"), "{{outcome}}")], stacked=True, width=12),
    panel("Duration of a renewal", "Of those that succeeded.", "s",
        quantiles("cloakroom_token_refresh_duration_seconds", where=', outcome="success"'), width=12),
]

STORE = [
    panel("Reachable", "1 while the store answers.", "none",
        [("min by (instance, backend) (cloakroom_session_store_up{WHERE})", "{{instance}} {{backend}}")], max=1),
    panel("Operations", "By kind.", "ops",
        [(rate("cloakroom_session_store_operation_duration_seconds_count", "operation"), "{{operation}}")], stacked=True),
    panel("Failed operations", "By kind.", "ops",
        [(rate("cloakroom_session_store_operation_duration_seconds_count", "operation", ', outcome="error"'), "{{operation}}")]),
    panel("Duration of an operation", "Over all kinds, by store.", "s",
        quantiles("cloakroom_session_store_operation_duration_seconds", "backend"), width=12),
    panel("Duration by kind, p95", "One operation in twenty takes longer.", "s",
        [quantiles("cloakroom_session_store_operation_duration_seconds", "operation")[1]], width=12),
]

UPSTREAMS = [
    panel("Calls by status", "Without one, the upstream gave no answer.", "reqps",
        [(rate(CALLS + "_count", "upstream, http_response_status_code"), "{{upstream}} {{http_response_status_code}}")],
        stacked=True),
    panel("Time to answer", "How long the gateway waited.", "s", quantiles(CALLS, "upstream")),
    panel("Calls without an answer", "By what went wrong.", "reqps",
        [(rate(CALLS + "_count", "upstream, error_type", ', error_type!=""'), "{{upstream}} {{error_type}}")]),
    panel("Circuits", "Whether targets are used: 1 is yes, 0 left alone since they could not be reached.", "none",
        [("min by (upstream, target) (cloakroom_upstream_healthy{WHERE})", "{{upstream}} {{target}}")], max=1),
    panel("Circuits by state", "How many of the chosen instances' targets are in each.", "none",
        [("sum by (state) (cloakroom_upstream_circuit_state{WHERE})", "{{state}}")], stacked=True),
    panel("Connections", "In use, and kept for the next request.", "none",
        [("sum by (upstream, state) (cloakroom_upstream_connections{WHERE})", "{{upstream}} {{state}}")], stacked=True),
    panel("Waiting for a connection", "Requests in the queue of the pool.", "none",
        [("sum by (upstream) (cloakroom_upstream_pending_requests{WHERE})", "{{upstream}}")], width=12),
    panel("Sent again", "Requests of which the first attempt never arrived, by reason.", "reqps",
        [(rate("cloakroom_upstream_retries_total", "upstream, reason"), "{{upstream}} {{reason}}")], width=12),
]

CERTIFICATES = [
    panel("Days left", "Of each certificate; there is a warning at 14.", "d",
        [("min by (listener, file) (cloakroom_tls_certificate_not_after_timestamp_seconds{WHERE} - time()) / 86400",
          "{{listener}} {{file}}")], min=None),
    panel("Certificates read again", "Changed files, and whether they could be used. In each quarter of an hour.", "none",
        [("sum by (listener, outcome) (increase(cloakroom_tls_reloads_total{WHERE}[15m]))", "{{listener}} {{outcome}}")]),
    panel("Configuration read again", "In each quarter of an hour.", "none",
        [("sum by (outcome) (increase(cloakroom_config_reloads_total{WHERE}[15m]))", "{{outcome}}")]),
    stat("Last configuration", "Whether it was taken by every chosen instance.", "none",
        "min(cloakroom_config_last_reload_successful{WHERE})", width=12,
        texts=[("0", "refused", "red"), ("1", "in effect", "green")], thresholds=[("red", None), ("green", 1)]),
    stat("In effect since", "The oldest configuration among the chosen instances.", "s",
        "max(time() - cloakroom_config_last_reload_success_timestamp_seconds{WHERE})", width=12),
]

PROCESS = [
    panel("Processor", "Cores in use.", "none",
        [("rate(process_cpu_seconds_total{WHERE}[$__rate_interval])", "{{instance}}")]),
    panel("Memory", "Resident.", "bytes", [("process_resident_memory_bytes{WHERE}", "{{instance}}")]),
    panel("File descriptors", "The share that is open.", "percentunit",
        [("process_open_fds{WHERE} / process_max_fds{WHERE}", "{{instance}}")], max=1),
    panel("Telemetry that was dropped", "Log lines, spans and series that were not kept, a second.", "cps",
        [(rate("cloakroom_telemetry_dropped_total", "instance, signal"), "{{instance}} {{signal}}")], width=12),
    panel("Running for", "Since the process has started.", "s",
        [("time() - process_start_time_seconds{WHERE}", "{{instance}}")], width=12),
]

ROWS = [
    ("Overview", OVERVIEW),
    ("Routes", ROUTES),
    ("Authentication", AUTHENTICATION),
    ("Renewals of tokens", REFRESHES),
    ("Session store", STORE),
    ("Upstreams", UPSTREAMS),
    ("Certificates and configuration", CERTIFICATES),
    ("Process", PROCESS),
]
