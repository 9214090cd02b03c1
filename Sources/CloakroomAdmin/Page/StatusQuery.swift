/// The choices of the operator in the query of the page: `?routes-sort=p99&refresh=10`. Only listed values have an
/// effect; all others are ignored, and no text of a query reaches a page.
struct StatusQuery: Equatable {
    enum RouteColumn: String, CaseIterable {
        case name, rate, failed, p50, p95, p99, unauthorized, total
    }

    enum RouteFilter: String, CaseIterable {
        case all, active, failing
    }

    enum TargetColumn: String, CaseIterable {
        case name, upstream, state, inflight
    }

    enum TargetFilter: String, CaseIterable {
        case all, unused, failed
    }

    /// A column to sort by. Names ascend and numbers descend, unless reversed.
    struct Order<Column: RawRepresentable & Equatable>: Equatable where Column.RawValue == String {
        var column: Column
        var isReversed = false

        init(_ column: Column, isReversed: Bool = false) {
            self.column = column
            self.isReversed = isReversed
        }

        init?(_ text: Substring) {
            let isReversed = text.hasPrefix("-")
            guard let column = Column(rawValue: String(isReversed ? text.dropFirst() : text)) else { return nil }
            self.init(column, isReversed: isReversed)
        }

        var text: String { (isReversed ? "-" : "") + column.rawValue }

        /// The order after a click on a column: the selected one is reversed.
        func selecting(_ other: Column) -> Order {
            Order(other, isReversed: column == other && !isReversed)
        }
    }

    /// The offered refresh intervals in seconds.
    static let intervals = [5, 10, 30, 60]
    /// More parameters are ignored.
    private static let maxParameters = 16

    /// The refresh interval in seconds; `nil` does not refresh.
    var refresh: Int?
    var routeOrder = Order(RouteColumn.rate)
    var routeFilter = RouteFilter.all
    /// `nil` is the order of the configuration.
    var targetOrder: Order<TargetColumn>?
    var targetFilter = TargetFilter.all

    init(_ query: String? = nil) {
        for parameter in (query ?? "").split(separator: "&").prefix(Self.maxParameters) {
            let parts = parameter.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { continue }
            let value = parts[1]
            switch parts[0] {
            case "refresh": refresh = Self.intervals.first { String($0) == value }
            case "routes-sort": routeOrder = Order(value) ?? routeOrder
            case "routes-show": routeFilter = RouteFilter(rawValue: String(value)) ?? .all
            case "targets-sort": targetOrder = Order(value)
            case "targets-show": targetFilter = TargetFilter(rawValue: String(value)) ?? .all
            default: break
            }
        }
    }

    /// The link to the page with these choices.
    func link(to anchor: String = "") -> String {
        var parameters: [String] = []
        if routeOrder != Order(.rate) { parameters.append("routes-sort=\(routeOrder.text)") }
        if routeFilter != .all { parameters.append("routes-show=\(routeFilter.rawValue)") }
        if let targetOrder { parameters.append("targets-sort=\(targetOrder.text)") }
        if targetFilter != .all { parameters.append("targets-show=\(targetFilter.rawValue)") }
        if let refresh { parameters.append("refresh=\(refresh)") }
        return "./" + (parameters.isEmpty ? "" : "?" + parameters.joined(separator: "&"))
            + (anchor.isEmpty ? "" : "#" + anchor)
    }

    /// The same with one change.
    func with(_ change: (inout StatusQuery) -> Void) -> StatusQuery {
        var query = self
        change(&query)
        return query
    }
}

extension StatusQuery {
    func selecting(_ routes: [StatusDocument.Route]) -> [StatusDocument.Route] {
        let shown = routes.filter { route in
            switch routeFilter {
            case .all: true
            case .active: route.requests.recent > 0
            case .failing: (route.requests.errorShare ?? 0) > 0
            }
        }
        func byNumber(_ key: (StatusDocument.Route) -> Double) -> [StatusDocument.Route] {
            shown.stablySorted { key($0) > key($1) }
        }
        let sorted =
            switch routeOrder.column {
            case .name: shown.stablySorted { $0.name < $1.name }
            // The document has this order.
            case .rate: shown
            case .failed: byNumber { $0.requests.errorShare ?? -1 }
            case .p50: byNumber { $0.requests.latency?.p50Ms ?? -1 }
            case .p95: byNumber { $0.requests.latency?.p95Ms ?? -1 }
            case .p99: byNumber { $0.requests.latency?.p99Ms ?? -1 }
            case .unauthorized: byNumber { Double($0.unauthorizedRecent) }
            case .total: byNumber { Double($0.requests.total) }
            }
        return routeOrder.isReversed ? sorted.reversed() : sorted
    }

    typealias NamedTarget = (upstream: String, target: StatusDocument.Upstream.Target)

    func selecting(_ targets: [NamedTarget]) -> [NamedTarget] {
        let shown = targets.filter { _, target in
            switch targetFilter {
            case .all: true
            case .unused: target.state != "up" && target.state != "warming"
            case .failed: target.lastFailure != nil
            }
        }
        guard let targetOrder else { return shown }
        let sorted =
            switch targetOrder.column {
            case .name: shown.stablySorted { $0.target.address < $1.target.address }
            case .upstream: shown.stablySorted { $0.upstream < $1.upstream }
            case .state: shown.stablySorted { $0.target.state < $1.target.state }
            case .inflight: shown.stablySorted { ($0.target.inFlight ?? -1) > ($1.target.inFlight ?? -1) }
            }
        return targetOrder.isReversed ? sorted.reversed() : sorted
    }
}

extension Array {
    /// Sorted; equal elements keep their order, which `sorted` does not guarantee.
    fileprivate func stablySorted(by precedes: (Element, Element) -> Bool) -> [Element] {
        enumerated().sorted { one, other in
            if precedes(one.element, other.element) { return true }
            if precedes(other.element, one.element) { return false }
            return one.offset < other.offset
        }.map(\.element)
    }
}
