/// A line without axes, drawn as inline SVG: the shape of one value over time. All attributes are numbers and texts of
/// the gateway, so the page's Content-Security-Policy needs no exception.
struct StatusSparkline {
    /// The period: `15 min`, `24 h`.
    let period: String
    /// The description for readers who do not see the line.
    let label: String
    /// The attribute `d` of the path; empty without values.
    let path: String
    let hasPath: Bool
    /// The highest value.
    let highest: String

    static let width = 600
    static let height = 100

    /// - Parameters:
    ///   - values: Oldest first; `nil` interrupts the line.
    ///   - slots: The number of values of a full period. Fewer are drawn at the right.
    init(_ name: String, _ period: String, _ values: [Float?], slots: Int, format: (Double) -> String) {
        self.period = period
        let known = values.compactMap { $0 }
        guard let highest = known.max(), let lowest = known.min() else {
            path = ""
            hasPath = false
            self.highest = StatusFormatter.unknown
            label = "\(name), last \(period): no values yet"
            return
        }
        self.highest = format(Double(highest))
        label = "\(name), last \(period): lowest \(format(Double(lowest))), highest \(format(Double(highest)))"
        let path = Self.path(values, slots: slots, highest: highest)
        self.path = path
        hasPath = !path.isEmpty
    }

    private static func path(_ values: [Float?], slots: Int, highest: Float) -> String {
        let values = values.suffix(slots)
        var path = ""
        var isDrawing = false
        for (offset, value) in values.enumerated() {
            guard let value, value.isFinite else {
                isDrawing = false
                continue
            }
            let x = (slots - values.count + offset) * width / max(slots - 1, 1)
            let share = highest > 0 ? min(max(value / highest, 0), 1) : 0
            let y = height - Int(share * Float(height))
            // A line of length 0 with round ends is a dot, which shows a single value.
            path += isDrawing ? "L\(x) \(y)" : "M\(x) \(y)l0 0"
            isDrawing = true
        }
        return path
    }
}

/// One value with its lines.
struct StatusTrendChart {
    let name: String
    /// The value of the last 10 s.
    let latest: String
    let lines: [StatusSparkline]

    /// - Parameter isLowerBound: Whether the value of a point is only a lower bound, which is marked by `>`.
    init(
        _ name: String, _ trend: StatusTrend, _ value: (StatusTrendPoint) -> Float?,
        isLowerBound: (StatusTrendPoint) -> Bool = { _ in false }, format formatNumber: (Double) -> String
    ) {
        self.name = name
        let bound = (trend.quarter + trend.day).filter(isLowerBound).compactMap(value).min() ?? .infinity
        func format(_ number: Double) -> String {
            (number >= Double(bound) ? ">\u{202F}" : "") + formatNumber(number)
        }
        latest = trend.quarter.last.flatMap(value).map { format(Double($0)) } ?? StatusFormatter.unknown
        lines = [
            StatusSparkline(
                name, "15 min", trend.quarter.map(value), slots: StatusTrends.quarterPoints, format: format),
            StatusSparkline(name, "24 h", trend.day.map(value), slots: StatusTrends.dayPoints, format: format),
        ]
    }

    /// The charts of a trend; connections only if they are known.
    static func all(_ trend: StatusTrend) -> [StatusTrendChart] {
        let charts = [
            StatusTrendChart("Requests per second", trend, { $0.perSecond }, format: StatusFormatter.rate),
            StatusTrendChart("Failed", trend, { $0.errorShare }, format: StatusFormatter.share),
            StatusTrendChart(
                "p50", trend, { $0.p50Milliseconds }, isLowerBound: { $0.isP50LowerBound },
                format: StatusFormatter.milliseconds),
            StatusTrendChart(
                "p99", trend, { $0.p99Milliseconds }, isLowerBound: { $0.isP99LowerBound },
                format: StatusFormatter.milliseconds),
        ]
        guard trend.quarter.last?.connections != nil else { return charts }
        return charts + [
            StatusTrendChart(
                "Upstream connections", trend, { $0.connections },
                format: { StatusFormatter.whole(UInt64(exactly: $0.rounded()) ?? 0) })
        ]
    }
}
