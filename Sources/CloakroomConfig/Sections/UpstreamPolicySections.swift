import CloakroomCore
import CloakroomWire

extension DNSConfiguration: ConfigSection {
    /// `dns` of an upstream.
    static let keys: [Key<Self>] = [
        Key("interval", \.interval, .duration(.seconds(1) ... .seconds(86_400))),
        Key("keep", \.keep, .duration(.zero ... .seconds(86_400))),
    ]
}

extension BalanceConfiguration: ConfigSection {
    /// `balance` of an upstream.
    static let keys: [Key<Self>] = [
        Key("policy", \.policy, .choice()),
        Key("slowStart", \.slowStart, .duration(.zero ... .seconds(900))),
    ]
}

extension HealthCheckConfiguration: ConfigSection {
    /// `health` of an upstream, without the request.
    static let keys: [Key<Self>] = [
        Key("interval", \.interval, .duration(.milliseconds(500) ... .seconds(3_600))),
        Key {
            $1.timeout = $0.value(
                "timeout", as: .duration(.milliseconds(1) ... .seconds(3_600)), default: min($1.timeout, $1.interval))
        },
        Key("fall", \.fall, .integer(1...10)),
        Key { $1.statuses = $0.list("statuses", as: .statuses, documented: "[200-299]") ?? $1.statuses },
        Key(optional: "port", \.port, .integer(1...65_535)),
        Key("apiToken", \.apiToken, .flag),
    ]

    func check(_ scope: ConfigScope) {
        if timeout > interval, !scope.isInvalid("timeout"), !scope.isInvalid("interval") {
            scope.report(
                "must be at most the interval \(ValueFormat<Duration>.rendered(interval)), not"
                    + " \(ValueFormat<Duration>.rendered(timeout))", "shorten it, or raise interval", at: "timeout",
                becauseOf: [scope.path + ["interval"]])
        }
        if statuses.isEmpty {
            scope.report("must not be empty", "write at least one, such as 200-299", at: "statuses")
        }
    }

    /// `health` of an upstream. `path` or `grpc` is required.
    /// - Parameter upstream: The section of the upstream.
    /// - Returns: `nil` if the section is absent or invalid.
    init?(from scope: ConfigScope, of configuration: UpstreamConfiguration, _ upstream: ConfigScope) {
        let path = scope.optional("path", as: .path)
        let service = scope.optional("grpc", as: .grpcService)
        self.init(probe: .http(path: path ?? "/"))
        read(from: scope)
        guard scope.isPresent else { return nil }
        if apiToken, !scope.reading.isSectionSet(upstream.path + ["apiToken"]) {
            scope.report(
                "conflicts with the upstream, which has no apiToken",
                "add \((upstream.path + ["apiToken"]).joined(separator: ".")), or leave it out", at: "apiToken",
                becauseOf: [upstream.path + ["apiToken"]])
        }
        if scope.isSet("grpc") { configuration.checkGRPC(in: scope, upstream: upstream.path) }
        guard let probe = Self.probe(path, service, scope) else { return nil }
        self.probe = probe
    }

    private static func probe(_ path: String?, _ service: String?, _ scope: ConfigScope) -> Probe? {
        guard scope.isSet("grpc") else {
            if !scope.isSet("path") {
                scope.reading.reportMissing(
                    scope.path + ["path"], ConfigValueError("required key missing", "write it, or grpc"))
            }
            return path.map { .http(path: $0) }
        }
        for name in ["path", "statuses"] where scope.isSet(name) {
            scope.report("conflicts with grpc, which has its own request and result", "keep one of the two", at: name)
        }
        return service.map { .grpc(service: $0) }
    }
}

extension EjectionConfiguration: ConfigSection {
    /// `eject` of an upstream.
    static let keys: [Key<Self>] = [
        Key("consecutive", \.consecutive, .integer(0...100)),
        Key("share", \.share, .fraction(0...1)),
    ]
}

extension InFlightConfiguration: ConfigSection {
    /// `inFlight` of an upstream.
    static let keys: [Key<Self>] = [
        Key("target", \.target, .integer(0...1_000_000))
    ]
}

extension RetryConfiguration: ConfigSection {
    /// `retry` of an upstream.
    static let keys: [Key<Self>] = [
        Key { scope, retry in
            let attempts = scope.value("attempts", as: .integer(1...4), default: retry.attempts)
            // The value limits the attempts to connect too, other than the default.
            if scope.isSet("attempts") { retry.attempts = attempts }
        },
        Key { $1.statuses = Set($0.list("statuses", as: .retriedStatus, documented: "[]") ?? []) },
        Key { $1.readMethods($0) },
        Key("budget", \.budget, .fraction(0...1)),
        Key("attemptTimeout", \.attemptTimeout, .duration(.zero ... .seconds(86_400))),
    ]

    private mutating func readMethods(_ scope: ConfigScope) {
        let given = scope.list("methods", as: .knownMethod, documented: "[GET, HEAD, OPTIONS]")
        guard let given else { return }
        methods = Set(given)
        for (index, method) in given.enumerated() where !method.isIdempotent {
            scope.warn(
                "\(method.name) is not idempotent: a retry can execute a request twice",
                "leave it out unless all targets recognize repeated requests", at: "methods", item: index)
        }
    }

    func check(_ scope: ConfigScope) {
        if !statuses.isEmpty, budget == 0 {
            scope.report(
                "conflicts with budget 0: after an outage of all targets, each request would be sent twice",
                "raise budget, or leave statuses out", at: "statuses", becauseOf: [scope.path + ["budget"]])
        }
        guard attempts == 1, !scope.isInvalid("attempts") else { return }
        for name in ["statuses", "methods", "budget", "attemptTimeout"] where scope.isSet(name) {
            scope.warn("has no effect with attempts 1", "raise attempts, or leave it out", at: name)
        }
    }
}
