// The parts of the status page: numbers and times, elements, tables and lines. status.js draws the page with them.
//
// Texts of clients, upstreams and providers are shown. They become text nodes and values of attributes, never markup:
// the Content-Security-Policy makes browsers reject an assignment to innerHTML.
"use strict";

// As in StatusAlert: the page marks a share that an alert reports.
const errorShare = 0.05;

const query = new URLSearchParams(location.search);
const unknown = "–";
const thin = "\u202f";

// Numbers and times, independent of the locale.

const whole = number => String(Math.round(number)).replace(/\B(?=(\d{3})+$)/g, thin);
const count = (number, one, many = one + "s") => `${whole(number)} ${number === 1 ? one : many}`;
const time = text => text.replace("T", " ").replace("Z", " UTC");
const words = text => text.replaceAll("_", " ");

function rate(perSecond) {
    if (perSecond <= 0) return "0";
    if (perSecond < 0.01) return "< 0.01";
    return perSecond < 100 ? perSecond.toFixed(perSecond < 1 ? 2 : 1) : whole(perSecond);
}

// Only exactly 0 and 1 are 0 % and 100 %.
function share(value) {
    const percent = value * 100;
    let text = Math.min(percent, 99.9).toFixed(percent < 10 || percent > 99 ? 1 : 0);
    if (percent <= 0) text = "0";
    else if (percent < 0.1) text = `<${thin}0.1`;
    else if (percent >= 100) text = "100";
    return `${text}${thin}%`;
}

function milliseconds(value) {
    if (value < 1_000) return `${value.toFixed(value < 10 ? 1 : 0)}${thin}ms`;
    return `${(value / 1_000).toFixed(value < 10_000 ? 2 : 0)}${thin}s`;
}

// The two largest units: `3 d 4 h`, `12 min 5 s`.
function duration(seconds) {
    const rest = Math.max(Math.round(seconds), 0);
    const parts = [[rest / 86_400, "d"], [rest / 3_600 % 24, "h"], [rest / 60 % 60, "min"], [rest % 60, "s"]];
    const first = parts.findIndex(([number]) => number >= 1);
    if (first < 0) return `0${thin}s`;
    return parts.slice(first, first + 2).filter(([number]) => number >= 1)
        .map(([number, unit]) => `${Math.floor(number)}${thin}${unit}`).join(" ");
}

const ago = seconds => `${duration(seconds)} ago`;
// A percentile of too few requests is the longest duration.
const percentile = (latency, name) => {
    if (!latency) return unknown;
    const mark = latency.at_least?.includes(name) ? `>${thin}` : latency.too_few?.includes(name) ? `≤${thin}` : "";
    return mark + milliseconds(latency[name]);
};
const failed = requests => requests.error_share === undefined ? unknown : share(requests.error_share);
const level = requests => requests.error_share >= errorShare ? "bad" : requests.error_share > 0 ? "warning" : "";
const lastly = status => `the last ${duration(status.window_seconds)}`;

// Elements.

// Control characters and bidirectional controls could disguise a line.
const readable = text => String(text)
    .replace(/[\0-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");

// A child is an element or a text; `null` is omitted, in children and in values of attributes.
function element(name, attributes, ...children) {
    const made = ["svg", "path"].includes(name)
        ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
        if (value != null && value !== "") made.setAttribute(key, readable(value));
    }
    const shown = children.flat(Infinity).filter(child => child != null && child !== "");
    made.append(...shown.map(child => child instanceof Node ? child : readable(child)));
    return made;
}

// Changes an element into a newly made one in place, so that focus, selection and scrolling survive.
function update(old, made) {
    if (old.isEqualNode(made)) return;
    if (old.nodeName !== made.nodeName || old.id !== made.id) return old.replaceWith(made);
    if (old instanceof Text) return void (old.data = made.data);
    for (const { name } of [...old.attributes]) if (!made.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of made.attributes) old.setAttribute(name, value);
    const children = [...made.childNodes];
    for (const child of [...old.childNodes].slice(children.length)) child.remove();
    children.forEach((child, index) => {
        if (index < old.childNodes.length) update(old.childNodes[index], child);
        else old.append(child);
    });
}

const small = note => note ? element("small", {}, note) : null;

const field = ({ name, value, note, level }) =>
    element("div", { class: level }, element("dt", {}, name), element("dd", {}, value, small(note)));

function section(id, title, { wide, facts = [], problems = [] }, ...content) {
    return element("section", { id, class: wide && "wide" }, element("h2", {}, title),
        facts.length ? element("dl", { class: "facts" }, facts.map(field)) : null,
        problems.length ? element("ul", { class: "complaints" }, problems.map(text => element("li", {}, text))) : null,
        content);
}

// Tables. A column has a title, the value of a row to sort by, and the cell of a row: text, note, level, style, link.

const column = (title, value, cell = row => ({ text: value(row) })) => ({ title, value, cell });

const number = (title, value, format = whole, level = () => "") => ({
    title, value, isNumber: true,
    cell: row => {
        const text = value(row) === undefined ? unknown : format(value(row), row);
        return { text, level: level(row) || (text === "0" || text === unknown ? "quiet" : "") };
    },
});

const traffic = (failures, requests) => [
    number("Per second", row => requests(row).per_second, rate),
    number(failures, row => requests(row).error_share, share, row => level(requests(row))),
    ...["p50_ms", "p95_ms", "p99_ms"].map(name => latency(name, row => requests(row).latency)),
];
const latency = (name, of) =>
    number(name.slice(0, 3), row => of(row)?.[name], (_, row) => percentile(of(row), name));
const recent = (level = "") =>
    number("Recent", row => row.recent, whole, row => row.recent > 0 ? level : "");
const total = number("Since start", row => row.total);

// A table with a choice of its rows and their order; both are in the address, which can be stored as a bookmark.
function table(id, caption, columns, rows, { empty, isSortable, filters = {} }) {
    const chosen = query.get(`${id}-show`);
    // Anything can be in the address, also a name that every object inherits.
    const isFilter = Object.hasOwn(filters, chosen);
    const shown = rows.filter(isFilter ? filters[chosen] : () => true);
    const choices = rows.length === 0 ? [] : ["All", ...Object.keys(filters)].map(name => element("button", {
        "data-name": `${id}-show`, "data-value": name === "All" ? "" : name,
        "aria-pressed": name === (isFilter ? chosen : "All"),
    }, name));
    const choice = choices.length > 1 ? element("p", { class: "filters" }, choices) : null;
    if (shown.length === 0) return [choice, element("p", { class: "empty" }, rows.length ? "No row matches." : empty)];
    const order = query.get(`${id}-sort`) ?? "";
    const [isReversed, sorted] = [order.startsWith("-"), columns.find(({ title }) => title === order.replace("-", ""))];
    if (sorted) {
        // Names ascend and numbers descend, unless reversed. Equal rows keep their order.
        const direction = (sorted.isNumber ? -1 : 1) * (isReversed ? -1 : 1);
        const [low, value] = [sorted.isNumber ? -1 : "", sorted.value];
        const compare = (a, b) => a < b ? -direction : a > b ? direction : 0;
        shown.sort((one, other) => compare(value(one) ?? low, value(other) ?? low));
    }
    const head = columns.map(column => element("th", {
        role: "columnheader", scope: "col", class: column.isNumber && "number",
        "aria-sort": column === sorted ? (!column.isNumber === isReversed ? "descending" : "ascending") : null,
    }, isSortable ? element("button", {
        "data-name": `${id}-sort`, "data-value": (column === sorted && !isReversed ? "-" : "") + column.title,
    }, column.title) : column.title));
    const body = shown.map(row => element("tr", { role: "row" }, columns.map((column, index) => {
        const { text, note, level, style, link } = column.cell(row);
        const content = [link ? element("a", { href: link }, text) : text, small(note)];
        if (index === 0) return element("th", { role: "rowheader", scope: "row" }, content);
        const classes = [column.isNumber && "number", level, style].filter(Boolean).join(" ");
        return element("td", { role: "cell", class: classes, "data-label": column.title },
            element("span", {}, content[0]), content[1]);
    })));
    return [choice, element("div", { class: "scroll", role: "region", tabindex: 0, "aria-labelledby": `${id}-caption` },
        element("table", { role: "table", class: isSortable && "sortable" },
            element("caption", { id: `${id}-caption` }, element("span", {}, caption)),
            element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, head)),
            element("tbody", { role: "rowgroup" }, body)))];
}

// Trends.

// A line without axes. Fewer values than a full period has are drawn at the right; `null` interrupts the line.
function sparkline(name, period, values, slots, format) {
    const known = values.filter(value => value !== null);
    if (known.length === 0) return element("dd", {}, element("span", { class: "empty" }, `${period}: no values yet`));
    const [lowest, highest] = [Math.min(...known), Math.max(...known)];
    let path = "";
    values.slice(-slots).forEach((value, index, drawn) => {
        if (value === null) return;
        const x = Math.floor((slots - drawn.length + index) * 600 / (slots - 1));
        const y = 100 - Math.floor(highest > 0 ? value / highest * 100 : 0);
        // A line of length 0 with round ends is a dot, which shows a single value.
        path += (drawn[index - 1] ?? null) === null ? `M${x} ${y}l0 0` : `L${x} ${y}`;
    });
    const label = `${name}, last ${period}: lowest ${format(lowest)}, highest ${format(highest)}`;
    return element("dd", {},
        element("svg", { role: "img", "aria-label": label, viewBox: "0 -4 600 108", preserveAspectRatio: "none" },
            element("path", { d: path, "vector-effect": "non-scaling-stroke" })),
        element("small", {}, `${period} · highest ${format(highest)}`));
}

function trends({ quarter_hour: quarter, day }) {
    const bound = Math.min(quarter.bound_ms ?? Infinity, day.bound_ms ?? Infinity);
    const bounded = value => (value >= bound ? `>${thin}` : "") + milliseconds(value);
    const charts = [
        ["Requests per second", "per_second", rate], ["Failed", "error_share", share], ["p50", "p50_ms", bounded],
        ["p99", "p99_ms", bounded], ["Upstream connections", "connections", whole],
    ];
    return element("dl", { class: "trends" }, charts.filter(([, key]) => quarter[key]).map(([name, key, format]) => {
        const latest = quarter[key].at(-1) ?? null;
        return element("div", {},
            element("dt", {}, `${name} `, element("b", {}, latest === null ? unknown : format(latest))),
            sparkline(name, "15 min", quarter[key], 900 / quarter.interval_seconds, format),
            sparkline(name, "24 h", day[key] ?? [], 86_400 / day.interval_seconds, format));
    }));
}
