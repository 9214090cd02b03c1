extension StatusPage {
    /// Names with a leading dot are looked up only in the innermost context, so that missing values are not taken from
    /// an outer one.
    static let templateText = """
        {{% CONTENT_TYPE:\(HTMLEscaping.name)}}<!doctype html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <meta name="color-scheme" content="light dark">
        <title>{{title}}</title>
        <link rel="icon" href="{{icon}}">
        <link rel="stylesheet" href="status.css">
        </head>
        <body>
        <header class="{{level}}">
        <div class="column">
        <p class="brand"><a href="{{home}}">Cloakroom</a> {{version}} <span class="commit">{{commit}}</span></p>
        <h1><span class="light" aria-hidden="true"></span>{{state}}</h1>
        <p class="meaning">{{meaning}}</p>
        <p class="now">Up {{uptime}} · as of <time>{{generatedAt}}</time></p>
        <p class="links">{{#isDetail}}<a href="{{home}}">All routes and targets</a> {{/isDetail}}{{#isRefreshing}}<span>Refreshes every {{interval}} s</span>{{/isRefreshing}}\
        {{^isRefreshing}}<span>Refresh</span>{{/isRefreshing}} {{#refreshLinks}}\
        <a href="{{.href}}"{{#.isCurrent}} aria-current="true"{{/.isCurrent}}>{{.text}}</a> {{/refreshLinks}}\
        <a href="status.json">JSON</a> <a href="metrics">Metrics</a></p>
        </div>
        </header>
        <main class="column">
        {{#hasAlerts}}
        <section id="alerts" class="wide alerts">
        <h2>Alerts</h2>
        <ul>
        {{#alerts}}
        <li><a href="{{.anchor}}" class="{{.style}}"><b>{{.word}}</b> <span>{{.text}}</span></a></li>
        {{/alerts}}
        </ul>
        </section>
        {{/hasAlerts}}
        <section id="glance" class="wide bare">
        <h2>{{glance}}</h2>
        <dl class="figures">
        {{#figures}}
        <div class="{{.style}}"><dt>{{.name}}</dt><dd>{{.value}}{{#.note}}<small>{{.}}</small>{{/.note}}</dd></div>
        {{/figures}}
        </dl>
        </section>
        <section id="trends" class="wide">
        <h2>Trends</h2>
        {{#hasTrend}}
        <dl class="trends">
        {{#charts}}
        <div><dt>{{.name}} <b>{{.latest}}</b></dt>{{#.lines}}<dd>\
        {{#.hasPath}}<svg role="img" aria-label="{{.label}}" viewBox="0 -4 600 108" preserveAspectRatio="none">\
        <path d="{{.path}}" vector-effect="non-scaling-stroke"/></svg>{{/.hasPath}}\
        {{^.hasPath}}<span class="empty">No values yet.</span>{{/.hasPath}}\
        <small>{{.period}} · highest {{.highest}}</small></dd>{{/.lines}}</div>
        {{/charts}}
        </dl>
        {{/hasTrend}}
        {{^hasTrend}}
        <p class="empty">{{trendNote}}</p>
        {{/hasTrend}}
        </section>
        {{#sections}}
        <section id="{{.id}}" class="{{.style}}">
        <h2>{{.title}}</h2>
        {{#.hasFacts}}
        <dl class="facts">
        {{#.facts}}
        <div class="{{.style}}"><dt>{{.name}}</dt><dd>{{.value}}{{#.note}}<small>{{.}}</small>{{/.note}}</dd></div>
        {{/.facts}}
        </dl>
        {{/.hasFacts}}
        {{#.hasProblems}}
        <ul class="complaints">
        {{#.problems}}
        <li>{{.}}</li>
        {{/.problems}}
        </ul>
        {{/.hasProblems}}
        {{#.tables}}
        {{#.hasFilters}}
        <p class="filters">{{#.filters}}<a href="{{.href}}"{{#.isCurrent}} aria-current="true"{{/.isCurrent}}>\
        {{.text}}</a> {{/.filters}}</p>
        {{/.hasFilters}}
        {{#.hasRows}}
        <div class="scroll" role="region" tabindex="0" aria-labelledby="{{.id}}">
        <table role="table" class="{{.style}}">
        <caption id="{{.id}}"><span>{{.caption}}</span></caption>
        <thead role="rowgroup"><tr role="row">{{#.columns}}<th role="columnheader" scope="col" class="{{.style}}"\
        {{#.sort}} aria-sort="{{.}}"{{/.sort}}>{{#.link}}<a href="{{.}}">{{/.link}}{{.text}}{{#.link}}</a>{{/.link}}\
        </th>{{/.columns}}</tr></thead>
        <tbody role="rowgroup">
        {{#.rows}}
        <tr role="row"><th role="rowheader" scope="row">{{#.link}}<a href="{{.}}">{{/.link}}{{.name}}\
        {{#.link}}</a>{{/.link}}{{#.note}}<small>{{.}}</small>{{/.note}}</th>{{#.cells}}\
        <td role="cell" class="{{.style}}" data-label="{{.label}}"><span>{{.text}}</span>\
        {{#.note}}<small>{{.}}</small>{{/.note}}</td>{{/.cells}}</tr>
        {{/.rows}}
        </tbody>
        </table>
        </div>
        {{/.hasRows}}
        {{^.hasRows}}
        <p class="empty">{{.empty}}</p>
        {{/.hasRows}}
        {{/.tables}}
        </section>
        {{/sections}}
        </main>
        </body>
        </html>

        """
}
