// Draws /status.json, of the whole gateway or of one route or target, and again every 2 s.
"use strict";

// As in StatusAlert: the page marks a certificate that an alert reports.
const certificateDays = 14;
const interval = 2_000;
// Without the user and the token that the address of the page may have: fetch rejects such an address.
const base = location.origin + location.pathname;

// The sections of the whole gateway.

const routeLink = name => `?route=${encodeURIComponent(name)}`;
const targetLink = (upstream, address) =>
    `?upstream=${encodeURIComponent(upstream)}&target=${encodeURIComponent(address)}`;
const none = { text: "None", level: "quiet" };
// The names that no route of the configuration can have.
const otherRoutes = new Map([
    ["(accounts)", "the gateway’s own endpoints: sign-in, session, sign-out"], ["(unmatched)", "no route serves the path"],
]);
const lastFailure = text => column("Last failure", row => row.last_failure?.reason, ({ last_failure: failure }) =>
    failure ? { text: text(failure), style: "prose", note: ago(failure.seconds_ago) } : none);
const targetStates = {
    up: ["Up", "good"], warming: ["Warming", "good"], backing_off: ["Backing off", "bad"], ejected: ["Ejected", "bad"],
    down: ["Down", "bad"], draining: ["Draining", "quiet"],
};

const targetColumns = [
    column("State", target => target.state, ({ state, circuit, reason }) => {
        const isDue = state === "backing_off" && circuit === "half_open";
        const [text, level] = isDue ? ["Next attempt due", "warning"] : targetStates[state] ?? [words(state)];
        return { text, level, note: reason };
    }),
    column("Until", target => target.until, ({ until, seconds_left: left }) => until
        ? { text: time(until), note: `in ${duration(left)}` } : { text: unknown, level: "quiet" }),
    number("In flight", target => target.in_flight),
    lastFailure(failure => failure.reason),
];

const failureColumns = [
    column("Reason", failure => words(failure.reason)), column("Status", failure => failure.status ?? "None"),
    number("Requests", failure => failure.count), column("First seen", failure => time(failure.first_at)),
    column("Last seen", failure => time(failure.last_at)),
    column("Check first", failure => failure.hint, failure => ({ text: failure.hint, style: "prose" })),
];

const failures = (columns, rows) => section("failures", "Recent failures", { wide: true }, table(
    "failures", "Latest first, at most 20. A failure is listed within 10 s.", columns, rows,
    { empty: "No failures.", isSortable: true }));

function routes(status) {
    const omitted = status.trends_not_kept;
    const subjects = count(omitted, "route or target", "routes and targets");
    const note = omitted ? ` The trends of ${subjects} are not kept.` : "";
    return section("routes", "Routes", { wide: true }, table(
        "routes", `Rates, shares and percentiles of ${lastly(status)}.${note}`, [
            column("Route", route => route.name, ({ name, serves }) =>
                ({ text: name, note: serves ?? otherRoutes.get(name), link: routeLink(name) })),
            ...traffic("5xx", route => route.requests), number("401", route => route.unauthorized_recent),
            number("Since start", route => route.requests.total),
        ], status.routes, {
            empty: "No routes are configured.", isSortable: true, filters: {
                "With requests": route => route.requests.recent > 0,
                "With failures": route => route.requests.error_share > 0,
            },
        }));
}

function upstreams(status) {
    const health = { healthy: ["OK", "good"], degraded: ["Degraded", "warning"], down: ["Down", "bad"] };
    const targets = status.upstreams.flatMap(({ name, targets }) =>
        targets.map(target => ({ ...target, upstream: name })));
    return section("upstreams", "Upstreams", { wide: true },
        table("upstreams", "In flight and idle count connections, waiting counts requests.", [
            column("Upstream", upstream => upstream.name),
            column("Health", upstream => upstream.health, upstream => {
                const [text, level] = health[upstream.health];
                return { text, level };
            }),
            ...traffic("Failed", upstream => upstream.requests), number("In flight", upstream => upstream.in_flight),
            number("Idle", upstream => upstream.idle),
            number("Waiting", upstream => upstream.pending, whole, ({ pending }) => pending > 0 ? "warning" : ""),
            number("Retries", upstream => upstream.retries_total),
        ], status.upstreams, { empty: "No upstreams are configured.", isSortable: true }),
        table("targets", "Only targets that are up or warming get requests.", [
            column("Target", target => target.address, ({ address, peer, upstream }) =>
                ({ text: address, note: peer, link: targetLink(upstream, address) })),
            column("Upstream", target => target.upstream), ...targetColumns,
        ], targets, {
            empty: "No targets are configured.", isSortable: true, filters: {
                "Not in use": ({ state }) => state !== "up" && state !== "warming",
                "With failures": target => target.last_failure,
            },
        }));
}

function identities(status) {
    const states = {
        up: { text: "Up", level: "good" }, down: { text: "Down", level: "bad" },
        stale: { text: "Unreachable", note: "earlier keys are used", level: "warning" },
    };
    const findings = status.identities.flatMap(({ name, findings = [] }) => findings.map(text => `${name}: ${text}`));
    return section("identities", "Identity providers", { wide: true, problems: findings }, table(
        "identities", `Logins of ${lastly(status)} and since start; logouts that the provider reported.`, [
            column("Provider", provider => provider.name, ({ name, issuer }) => ({ text: name, note: issuer })),
            column("State", provider => provider.state, ({ state }) => states[state] ?? { text: state }),
            number("Keys", provider => provider.keys),
            column("Fetched", provider => provider.keys_age_seconds, provider => ({
                ...(provider.keys_age_seconds === undefined ? { text: "Never", level: "quiet" }
                    : { text: ago(provider.keys_age_seconds) }),
                note: provider.skipped_keys ? `${provider.skipped_keys} unusable` : null,
            })),
            number("Logins", provider => provider.logins_recent),
            number("Failed", provider => provider.logins_failed_recent, whole,
                provider => provider.logins_failed_recent > 0 ? "warning" : ""),
            number("Since start", provider => provider.logins_total),
            number("Logouts", provider => provider.logouts_total),
            lastFailure(failure => `${failure.reason}; ${failure.remedy}`),
        ], status.identities, { isSortable: true }));
}

const identityCalls = status => section("identity-calls", "Failed identity calls", { wide: true }, table(
    "identity-calls", "Calls that sign users in, refresh or revoke tokens; latest first, at most 20.", [
        column("Call", call => words(call.call), call =>
            ({ text: words(call.call), note: `${call.method} ${call.server}${call.path}` })),
        column("Upstream", call => call.upstream ?? call.identity, call =>
            ({ text: call.upstream ?? call.identity ?? unknown, note: call.upstream ? null : "provider" })),
        column("Status", call => call.status, call =>
            call.status ? { text: call.status } : { ...none, note: "no response" }),
        column("Reason", call => words(call.reason), call =>
            ({ text: words(call.reason), style: "prose", note: call.hint })),
        column("Key", call => call.key, ({ key, expected, found }) => {
            const parts = [expected && `expected ${expected}`, found && `found ${found.join(", ")}`];
            return key ? { text: key, style: "prose", note: parts.filter(Boolean).join("; ") }
                : { text: unknown, level: "quiet" };
        }),
        number("Duration", call => call.duration_ms, milliseconds),
        column("Time", call => call.at, call => ({ text: time(call.at), note: ago(call.seconds_ago) })),
    ], status.identity_call_failures, { isSortable: true }));

// Outcomes without occurrences are omitted.
const outcomes = (id, title, caption, rows, failing, empty) => section(id, title, {}, table(id, caption, [
    column("Outcome", row => words(row.outcome)),
    number("Recent", row => row.recent, whole, row => row.recent > 0 && failing.includes(row.outcome) ? "warning" : ""),
    latency("p50_ms", row => row.latency), latency("p95_ms", row => row.latency), total,
], rows.filter(row => row.total > 0), { empty }));

const counts = (id, caption, name, rows, level, empty) => table(
    id, caption, [column(name, row => words(row.kind)), recent(level), total],
    rows.filter(row => row.total > 0), { empty });

const sessions = ({ active, created_total: created, ended, ...own }) => section("sessions", "Sessions", {
    facts: [
        { name: "Active", value: active === undefined ? "Known only to the store’s server" : whole(active) },
        { name: "Created since start", value: whole(created) },
        ...(own.apps ?? []).map(row => ({ name: `Created by app ${row.app}`, value: whole(row.created_total) })),
        ...own.bound_total ? [{ name: "Bound to a device since start", value: whole(own.bound_total) }] : [],
        { name: "Ended since start", value: whole(ended.reduce((sum, { total }) => sum + total, 0)) },
    ],
}, table("sessions", "Ended, by reason.", [column("Reason", row => words(row.reason)), total],
    ended.filter(row => row.total > 0), { empty: "No ended sessions yet." }));

function store({ kind, up, operations, errors }) {
    const state = up === undefined ? { value: "Not tried yet", level: "quiet" }
        : up ? { value: "Up", level: "good" } : { value: "Down", note: "unreachable", level: "bad" };
    const requests = operation => operation.requests;
    return section("store", "Session store", { facts: [{ name: "Kind", value: kind }, { name: "State", ...state }] },
        // Without failures the table would only take space.
        errors.length ? table("store-errors", "Failures of the store by reason.", [
            column("Reason", error => words(error.reason)),
            column("What to do", error => error.hint, ({ hint }) => ({ text: hint, style: "prose" })),
            recent("bad"), total,
        ], errors, {}) : null,
        table("store", "Store operations.", [
            column("Operation", ({ operation }) => words(operation)),
            // The percentile between 50 and 99 would make the table too wide.
            ...traffic("Failed", requests).slice(0, 4), number("Since start", row => row.requests.total),
        ], operations.filter(({ requests }) => requests.total > 0), {
            empty: kind === "memory" ? "Operations of the memory store are not measured." : "No operations yet.",
        }));
}

const certificates = status => section("certificates", "Certificates", {}, table(
    "certificates", "Earliest expiry first.", [
        column("Names", ({ names }) => names.join(", "), ({ names, file }) =>
            ({ text: names.join(", ") || "No names", note: file })),
        column("Expires", certificate => certificate.not_after, ({ days_left: days, not_after: end }) => ({
            text: days < 0 ? "Expired" : days === 0 ? "Today" : `In ${count(days, "day")}`, note: time(end),
            level: days <= 0 ? "bad" : days < certificateDays ? "warning" : "",
        })),
        column("Listener", ({ listener }) => listener, ({ listener }) => ({ text: listener, style: "whole" })),
    ], status.certificates, { empty: "No listener has a certificate: all connections are unencrypted." }));

function configuration({ file, hash, loaded_at: loaded, last_reload: reload }) {
    let result = { value: "None since start", level: "quiet" };
    if (reload) result = reload.succeeded ? { value: "Succeeded", level: "good" } : { value: "Rejected", level: "bad" };
    return section("configuration", "Configuration", {
        facts: [
            { name: "File", value: file ?? "None" }, { name: "Hash", value: hash },
            { name: "In effect since", value: time(loaded) },
            { name: "Last reload", ...result, note: reload && time(reload.at) },
        ],
        problems: reload?.problems,
    });
}

const readiness = checks => section("readiness", "Readiness", {}, table("readiness", "Readiness checks.", [
    column("Check", check => check.name),
    column("Result", check => check.ready, ({ ready }) =>
        ready ? { text: "OK", level: "good" } : { text: "Failed", level: "bad" }),
    column("Reason", check => check.detail, ({ detail }) => ({ text: detail ?? "", style: "prose" })),
], checks, { empty: "No checks are configured." }));

const telemetry = status => section("telemetry", "Drops and rejections", {},
    counts("drops", "Dropped telemetry, by signal.", "Signal", status.telemetry_drops, "warning",
        "No telemetry was dropped."),
    counts("rejections", "Rejected messages and connections, by reason.", "Reason", status.wire_rejections, "",
        "No malformed requests."));

// Pages. A page has a heading, alerts, figures, a trend or the reason why there is none, and sections.

const figure = {
    perSecond: requests => ({
        name: "Requests per second", value: rate(requests.per_second),
        note: requests.recent ? count(requests.recent, "request") : "no requests",
    }),
    failed: (name, requests) => ({
        name, value: failed(requests), note: requests.recent ? "of all requests" : null, level: level(requests),
    }),
    percentile: (number, { latency }) => {
        const name = `p${number}_ms`;
        const samples = latency?.too_few?.includes(name) ? latency.samples_ms : null;
        return {
            name: `${number}th percentile`, value: percentile(latency, name),
            note: samples ? `${count(samples.length, "request")}: ${samples.map(milliseconds).join(", ")}`
                : "of response times",
        };
    },
};

function gatewayPage(status) {
    const { traffic, concerns: { length: alerts }, sessions: { active } } = status;
    const sum = key => status.upstreams.reduce((sum, upstream) => sum + upstream[key], 0);
    const waiting = sum("pending");
    const isCritical = status.concerns.some(({ severity }) => severity === "critical");
    const [meaning, level] = {
        ready: alerts ? [`Ready for traffic, ${count(alerts, "alert")}.`, isCritical ? "bad" : "warning"]
            : ["OK: no alerts.", "good"],
        not_ready: ["Send no traffic to this instance.", "bad"],
        draining: ["In-flight requests complete, new connections are refused.", "warning"],
    }[status.state];
    return {
        state: status.headline, meaning, level, alerts: status.concerns, trend: trends(status.trends[0]),
        figures: [
            figure.perSecond(traffic), figure.failed("Failed (5xx)", traffic), figure.percentile(95, traffic), {
                name: "In flight upstream", value: whole(sum("in_flight")),
                note: waiting ? `${whole(waiting)} waiting` : "none waiting", level: waiting ? "warning" : "",
            }, {
                name: "Sessions", value: active === undefined ? unknown : whole(active),
                note: active === undefined ? "known to the store’s server" : "active now",
            },
        ],
        sections: [
            routes(status), upstreams(status),
            status.recent_failures.length ? failures([
                column("Route", row => row.route, ({ route }) => ({ text: route, link: routeLink(route) })),
                ...failureColumns,
            ], status.recent_failures) : null,
            status.identities.length ? identities(status) : null,
            status.identity_call_failures.length ? identityCalls(status) : null,
            outcomes("sign-ins", "Sign-ins", "By outcome.", status.sign_ins,
                ["upstream_error", "store_error", "misconfigured"], "No sign-ins yet."),
            sessions(status.sessions),
            outcomes("refreshes", "Token refreshes", "By outcome. Coalesced: another replica refreshed first.",
                status.refreshes, ["transient", "lease_timeout", "misconfigured", "rejected"],
                "No token refreshes yet."),
            store(status.store), certificates(status), configuration(status.config), readiness(status.readiness),
            telemetry(status),
        ],
    };
}

// The page of one route, or of one target of an upstream.
function detailPage(status) {
    const [route, upstream, address] = ["route", "upstream", "target"].map(name => query.get(name));
    const state = route === null ? `Target ${address}` : `Route ${route}`;
    const { details } = status;
    if (!details) return { state, meaning: "There is none of this name, or it had no requests yet.", level: "warning" };
    const { requests } = details;
    const isFailing = requests.error_share > 0;
    const condition = isFailing ? `${failed(requests)} of the requests failed` : "OK: no failures";
    const own = status.routes.find(({ name }) => name === route);
    const subject = route === null ? `Upstream ${upstream}. ` : own?.serves ? `${own.serves}. ` : "";
    const addresses = status.upstreams.filter(({ name }) => name === upstream)
        .flatMap(({ targets }) => targets).filter(target => target.address === address);
    const events = { connect: "Connection attempt", check: "Health check", ejection: "Ejection" };
    return {
        state, level: level(requests) || "good",
        meaning: `${subject}${condition} in ${lastly(status)}.`,
        trend: details.trend_kept ? trends(details.trend) : element("p", { class: "empty" },
            "Not kept: there are too many routes and targets. Failures and figures are complete."),
        figures: [
            figure.perSecond(requests), figure.failed("Failed", requests), figure.percentile(50, requests),
            figure.percentile(99, requests),
            own ? { name: "401", value: whole(own.unauthorized_recent), note: "session needed" } : null,
        ].filter(Boolean),
        sections: [failures(failureColumns, details.failures), ...(route === null ? [
            section("addresses", "State", { wide: true }, table(
                "addresses", "By address. Only addresses that are up or warming get requests.",
                [column("Address", target => target.peer ?? target.address), ...targetColumns], addresses, {})),
            section("events", "Connections and checks", {}, table("events", "Since start.", [
                column("Event", event => events[event.kind]), column("Outcome", event => words(event.outcome)),
                number("Count", event => event.total),
            ], details.events, { empty: "No connection attempts yet." })),
        ] : [
            section("responses", "Responses", {}, table("responses", "By status, since start.", [
                column("Status", response => response.status ?? "None"),
                number("Responses", response => response.total),
            ], details.responses, { empty: "No responses yet." })),
        ])],
    };
}

// Where an alert leads to.
const anchors = {
    not_ready: "readiness", reload_failed: "configuration", upstream: "upstreams", identity: "identities",
    certificate: "certificates", route: "routes", sign_ins: "sign-ins", refreshes: "refreshes", store: "store",
    telemetry: "telemetry", connections: "readiness",
};

const alerts = alerts => element("section", { id: "alerts", class: "wide alerts" }, element("h2", {}, "Alerts"),
    element("ul", {}, alerts.map(({ kind, severity, text }) => element("li", {}, element(
        "a", { href: `#${anchors[kind]}`, class: severity === "critical" ? "bad" : "warning" },
        element("b", {}, severity === "critical" ? "Problem" : "Warning"), " ", element("span", {}, text))))));

const isDetail = query.has("route") || query.has("target");
let last = null;
let isPaused = false;

const header = (page, { process, generated_at: generated }) => element("header", { class: page.level },
    element("div", { class: "column" },
        element("p", { class: "brand" }, element("a", { href: "./" }, "Cloakroom"), ` ${process.version} `,
            element("span", { class: "commit" }, process.commit)),
        element("h1", {}, element("span", { class: "light", "aria-hidden": "true" }), page.state),
        element("p", { class: "meaning" }, page.meaning),
        element("p", { class: "now" }, `Up ${duration(process.uptime_seconds)} · as of `,
            element("time", {}, time(generated))),
        element("p", { class: "links" },
            isDetail ? [element("a", { href: "./" }, "All routes and targets"), " "] : null,
            element("button", { id: "pause" }, isPaused ? "Continue" : "Pause"), " ",
            element("a", { href: "status.json" }, "JSON"), " ", element("a", { href: "metrics" }, "Metrics"))));

const glance = (figures, status) => element("section", { id: "glance", class: "wide bare" },
    element("h2", {}, `The last ${duration(status.window_seconds)}`),
    element("dl", { class: "figures" }, figures.map(field)));

function draw() {
    const page = isDetail ? detailPage(last) : gatewayPage(last);
    document.title = `${readable(page.state)} · Cloakroom`;
    showIcon({ bad: "c4162a", warning: "b7791f", good: "1a7f45" }[page.level]);
    update(document.querySelector("header"), header(page, last));
    update(document.querySelector("main"), element("main", { class: "column" },
        page.alerts?.length ? alerts(page.alerts) : null, page.figures ? glance(page.figures, last) : null,
        page.trend ? section("trends", "Trends", { wide: true }, page.trend) : null, page.sections));
}

// The favicon: a dot in the colour of the state.
function showIcon(color) {
    const picture = `<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'>
        <circle cx='8' cy='8' r='7' fill='#${color}'/></svg>`;
    document.querySelector("link[rel=icon]").href = "data:image/svg+xml," + encodeURIComponent(picture);
}

// Old figures must not look like the present: the page states since when they are old, without a colour of health.
function showFailure(error) {
    const since = last ? ` The figures are of ${time(last.generated_at)}.` : "";
    const notice = document.querySelector("#old");
    notice.textContent = readable(`status.json cannot be read (${error.message}).${since}`);
    notice.hidden = false;
    document.body.className = "old";
    document.title = "No current figures · Cloakroom";
    showIcon("808080");
}

async function refresh() {
    const subject = ["route", "upstream", "target"].filter(name => query.has(name))
        .map(name => `${name}=${encodeURIComponent(query.get(name))}`).join("&");
    try {
        const response = await fetch(`${base}status.json?${subject}`, { signal: AbortSignal.timeout(10_000) });
        if (!response.ok) throw new Error(`status ${response.status}`);
        last = await response.json();
        document.querySelector("#old").hidden = true;
        document.body.className = "";
        draw();
    } catch (error) {
        showFailure(error);
    }
}

async function run() {
    if (!isPaused) await refresh();
    setTimeout(run, interval);
}

document.addEventListener("click", event => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.id === "pause") isPaused = !isPaused;
    const { name, value } = button.dataset;
    if (value) query.set(name, value);
    else if (name) query.delete(name);
    history.replaceState(null, "", `?${query}${location.hash}`);
    if (last) draw();
});

run().then(() => document.getElementById(location.hash.slice(1))?.scrollIntoView());
