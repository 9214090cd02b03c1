import Foundation

/// The prediction for a demand, as text and as JSON.
struct CapacityReport: Sendable {
    private let model: CapacityModel

    init(_ model: CapacityModel) {
        self.model = model
    }

    private struct Document: Encodable {
        var rates: CapacityRates
        var hitRatio: Double
        var gateway: CapacityNeed
        var shard: CapacityNeed
        var advice: [String]
    }

    /// The report as one JSON document with a line break at its end. Rates are per second.
    func json() throws -> String {
        let document = Document(
            rates: model.rates, hitRatio: model.hitRatio, gateway: model.gateway, shard: model.shard, advice: advice)
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        return String(decoding: try encoder.encode(document), as: UTF8.self) + "\n"
    }

    /// Tables of rates and of what each process needs, then advice.
    var text: String {
        let rates = model.rates
        let operations = [
            ("requests", rates.requests), ("  not cached", rates.lookUps), ("sign-ins", rates.signIns),
            ("sign-outs", rates.signIns), ("refreshes", rates.refreshes), ("uses written", rates.touches),
        ]
        var lines = ["operations per second"]
        lines += operations.map { Self.padded("  " + $0, 18) + Self.leading(Self.number($1), 10) }
        lines += [
            "",
            Self.padded("", 18)
                + ["cores", "memory", "to servers", "from servers"].map { Self.leading($0, 14) }.joined(),
        ]
        lines.append(row("each gateway of \(model.demand.gateways)", model.gateway))
        lines.append(row("each shard of \(model.demand.shards)", model.shard))
        if !advice.isEmpty { lines += [""] + advice }
        return lines.joined(separator: "\n") + "\n"
    }

    private func row(_ name: String, _ need: CapacityNeed) -> String {
        let cells = [
            String(format: "%.2f", need.cores), Self.size(need.memoryBytes), Self.size(need.bytesToServers) + "/s",
            Self.size(need.bytesFromServers) + "/s",
        ]
        return Self.padded(name, 18) + cells.map { Self.leading($0, 14) }.joined()
    }

    /// What the figures mean for the configuration.
    var advice: [String] {
        let demand = model.demand
        var advice: [String] = []
        // A server runs all commands in one thread.
        if model.shard.cores > 0.5 {
            let enough = Int(model.shards(busyFor: 0.5).rounded(.up))
            let most = CapacityDemand.mostShards
            advice.append(
                "A shard is busy for more than half of the time of its one thread: "
                    + (enough <= most
                        ? "use \(enough) shards."
                        : "\(enough) shards would be necessary, and a gateway supports \(most)."
                            + " Divide the users among several clusters, each with its own gateways."))
        }
        if Double(demand.cacheSize) < demand.users / (demand.isSticky ? Double(demand.gateways) : 1) {
            let share = demand.isSticky ? demand.users / Double(demand.gateways) : demand.users
            advice.append(
                "A gateway has at most \(Self.number(Double(demand.cacheSize))) of \(Self.number(share)) sessions in its cache:"
                    + " raise session.cacheSize if its memory permits.")
        }
        // Of the sessions with the most keys: the same number for all, as in Operations.md.
        let tracked = model.trackedPerShard * CapacitySignIn.provider.trackedKeys
        if tracked > Self.defaultTrackedKeys {
            advice.append(
                "A server reports changes of 1,000,000 keys by default, and makes gateways forget sessions beyond that:"
                    + " set tracking-table-max-keys to \(Self.number(Self.rounded(tracked))).")
        }
        if model.eventLoops > 1 {
            let (loops, load) = (Int(model.eventLoops), Int(CapacityModel.busiestLoop * 100))
            advice.append("A gateway needs at least \(loops) cores and event loops, for a load of \(load) %.")
        }
        return advice
    }

    /// The default of `tracking-table-max-keys`.
    private static let defaultTrackedKeys = 1_000_000.0

    /// Up to the next number with two digits and zeros.
    private static func rounded(_ number: Double) -> Double {
        let unit = pow(10, max(0, floor(log10(number)) - 1))
        return (number * 1.1 / unit).rounded(.up) * unit
    }

    private static func padded(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }

    private static func leading(_ text: String, _ width: Int) -> String {
        String(repeating: " ", count: max(0, width - text.count)) + text
    }

    /// With one decimal below 100, and commas.
    static func number(_ value: Double) -> String {
        if value < 99.95 { return String(format: "%.1f", value) }
        let digits = String(format: "%.0f", value)
        var text = ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index) % 3 == 0 { text += "," }
            text.append(digit)
        }
        return text
    }

    /// Bytes with a decimal unit.
    static func size(_ bytes: Double) -> String {
        let units = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)]
        for (unit, factor) in units where bytes >= factor { return String(format: "%.1f ", bytes / factor) + unit }
        return String(format: "%.0f B", bytes)
    }
}
