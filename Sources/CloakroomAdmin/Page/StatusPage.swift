import Mustache

/// The status document as HTML without scripts, rendered for each request. Shows only the content of
/// ``StatusDocument``.
///
/// Folder `Page/`: renders the status document as HTML.
struct StatusPage {
    let title: String
    let icon: String
    let level: String
    let state: String
    /// The explanation of the state.
    let meaning: String
    let alerts: [Alert]
    let hasAlerts: Bool
    let version: String
    let commit: String
    let generatedAt: String
    let uptime: String
    /// The heading of the figures.
    let glance: String
    /// The link to the whole page.
    let home: String
    /// Whether it is the page of one route or target.
    let isDetail: Bool
    let isRefreshing: Bool
    /// The refresh interval in seconds; 0 if the page does not refresh.
    let interval: Int
    let refreshLinks: [StatusLink]
    let figures: [StatusField]
    let charts: [StatusTrendChart]
    /// Instead of charts: why there are none; empty if there are charts.
    let trendNote: String
    let hasTrend: Bool
    let sections: [StatusSection]

    struct Alert {
        let word: String
        let style: String
        let text: String
        let anchor: String
    }

    /// The page of the whole gateway.
    /// - Parameters:
    ///   - trend: The trend of the whole gateway.
    ///   - query: The sort order, the filters and the refresh interval.
    init(_ document: StatusDocument, trend: StatusTrend = StatusTrend(), query: StatusQuery = StatusQuery()) {
        let identities = document.identities.isEmpty ? [] : [Self.identities(document)]
        self.init(
            document, State(document), alerts: document.alerts, figures: Self.figures(document),
            charts: StatusTrendChart.all(trend),
            sections: [Self.routes(document, query), Self.upstreams(document, query)]
                + (document.recentFailures.isEmpty ? [] : [Self.recentFailures(document, query)]) + identities
                + (document.identityCallFailures.isEmpty ? [] : [Self.identityCalls(document)]) + [
                    Self.signIns(document), Self.sessions(document), Self.refreshes(document), Self.store(document),
                    Self.certificates(document), Self.config(document),
                    Self.readiness(document), Self.telemetry(document),
                ], refresh: query.refresh, home: query.link(), isDetail: false
        ) { interval in query.with { $0.refresh = interval }.link() }
    }

    init(
        _ document: StatusDocument, _ state: State, alerts: [StatusAlert], figures: [StatusField],
        charts: [StatusTrendChart], trendNote: String = "", sections: [StatusSection], refresh: Int?, home: String,
        isDetail: Bool = true,
        link: (_ refresh: Int?) -> String
    ) {
        title = "\(state.word) · Cloakroom"
        icon = state.icon
        level = state.level.rawValue
        self.state = state.word
        meaning = state.meaning
        self.alerts = alerts.map { alert in
            let isCritical = alert.severity == .critical
            return Alert(
                word: isCritical ? "Problem" : "Warning", style: isCritical ? "bad" : "warning", text: alert.text,
                anchor: "#" + Self.anchor(of: alert.kind))
        }
        hasAlerts = !alerts.isEmpty
        version = document.process.version
        commit = document.process.commit
        generatedAt = StatusFormatter.readable(document.generatedAt)
        uptime = StatusFormatter.duration(seconds: document.process.uptimeSeconds)
        glance = "The last \(Self.window(document))"
        self.home = home
        self.isDetail = isDetail
        isRefreshing = refresh != nil
        interval = refresh ?? 0
        refreshLinks =
            [StatusLink(refresh == nil ? "Now" : "Stop", link(nil))]
            + StatusQuery.intervals.map { StatusLink("\($0) s", link($0), isCurrent: $0 == refresh) }
        self.figures = figures
        self.charts = charts
        self.trendNote = trendNote
        hasTrend = trendNote.isEmpty
        self.sections = sections
    }

    /// The page; `nil` if the template is invalid, which a test excludes.
    func html() -> String? {
        Self.template?.render(self)
    }

    private static let template: MustacheTemplate? = {
        HTMLEscaping.register()
        return try? MustacheTemplate(string: templateText)
    }()

    /// The heading, with its style.
    struct State {
        let word: String
        let meaning: String
        let level: StatusLevel

        init(word: String, meaning: String, level: StatusLevel) {
            self.word = word
            self.meaning = meaning
            self.level = level
        }

        /// The state of the gateway.
        init(_ document: StatusDocument) {
            switch document.state {
            case .ready:
                word = "Serving traffic"
                let count = StatusFormatter.count(Int64(document.alerts.count), "alert", "alerts")
                meaning = document.alerts.isEmpty ? "OK: no alerts." : "\(count)."
                level = document.alerts.isEmpty ? .good : .warning
            case .notReady:
                word = "Not ready"
                meaning = "Send no traffic to this instance."
                level = .bad
            case .draining:
                word = "Draining"
                meaning = "Draining: in-flight requests complete, new connections are refused."
                level = .warning
            }
        }

        /// The favicon: a dot in the colour of the state.
        var icon: String {
            let color =
                switch level {
                case .bad: "c4162a"
                case .warning: "b7791f"
                default: "1a7f45"
                }
            return "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
                + "%3Ccircle cx='8' cy='8' r='7' fill='%23\(color)'/%3E%3C/svg%3E"
        }
    }

    /// The section with details.
    private static func anchor(of kind: StatusAlert.Kind) -> String {
        switch kind {
        case .notReady: "readiness"
        case .reloadFailed: "configuration"
        case .upstream: "upstreams"
        case .identity: "identities"
        case .certificate: "certificates"
        case .route: "routes"
        case .signIns: "sign-ins"
        case .refreshes: "refreshes"
        case .store: "store"
        case .telemetry: "telemetry"
        case .connections: "readiness"
        }
    }
}
