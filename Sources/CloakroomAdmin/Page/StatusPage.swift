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
    let window: String
    let isRefreshing: Bool
    let interval: Int
    let figures: [StatusField]
    let charts: [StatusTrendChart]
    let sections: [StatusSection]

    struct Alert {
        let word: String
        let style: String
        let text: String
        let anchor: String
    }

    /// The refresh interval of an auto-refreshing page, in seconds.
    static let refreshInterval = 10

    /// - Parameters:
    ///   - trend: The trend of the whole gateway.
    ///   - isRefreshing: Whether the page refreshes automatically.
    init(_ document: StatusDocument, trend: StatusTrend = StatusTrend(), isRefreshing: Bool = false) {
        let state = State(document)
        title = "\(state.word) · Cloakroom"
        icon = state.icon
        level = state.level.rawValue
        self.state = state.word
        meaning = state.meaning
        alerts = document.alerts.map { alert in
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
        window = Self.window(document)
        self.isRefreshing = isRefreshing
        interval = Self.refreshInterval
        figures = Self.figures(document)
        charts = StatusTrendChart.all(trend)
        let identities = document.identities.isEmpty ? [] : [Self.identities(document)]
        sections =
            [Self.routes(document), Self.upstreams(document)] + identities + [
                Self.signIns(document), Self.sessions(document), Self.refreshes(document), Self.store(document),
                Self.certificates(document), Self.config(document),
                Self.readiness(document), Self.telemetry(document),
            ]
    }

    /// The page; `nil` if the template is invalid, which a test excludes.
    func html() -> String? {
        Self.template?.render(self)
    }

    private static let template: MustacheTemplate? = {
        HTMLEscaping.register()
        return try? MustacheTemplate(string: templateText)
    }()

    /// The state in one word, with its style.
    private struct State {
        let word: String
        let meaning: String
        let level: StatusLevel

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
        }
    }
}
