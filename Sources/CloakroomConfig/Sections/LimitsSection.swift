import CloakroomCore

extension LimitsConfiguration {
    /// The maximum configurable body size in bytes.
    static let maxBodySize = 1 << 40

    /// `limits`.
    ///
    /// - `head`: 1KiB to 65,535 bytes; default 16KiB.
    /// - `fields`: 1 to 1,000; default 100.
    /// - `target`: 64 to 65,535 bytes, less than `head`; default 8KiB.
    /// - `body`: 0 to 1TiB; default 10MiB.
    /// - `connections`: 1 to 1,000,000; default 20,000.
    /// - `connectionsPerAddress`: 0 (unlimited) to 1,000,000; default 1,000.
    /// - `streamsPerConnection`: 1 to 1,000; default 100.
    /// - `requestsPerConnection`: 0 (unlimited) to 1,000,000,000; default 0.
    init(from scope: ConfigScope) {
        let defaults = LimitsConfiguration()
        self.init(
            head: scope.value("head", as: ByteSize.size(1_024...65_535), default: defaults.head),
            fields: scope.value("fields", as: .integer(1...1_000), default: defaults.fields),
            target: scope.value("target", as: ByteSize.size(64...65_535), default: defaults.target),
            body: scope.value("body", as: ByteSize.size(0...Self.maxBodySize), default: defaults.body),
            connections: scope.value("connections", as: .integer(1...1_000_000), default: defaults.connections),
            connectionsPerAddress: scope.value(
                "connectionsPerAddress", as: .integer(0...1_000_000), default: defaults.connectionsPerAddress),
            streamsPerConnection: scope.value(
                "streamsPerConnection", as: .integer(1...1_000), default: defaults.streamsPerConnection),
            requestsPerConnection: scope.value(
                "requestsPerConnection", as: .integer(0...1_000_000_000), default: defaults.requestsPerConnection))
        if target >= head, !scope.isInvalid("target"), !scope.isInvalid("head") {
            scope.report(
                ConfigValueError(
                    "target \(ByteSize.rendered(target)) must be less than head \(ByteSize.rendered(head))",
                    "the target is a part of the head"), at: scope.isSet("target") ? "target" : "head",
                becauseOf: [scope.path + ["target"], scope.path + ["head"]])
        }
    }
}

extension TimeoutsConfiguration {
    /// `timeouts`: `header` (default 10s), `bodyIdle` (30s), `keepAlive` (1m), `connect` (5s), `responseHead` (30s),
    /// `identity` (10s), `tunnelIdle` (5m), `drain` (30s). Each 1ms to 1d.
    init(from scope: ConfigScope) {
        let defaults = TimeoutsConfiguration()
        self.init(
            header: scope.value("header", as: .wait, default: defaults.header),
            bodyIdle: scope.value("bodyIdle", as: .wait, default: defaults.bodyIdle),
            keepAlive: scope.value("keepAlive", as: .wait, default: defaults.keepAlive),
            connect: scope.value("connect", as: .wait, default: defaults.connect),
            responseHead: scope.value("responseHead", as: .wait, default: defaults.responseHead),
            identity: scope.value("identity", as: .wait, default: defaults.identity),
            tunnelIdle: scope.value("tunnelIdle", as: .wait, default: defaults.tunnelIdle),
            drain: scope.value("drain", as: .wait, default: defaults.drain))
    }
}

extension LoggingConfiguration {
    private enum Level: String, CaseIterable {
        case trace, debug, info, notice, warning, error, critical
    }

    /// `logging`.
    ///
    /// - `level`: trace, debug, info (default), notice, warning, error or critical.
    /// - `format`: `json` (default) or `text`.
    /// - `accessLog`: default `true`.
    init(from scope: ConfigScope) {
        let defaults = LoggingConfiguration()
        self.init(
            level: scope.value("level", as: .choice(), default: Level.info).rawValue,
            format: scope.value("format", as: .choice(), default: defaults.format),
            accessLog: scope.value("accessLog", as: .flag, default: defaults.accessLog))
    }
}
