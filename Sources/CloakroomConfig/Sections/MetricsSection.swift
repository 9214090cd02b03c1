import CloakroomCore

extension MetricsConfiguration: ConfigSection {
    /// `telemetry`.
    static let keys: [Key<Self>] = [
        Key("buckets", \.buckets, .restart) { $1.buckets = $0.list("buckets", as: .bucketBound, default: $1.buckets) }
    ]

    /// There are at most 31 bounds, in ascending order.
    func check(_ scope: ConfigScope) {
        guard !scope.isInvalid("buckets") else { return }
        if buckets.count > Self.maxBuckets {
            scope.report(
                "must have at most \(Self.maxBuckets) bounds, not \(buckets.count)",
                "each bound is a line of every histogram in a scrape: leave some out", at: "buckets")
        }
        for index in buckets.indices.dropFirst() where buckets[index] <= buckets[index - 1] {
            let render = ValueFormat<Double>.bucketBound.render
            scope.report(
                "must be in ascending order: \(render(buckets[index])) follows \(render(buckets[index - 1]))",
                "sort the bounds, and write each one once", at: "buckets", item: index)
        }
    }
}

extension ValueFormat where Value == Double {
    /// The upper bound of a bucket, in seconds.
    static let bucketBound = ValueFormat("number of seconds, 0.00001 to 3600", render: text) {
        text throws(ConfigValueError) in
        let isDecimal = text.utf8.allSatisfy { (0x30...0x39).contains($0) || $0 == 0x2e }
        guard isDecimal, let bound = Double(text) else {
            throw ConfigValueError(
                "must be a number of seconds, not \(text.quoted)", "write 0.005 for 5 ms, without a unit")
        }
        try require(
            MetricsConfiguration.bucketRange.contains(bound), "must be in the allowed range, not \(text)",
            "write 0.00001 to 3600 seconds")
        return bound
    }

    /// The shortest text, which for 0.00001 is 1e-05 otherwise.
    private static func text(_ bound: Double) -> String {
        guard bound < 0.0001 else { return bound == bound.rounded() ? String(Int(bound)) : bound.description }
        let digits = String(Int((bound * 1e9).rounded()))
        let fraction = String(repeating: "0", count: max(0, 9 - digits.count)) + digits
        return "0." + fraction.reversed().drop { $0 == "0" }.reversed()
    }
}
