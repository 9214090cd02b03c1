import CloakroomCore
import CloakroomWire

extension DNSConfiguration {
    /// `dns` of an upstream.
    ///
    /// - `interval`: 1s to 1d; default 30s.
    /// - `keep`: 0s to 1d; default 2m.
    init(from scope: ConfigScope) {
        let defaults = DNSConfiguration()
        let format = ValueFormat<Duration>.duration(.seconds(1) ... .seconds(86_400))
        self.init(
            interval: scope.value("interval", as: format, default: defaults.interval),
            keep: scope.value("keep", as: .duration(.zero ... .seconds(86_400)), default: defaults.keep))
    }
}

extension BalanceConfiguration {
    /// `balance` of an upstream.
    ///
    /// - `policy`: `latency` (default), `requests` or `roundRobin`.
    /// - `slowStart`: 0s to 15m; default 0s.
    init(from scope: ConfigScope) {
        let defaults = BalanceConfiguration()
        self.init(
            policy: scope.value("policy", as: .choice(), default: defaults.policy),
            slowStart: scope.value("slowStart", as: .duration(.zero ... .seconds(900)), default: defaults.slowStart))
    }
}

extension HealthCheckConfiguration {
    /// `health` of an upstream.
    ///
    /// - `path` or `grpc`: what is requested; one of them is required.
    /// - `interval`: 500ms to 1h; default 5s.
    /// - `timeout`: 1ms to `interval`; default 2s, at most `interval`.
    /// - `fall`: 1 to 10; default 3.
    /// - `statuses`: statuses and ranges; default `200-299`.
    /// - `port`: default that of the target.
    /// - `apiToken`: whether the API token is sent; default `false`.
    /// - Parameters:
    ///   - upstream: The section of the upstream.
    ///   - targets: The targets of the upstream, if valid.
    /// - Returns: `nil` if the section is absent or invalid.
    init?(
        from scope: ConfigScope, upstream: ConfigScope, protocolVersion: UpstreamProtocol,
        targets: [UpstreamTargetConfiguration]?
    ) {
        let path = scope.optional("path", as: .path)
        let service = scope.optional("grpc", as: .grpcService)
        let interval = scope.value(
            "interval", as: .duration(.milliseconds(500) ... .seconds(3_600)), default: .seconds(5))
        let timeout = scope.value(
            "timeout", as: .duration(.milliseconds(1) ... .seconds(3_600)), default: min(.seconds(2), interval))
        let fall = scope.value("fall", as: .integer(1...10), default: 3)
        let statuses = scope.list("statuses", as: .statuses)
        scope.reading.document(scope.path + ["statuses"]) { $0.defaultValue = "[200-299]" }
        let port = scope.optional("port", as: .integer(1...65_535))
        let apiToken = scope.value("apiToken", as: .flag, default: false)
        guard scope.isPresent else { return nil }
        if timeout > interval, !scope.isInvalid("timeout"), !scope.isInvalid("interval") {
            scope.report(
                ConfigValueError(
                    "must be at most the interval \(ValueFormat<Duration>.rendered(interval)), not"
                        + " \(ValueFormat<Duration>.rendered(timeout))", "shorten it, or raise interval"),
                at: "timeout", becauseOf: [scope.path + ["interval"]])
        }
        if let statuses, statuses.isEmpty {
            scope.report(ConfigValueError("must not be empty", "write at least one, such as 200-299"), at: "statuses")
        }
        if apiToken, !scope.reading.isSectionSet(upstream.path + ["apiToken"]) {
            scope.report(
                ConfigValueError(
                    "conflicts with the upstream, which has no apiToken",
                    "add \((upstream.path + ["apiToken"]).joined(separator: ".")), or leave it out"),
                at: "apiToken", becauseOf: [upstream.path + ["apiToken"]])
        }
        Self.checkCalls(scope, protocolVersion, targets)
        guard let probe = Self.probe(path, service, scope) else { return nil }
        self.init(
            probe: probe, interval: interval, timeout: timeout, fall: fall, statuses: statuses ?? [200...299],
            port: port, apiToken: apiToken)
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
            scope.report(
                ConfigValueError("conflicts with grpc, which has its own request and result", "keep one of the two"),
                at: name)
        }
        return service.map { .grpc(service: $0) }
    }

    /// gRPC calls need a protocol that uses HTTP/2 for all targets.
    private static func checkCalls(
        _ scope: ConfigScope, _ version: UpstreamProtocol, _ targets: [UpstreamTargetConfiguration]?
    ) {
        guard scope.isSet("grpc") else { return }
        let upstream = scope.path.dropLast()
        if !version.allowsHTTP2 {
            scope.report(
                ConfigValueError("requires HTTP/2, but the protocol is http1", "write protocol: http2, h2c or auto"),
                at: "grpc", becauseOf: [upstream + ["protocol"]])
        } else if version == .auto, let clearText = targets?.first(where: { $0.scheme == .http }) {
            scope.report(
                ConfigValueError(
                    "requires HTTP/2, but protocol auto uses HTTP/1.1 for target \(clearText)",
                    "write protocol: h2c, or https:// targets"),
                at: "grpc", becauseOf: [upstream + ["protocol"], upstream + ["targets"]])
        }
    }
}

extension EjectionConfiguration {
    /// `eject` of an upstream.
    ///
    /// - `consecutive`: 0 (off) to 100; default 5.
    /// - `share`: 0 (off) to 1; default 0.5.
    /// - `statuses`: 500 to 599; default 502, 503, 504.
    /// - `time`: 1s to 1h; default 10s.
    init(from scope: ConfigScope) {
        let defaults = EjectionConfiguration()
        let range = ValueFormat<Duration>.duration(.seconds(1) ... .seconds(3_600))
        let statuses = scope.list("statuses", as: .integer(500...599))
        scope.reading.document(scope.path + ["statuses"]) { $0.defaultValue = "[502, 503, 504]" }
        self.init(
            consecutive: scope.value("consecutive", as: .integer(0...100), default: defaults.consecutive),
            share: scope.value("share", as: .fraction(0...1), default: defaults.share),
            statuses: statuses.map(Set.init) ?? defaults.statuses,
            time: scope.value("time", as: range, default: defaults.time))
        if let status = statuses?.first(where: { $0 <= 501 }) {
            scope.warn(
                ConfigValueError(
                    "\(status) is often the response to one kind of request: such requests eject all targets in turn",
                    "leave it out"), at: "statuses")
        }
    }
}

extension InFlightConfiguration {
    /// `inFlight` of an upstream: `upstream` and `target`, each 0 (unlimited, the default) to 1,000,000.
    init(from scope: ConfigScope) {
        self.init(
            upstream: scope.value("upstream", as: .integer(0...1_000_000), default: 0),
            target: scope.value("target", as: .integer(0...1_000_000), default: 0))
    }
}

extension RetryConfiguration {
    /// `retry` of an upstream.
    ///
    /// - `attempts`: 1 (no retries) to 4; default 2.
    /// - `on`: a list of `connect`, `refused`, `stale`, `reset`; default all.
    /// - `statuses`: a list of 502, 503, 504; default none.
    /// - `methods`: default GET, HEAD, OPTIONS.
    /// - `budget`: 0 to 1; default 0.1.
    /// - `attemptTimeout`: 0s (off) to 1d; default 0s.
    init(from scope: ConfigScope) {
        let defaults = RetryConfiguration()
        let attempts = scope.value("attempts", as: .integer(1...4), default: defaults.attempts)
        let conditions = scope.list("on", as: ValueFormat<RetryCondition>.choice())
        let statuses = scope.list("statuses", as: .retriedStatus)
        let methods = scope.list("methods", as: .knownMethod)
        let budget = scope.value("budget", as: .fraction(0...1), default: defaults.budget)
        self.init(
            attempts: scope.isSet("attempts") ? attempts : nil, on: conditions.map(Set.init) ?? defaults.on,
            statuses: Set(statuses ?? []), methods: methods.map(Set.init) ?? defaults.methods, budget: budget,
            attemptTimeout: scope.value(
                "attemptTimeout", as: .duration(.zero ... .seconds(86_400)), default: defaults.attemptTimeout))
        for (name, value) in [
            ("on", "[connect, refused, stale, reset]"), ("statuses", "[]"), ("methods", "[GET, HEAD, OPTIONS]"),
        ] {
            scope.reading.document(scope.path + [name]) { $0.defaultValue = value }
        }
        if !self.statuses.isEmpty, budget == 0 {
            scope.report(
                ConfigValueError(
                    "conflicts with budget 0: after an outage of all targets, each request would be sent twice",
                    "raise budget, or leave statuses out"),
                at: "statuses", becauseOf: [scope.path + ["budget"]])
        }
        for (index, method) in (methods ?? []).enumerated() where !method.isIdempotent {
            scope.warn(
                ConfigValueError(
                    "\(method.name) is not idempotent: a retry can execute a request twice",
                    "leave it out unless all targets recognize repeated requests"), item: index, of: "methods")
        }
        guard attempts == 1, !scope.isInvalid("attempts") else { return }
        for name in ["on", "statuses", "methods", "budget", "attemptTimeout"] where scope.isSet(name) {
            scope.warn(ConfigValueError("has no effect with attempts 1", "raise attempts, or leave it out"), at: name)
        }
    }
}
