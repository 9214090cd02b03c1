import Foundation

/// The status of a gateway as text. Lines are cut to the width and cannot contain control characters, so that a name in the
/// status cannot change the terminal.
struct TopScreen {
    let status: Status
    let address: String

    /// The part of the status document that is shown. Not the type that the admin listener encodes: it requires only what
    /// is shown, so that a gateway of another release can be read too.
    struct Status: Decodable {
        var state: String
        /// The worst that is true; ``state`` in words if there is none.
        var headline: String?
        var concerns: [Concern]
        var windowSeconds: Double
        var process: Process
        var traffic: Requests
        var routes: [Route]
        var upstreams: [Upstream]

        struct Concern: Decodable { var severity, text: String }

        struct Process: Decodable { var version: String }

        struct Route: Decodable {
            var name: String
            var requests: Requests
        }

        struct Requests: Decodable {
            var perSecond: Double
            var errorShare: Double?
            var latency: Latency?

            struct Latency: Decodable {
                var p99Ms: Double
                /// The percentiles that are only known to be at least their number.
                var atLeast: [String]?
                /// The percentiles of too few requests: their number is the longest duration.
                var tooFew: [String]?
            }
        }

        struct Upstream: Decodable {
            var name: String
            var targets: [Target]

            struct Target: Decodable {
                var address, state: String
                var peer: String?
                var inFlight: Int?
            }
        }

        /// - Returns: `nil` if it is not a status document.
        init?(json: Data) {
            let decoder = JSONDecoder()
            decoder.keyDecodingStrategy = .convertFromSnakeCase
            guard let status = try? decoder.decode(Status.self, from: json) else { return nil }
            self = status
        }
    }

    func text(width: Int = .max, height: Int = .max) -> String {
        let states = ["ready": "Serving traffic", "draining": "Draining", "not_ready": "Not ready"]
        let traffic = status.traffic
        var lines = [
            "\(status.headline ?? states[status.state] ?? status.state) · Cloakroom \(status.process.version) · \(address)",
            "\(Self.rate(traffic)) requests/s · \(Self.failed(traffic)) failed · p99 \(Self.p99(traffic))"
                + " (last \(Self.decimal(status.windowSeconds, 0)) s)",
        ]
        lines += status.concerns.map { "\($0.severity == "critical" ? "PROBLEM" : "WARNING")  \($0.text)" }
        let routes = status.routes.sorted { $0.requests.perSecond > $1.requests.perSecond }
        lines += Self.table(
            ["ROUTE", "REQUESTS/S", "FAILED", "P99"],
            routes.map { [$0.name, Self.rate($0.requests), Self.failed($0.requests), Self.p99($0.requests)] })
        let targets = status.upstreams.flatMap { upstream in upstream.targets.map { (upstream.name, $0) } }
        lines += Self.table(
            ["TARGET", "UPSTREAM", "STATE", "IN FLIGHT"],
            targets.map { upstream, target in
                let name = target.peer.map { "\(target.address) (\($0))" } ?? target.address
                return [name, upstream, target.state, target.inFlight.map { "\($0)" } ?? "-"]
            })
        return lines.prefix(max(height, 1)).map { TerminalText.clean($0, limit: width) + "\n" }.joined()
    }

    /// At most 20 rows in columns of equal width; nothing without rows.
    private static func table(_ names: [String], _ rows: [[String]]) -> [String] {
        if rows.isEmpty { return [] }
        let shown = [names] + rows.prefix(20).map { $0.map { TerminalText.clean($0, limit: 60) } }
        let widths = names.indices.map { column in shown.map { $0[column].count }.max() ?? 0 }
        let lines = shown.map { row in
            zip(row, widths).map { $0 + String(repeating: " ", count: $1 - $0.count) }.joined(separator: "  ")
        }
        return [""] + lines + (rows.count > 20 ? ["and \(rows.count - 20) more"] : [])
    }

    private static func rate(_ requests: Status.Requests) -> String { decimal(requests.perSecond) }

    private static func failed(_ requests: Status.Requests) -> String {
        requests.errorShare.map { decimal($0 * 100) + " %" } ?? "-"
    }

    private static func p99(_ requests: Status.Requests) -> String {
        guard let latency = requests.latency else { return "-" }
        let name = "p99_ms"
        let mark =
            latency.atLeast?.contains(name) == true ? "> " : latency.tooFew?.contains(name) == true ? "<= " : ""
        return mark + decimal(latency.p99Ms) + " ms"
    }

    private static func decimal(_ number: Double, _ digits: Int = 1) -> String {
        String(format: "%.\(digits)f", locale: nil, number)
    }
}
