"""The contents of the dashboard: rows of panels with their PromQL queries."""

import re

WHERE = 'job=~"$job", instance=~"$instance"'
# The beginnings of the names of metrics with a label that a variable of the dashboard selects.
SELECTED = {
    "route": r"http_server_request_duration_seconds|cloakroom_overhead_seconds|cloakroom_auth_decisions_total",
    "upstream": r"http_client_request_duration_seconds|cloakroom_upstream_",
}


def selection(match):
    """WHERE after the name of a metric, with its route or upstream if it has one."""
    labels = [label for label, names in SELECTED.items() if re.match(names, match[1])]
    return match[1] + "{" + ", ".join([WHERE] + [f'{label}=~"${label}"' for label in labels])


def panel(title, description, unit, queries, **others):
    """Queries are pairs of an expression and a legend. WHERE in an expression selects the chosen job and instances, and routes
    or upstreams if the metric has them; ALL selects all routes and upstreams of the chosen job and instances."""
    made = {
        "title": title,
        "description": description,
        "unit": unit,
        "queries": [
            (re.sub(r"(\w+){WHERE", selection, expression).replace("ALL", WHERE), legend) for expression, legend in queries
        ],
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
    """The 50th, 95th and 99th percentile of a histogram, for each value of the label `by`, if given."""
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
    stat("Version", "The running versions and the number of instances of each.", "none",
        "sum by (version) (cloakroom_build_info{ALL})", "{{version}}", names=True),
    stat("Instances up", "Instances that Prometheus could scrape.", "none", 'sum(up{ALL})',
        thresholds=[("red", None), ("green", 1)]),
    stat("Requests", "Requests per second, over all routes.", "reqps", f"sum(rate({REQUESTS}_count{{ALL}}[$__rate_interval]))"),
    stat("Failed in the last hour", "The fraction of 5xx responses. The service level allows 0.1%.", "percentunit",
        'max(job:http_server_request_errors:ratio_rate1h{job=~"$job"})', decimals=2, none="no requests",
        thresholds=[("green", None), ("orange", 0.001), ("red", 0.0144)]),
    stat("Session store", "Whether all chosen instances reach their session store.", "none",
        "min(cloakroom_session_store_up{ALL})",
        texts=[("0", "down", "red"), ("1", "up", "green")], thresholds=[("red", None), ("green", 1)]),
    stat("Unreachable targets", "Upstream targets that are in back-off because they could not be reached.", "none",
        'sum(1 - cloakroom_upstream_healthy{ALL})', none="no targets", thresholds=[("green", None), ("red", 1)]),
]

ROUTES = [
    panel("Requests by route", "`(accounts)`: the gateway's account endpoints; `(unmatched)`: no route matched.", "reqps",
        [(rate(REQUESTS + "_count", "route"), "{{route}}")], stacked=True),
    panel("Requests by status", "The status of responses to clients.", "reqps",
        [(rate(REQUESTS + "_count", "http_response_status_code"), "{{http_response_status_code}}")], stacked=True),
    panel("Failed requests by route", "The fraction of 5xx responses, for routes with requests.", "percentunit",
        [(f"({rate(REQUESTS + '_count', 'route', FAILED)} or 0 * {rate(REQUESTS + '_count', 'route')})"
          f" / ({rate(REQUESTS + '_count', 'route')} > 0)", "{{route}}")]),
    panel("Duration", "From the first byte of the request to the last byte of the response, over the chosen routes.", "s",
        quantiles(REQUESTS)),
    panel("Duration by route, p95", "5% of the requests take longer.", "s", [quantiles(REQUESTS, "route")[1]]),
    panel("Gateway overhead by route", "The total duration without the time spent waiting for the upstream.", "s",
        [quantiles("cloakroom_overhead_seconds", "route")[0], quantiles("cloakroom_overhead_seconds", "route")[2]]),
    panel("401 by route", "401 responses of the gateway or of the upstream.", "reqps",
        [(rate(REQUESTS + "_count", "route", ', http_response_status_code="401"'), "{{route}}")]),
    panel("Requests in progress", "In-flight requests at the time of the scrape.", "none",
        [('sum by (http_request_method, url_scheme) (http_server_active_requests{WHERE})',
          "{{http_request_method}} {{url_scheme}}")]),
    panel("Rejections", "Malformed requests and connections that were rejected, by reason.", "reqps",
        [(rate("cloakroom_rejections_total", "reason"), "{{reason}}")]),
]

AUTHENTICATION = [
    panel("Sign-ins", "Attempts by outcome. `rejected`: wrong password; `throttled`: too many attempts.", "reqps",
        [(rate("cloakroom_sign_ins_total", "outcome"), "{{outcome}}")], stacked=True),
    panel("Sign-in duration", "Successful attempts; most of the time is spent in the upstream.", "s",
        quantiles("cloakroom_sign_in_duration_seconds", where=', outcome="success"')),
    panel("Decisions by route", "Authorization decisions. `forwarded`: valid session; `public`: no session required.", "reqps",
        [(rate("cloakroom_auth_decisions_total", "route, decision"), "{{route}} {{decision}}")], stacked=True),
    panel("401 by reason", "401 responses of the gateway. `no_session`: the client sent no valid cookie.", "reqps",
        [(rate("cloakroom_unauthorized_responses_total", "reason"), "{{reason}}")], stacked=True),
    panel("Sign-outs", "By kind: user, other sessions of the account, operator, or provider.", "reqps",
        [(rate("cloakroom_sign_outs_total", "kind"), "{{kind}}")]),
    panel("Sessions created and ended", "Ended sessions by reason.", "reqps",
        [("sum(rate(cloakroom_sessions_created_total{WHERE}[$__rate_interval]))", "created"),
         (rate("cloakroom_sessions_ended_total", "reason"), "ended: {{reason}}")]),
    panel("Sessions", "Active sessions. Not counted with the Valkey store.", "none",
        [("sum by (instance) (cloakroom_sessions_active{WHERE})", "{{instance}}")]),
]

IDENTITIES = [
    panel("Logins", "Logins at providers by outcome. `denied`, `expired`: the user; `failed`: a response was rejected.", "reqps",
        [(rate("cloakroom_logins_total", "identity, outcome"), "{{identity}} {{outcome}}")], stacked=True),
    panel("Logins begun", "Browsers that were redirected to a provider. Not all of them return.", "reqps",
        [(rate("cloakroom_logins_begun_total", "identity"), "{{identity}}")]),
    panel("Callback duration", "Successful logins, without the time that the user needs at the provider.", "s",
        quantiles("cloakroom_login_duration_seconds", where=', outcome="success"')),
    panel("Logouts of providers", "Logouts that providers reported. `no_session`: there was none to end.", "reqps",
        [(rate("cloakroom_provider_logouts_total", "identity, outcome"), "{{identity}} {{outcome}}")], stacked=True),
    panel("Providers", "1: metadata and keys can be used; 0: users cannot sign in.", "none",
        [("min by (instance, identity) (cloakroom_provider_up{WHERE})", "{{instance}} {{identity}}")], max=1),
    panel("Age of keys", "An alert fires above 26 hours.", "s",
        [("max by (identity) (cloakroom_provider_keys_age_seconds{WHERE})", "{{identity}}")]),
    panel("Failed fetches", "Fetches of metadata and keys that failed, per 15 minutes.", "none",
        [('sum by (identity, document, outcome) (increase(cloakroom_provider_fetches_total{WHERE, outcome!="success"}[15m]))',
          "{{identity}} {{document}} {{outcome}}")]),
    panel("Keys", "Keys of each provider that can verify tokens.", "none",
        [("min by (identity) (cloakroom_provider_keys{WHERE})", "{{identity}}")]),
    panel("Token exchanges", "Tokens for single upstreams, by outcome. None without `exchange`.", "reqps",
        [(rate("cloakroom_token_exchange_duration_seconds_count", "upstream, outcome"), "{{upstream}} {{outcome}}")]),
]

REFRESHES = [
    panel("Token refreshes", "By outcome. `coalesced`: refreshed by another replica; `rejected`: the session ended.", "reqps",
        [(rate("cloakroom_token_refreshes_total", "outcome"), "{{outcome}}")], stacked=True, width=12),
    panel("Token refresh duration", "Successful refreshes.", "s",
        quantiles("cloakroom_token_refresh_duration_seconds", where=', outcome="success"'), width=12),
]

STORE = [
    panel("Reachable", "1 if the store responds, otherwise 0.", "none",
        [("min by (instance, backend) (cloakroom_session_store_up{WHERE})", "{{instance}} {{backend}}")], max=1),
    panel("Operations", "By operation.", "ops",
        [(rate("cloakroom_session_store_operation_duration_seconds_count", "operation"), "{{operation}}")], stacked=True),
    panel("Failed operations", "By operation.", "ops",
        [(rate("cloakroom_session_store_operation_duration_seconds_count", "operation", ', outcome="error"'), "{{operation}}")]),
    panel("Failures by reason", "Why operations failed. The operator documentation has a remedy for each reason.", "ops",
        [(rate("cloakroom_session_store_errors_total", "backend, reason"), "{{backend}} {{reason}}")], stacked=True),
    panel("Operation duration", "Over all operations, by store.", "s",
        quantiles("cloakroom_session_store_operation_duration_seconds", "backend")),
    panel("Duration by operation, p95", "5% of the operations take longer.", "s",
        [quantiles("cloakroom_session_store_operation_duration_seconds", "operation")[1]]),
]

UPSTREAMS = [
    panel("Calls by status", "No status: the upstream sent no response.", "reqps",
        [(rate(CALLS + "_count", "upstream, http_response_status_code"), "{{upstream}} {{http_response_status_code}}")],
        stacked=True),
    panel("Response time", "How long the gateway waited for the upstream.", "s", quantiles(CALLS, "upstream")),
    panel("Failed calls", "Calls without a response or with 5xx, by error type.", "reqps",
        [(rate(CALLS + "_count", "upstream, error_type", ', error_type!~"(4..)?"'), "{{upstream}} {{error_type}}")]),
    panel("Circuits", "1: the target is used; 0: it is in back-off because it could not be reached.", "none",
        [("min by (upstream, target) (cloakroom_upstream_healthy{WHERE})", "{{upstream}} {{target}}")], max=1),
    panel("Circuits by state", "The number of targets in each state, over the chosen instances.", "none",
        [("sum by (state) (cloakroom_upstream_circuit_state{WHERE})", "{{state}}")], stacked=True),
    panel("Connections", "Active and idle upstream connections.", "none",
        [("sum by (upstream, state) (cloakroom_upstream_connections{WHERE})", "{{upstream}} {{state}}")], stacked=True),
    panel("Waiting for a connection", "Requests queued for a connection of the pool.", "none",
        [("sum by (upstream) (cloakroom_upstream_pending_requests{WHERE})", "{{upstream}}")], width=12),
    panel("Retries", "Requests that were sent again, by reason.", "reqps",
        [(rate("cloakroom_upstream_retries_total", "upstream, reason", ', outcome="sent"'), "{{upstream}} {{reason}}")], width=12),
]

TARGETS = [
    stat("Panic", "Upstreams whose unusable targets are used because none is usable.", "none",
        "sum(cloakroom_upstream_panic{WHERE})", thresholds=[("green", None), ("red", 1)]),
    stat("Ejected", "Targets that are ejected, over the chosen instances.", "none",
        'sum(cloakroom_upstream_state{WHERE, state="ejected"})', thresholds=[("green", None), ("orange", 1)]),
    stat("Down", "Targets whose health checks fail, over the chosen instances.", "none",
        'sum(cloakroom_upstream_state{WHERE, state="down"})', thresholds=[("green", None), ("orange", 1)]),
    stat("Retry budget", "The lowest number of retries that an upstream permits at once.", "none",
        "min(cloakroom_upstream_retry_budget{WHERE})", decimals=0, thresholds=[("red", None), ("green", 1)]),
    stat("Age of DNS data", "The oldest successful resolution of a target's host name.", "s",
        "max(cloakroom_upstream_dns_age_seconds{WHERE})", none="no host names"),
    stat("Slow clients", "Exchanges ended in the last hour because of a slow client.", "none",
        "sum(increase(cloakroom_slow_clients_total{WHERE}[1h]))", decimals=0),
    panel("Targets by state", "Only targets that are up or warming get requests.", "none",
        [("sum by (upstream, state) (cloakroom_upstream_state{WHERE}) > 0", "{{upstream}} {{state}}")], stacked=True),
    panel("Requests in flight by target", "With `latency`, a slower target gets fewer requests.", "none",
        [("sum by (upstream, target, peer) (cloakroom_upstream_in_flight{WHERE})", "{{upstream}} {{target}} {{peer}}")]),
    panel("Estimated response time by target", "What `latency` compares targets by; failures count at least 1 s.", "s",
        [("max by (upstream, target, peer) (cloakroom_upstream_estimate_seconds{WHERE})", "{{upstream}} {{target}} {{peer}}")]),
    panel("Ejections", "By target and reason, per 5 minutes.", "none",
        [("sum by (upstream, target, reason) (increase(cloakroom_upstream_ejections_total{WHERE}[5m])) > 0", "{{target}} {{reason}}")]),
    panel("Failed health checks", "By target and outcome.", "cps",
        [(rate("cloakroom_upstream_checks_total", "upstream, target, outcome", ', outcome!="passed"'), "{{target}} {{outcome}}")]),
    panel("Connection attempts", "By outcome.", "cps",
        [(rate("cloakroom_upstream_connects_total", "upstream, outcome"), "{{upstream}} {{outcome}}")], stacked=True),
    panel("Time in the queue", "Of requests that waited for a connection.", "s", quantiles("cloakroom_upstream_queue_seconds", "upstream")),
    panel("Rejected before an upstream", "503 because no connection was available, by cause.", "reqps",
        [(rate("cloakroom_upstream_rejected_total", "upstream, cause"), "{{upstream}} {{cause}}")], stacked=True),
    panel("Permits for connections", "The half that any event loop can take: `common` is in use, `available` is not.", "none",
        [("sum by (upstream, kind) (cloakroom_upstream_permits{WHERE})", "{{upstream}} {{kind}}")], stacked=True),
    panel("Retries that were not sent", "`no_budget`: the budget is spent; `not_replayable`: method, body or deadline.", "reqps",
        [(rate("cloakroom_upstream_retries_total", "upstream, outcome", ', outcome!="sent"'), "{{upstream}} {{outcome}}")]),
    panel("Slow clients and caps", "Exchanges ended for being slow, and requests beyond a limit in flight.", "reqps",
        [(rate("cloakroom_slow_clients_total", "direction, cause"), "slow {{direction}} {{cause}}"),
         (rate("cloakroom_client_cap_total", "cap"), "cap {{cap}}")]),
]

CERTIFICATES = [
    panel("Days until expiry", "For each certificate. An alert fires below 14 days.", "d",
        [("min by (listener, file) (cloakroom_tls_certificate_not_after_timestamp_seconds{WHERE} - time()) / 86400",
          "{{listener}} {{file}}")], min=None),
    panel("Certificate reloads", "Reloads of changed files by outcome, per 15 minutes.", "none",
        [("sum by (listener, outcome) (increase(cloakroom_tls_reloads_total{WHERE}[15m]))", "{{listener}} {{outcome}}")]),
    panel("Configuration reloads", "By outcome, per 15 minutes.", "none",
        [("sum by (outcome) (increase(cloakroom_config_reloads_total{WHERE}[15m]))", "{{outcome}}")]),
    stat("Last reload", "Whether all chosen instances applied the latest configuration.", "none",
        "min(cloakroom_config_last_reload_successful{WHERE})", width=12,
        texts=[("0", "rejected", "red"), ("1", "applied", "green")], thresholds=[("red", None), ("green", 1)]),
    stat("Configuration age", "The oldest configuration among the chosen instances.", "s",
        "max(time() - cloakroom_config_last_reload_success_timestamp_seconds{WHERE})", width=12),
]

CONNECTIONS = [
    panel("Connections by state", "`new`: TLS handshake, PROXY header or detection of the HTTP version.", "none",
        [("sum by (state) (cloakroom_connections_by_state{WHERE})", "{{state}}")], stacked=True),
    panel("Pauses of accepting", "New clients wait meanwhile. `limit`: `limits.connections`; `resources`: descriptors or memory.",
        "none", [("sum by (instance, reason) (increase(cloakroom_accept_pauses_total{WHERE}[5m]))", "{{instance}} {{reason}}"),
                 ("sum by (instance) (cloakroom_accept_paused_listeners{WHERE})", "{{instance}} paused now")], decimals=0),
    panel("Event loop lag", "How long an event waits for its loop. An alert fires above 50 ms at p99.", "s",
        quantiles("cloakroom_event_loop_lag_seconds")),
    panel("TLS handshakes", "Completed handshakes by version.", "cps",
        [(rate("cloakroom_tls_handshakes_total", "version", ', outcome="success"'), "TLS {{version}}")], stacked=True, width=12),
    panel("Failed TLS handshakes", "`aborted`: closed by the client; `expired`: client certificate.", "cps",
        [(rate("cloakroom_tls_handshakes_total", "outcome", ', outcome!="success"'), "{{outcome}}")], stacked=True, width=12),
]

PROCESS = [
    panel("CPU", "CPU cores in use.", "none",
        [("rate(process_cpu_seconds_total{WHERE}[$__rate_interval])", "{{instance}}")]),
    panel("Memory", "Resident memory.", "bytes", [("process_resident_memory_bytes{WHERE}", "{{instance}}")]),
    panel("File descriptors", "The fraction of the limit that is open.", "percentunit",
        [("process_open_fds{WHERE} / process_max_fds{WHERE}", "{{instance}}")], max=1),
    panel("Client connections", "Open connections, and the number at which accepting pauses.", "none",
        [("cloakroom_connections{WHERE}", "{{instance}}"), ("min(cloakroom_connections_limit{WHERE})", "limit")]),
    panel("Memory in use", "The fraction of the limit. An alert fires above 90%.", "percentunit",
        [("process_resident_memory_bytes{WHERE} / on (job, instance) cloakroom_memory_limit_bytes{WHERE}", "{{instance}}")], max=1),
    panel("Starts", "Starts of the process in 30 minutes. An alert fires above 2.", "none",
        [("changes(process_start_time_seconds{WHERE}[30m])", "{{instance}}")], decimals=0),
    panel("Dropped telemetry", "Log lines, spans and series dropped per second.", "cps",
        [(rate("cloakroom_telemetry_dropped_total", "instance, signal"), "{{instance}} {{signal}}")], width=12),
    panel("Uptime", "Time since the start of the process.", "s",
        [("time() - process_start_time_seconds{WHERE}", "{{instance}}")], width=12),
]

ROWS = [
    ("Overview", OVERVIEW),
    ("Routes", ROUTES),
    ("Authentication", AUTHENTICATION),
    ("Identity providers", IDENTITIES),
    ("Token refreshes", REFRESHES),
    ("Session store", STORE),
    ("Upstreams", UPSTREAMS),
    ("Targets, retries and slow clients", TARGETS),
    ("Certificates and configuration", CERTIFICATES),
    ("Connections and event loops", CONNECTIONS),
    ("Process", PROCESS),
]
