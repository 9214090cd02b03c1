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
    /// - `requestBuffer`: 0 (off) to 64KiB; default 16KiB.
    /// - `requestBuffers`: 0 (off) to 16GiB; default 64MiB.
    /// - `minimumRate`: bytes per second, 0 (off) to 1MiB; default 256.
    /// - `pressureRate`: bytes per second, 0 (off) to 16MiB; default 16KiB.
    /// - `inFlightPerAddress`: 0 (unlimited) to 1,000,000; default 512.
    /// - `inFlightPerSession`: 0 (unlimited) to 1,000,000; default 128.
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
                "requestsPerConnection", as: .integer(0...1_000_000_000), default: defaults.requestsPerConnection),
            requestBuffer: scope.value(
                "requestBuffer", as: ByteSize.size(0...65_536), default: defaults.requestBuffer),
            requestBuffers: scope.value(
                "requestBuffers", as: ByteSize.size(0...17_179_869_184), default: defaults.requestBuffers),
            minimumRate: scope.value("minimumRate", as: ByteSize.size(0...1_048_576), default: defaults.minimumRate),
            pressureRate: scope.value(
                "pressureRate", as: ByteSize.size(0...16_777_216), default: defaults.pressureRate),
            inFlightPerAddress: scope.value(
                "inFlightPerAddress", as: .integer(0...1_000_000), default: defaults.inFlightPerAddress),
            inFlightPerSession: scope.value(
                "inFlightPerSession", as: .integer(0...1_000_000), default: defaults.inFlightPerSession))
        if target >= head, !scope.isInvalid("target"), !scope.isInvalid("head") {
            scope.report(
                ConfigValueError(
                    "target \(ByteSize.rendered(target)) must be less than head \(ByteSize.rendered(head))",
                    "the target is a part of the head"), at: scope.isSet("target") ? "target" : "head",
                becauseOf: [scope.path + ["target"], scope.path + ["head"]])
        }
        checkRates(scope)
    }

    private func checkRates(_ scope: ConfigScope) {
        if requestBuffers > 0, requestBuffers < requestBuffer {
            scope.warn(
                ConfigValueError(
                    "\(ByteSize.rendered(requestBuffers)) is less than one buffer of"
                        + " \(ByteSize.rendered(requestBuffer)): no body is buffered",
                    "raise it, or write 0 to disable buffers"),
                at: scope.isSet("requestBuffers") ? "requestBuffers" : "requestBuffer")
        }
        if pressureRate > 0, pressureRate < minimumRate {
            scope.warn(
                ConfigValueError(
                    "\(ByteSize.rendered(pressureRate)) has no effect: slower clients are disconnected by minimumRate"
                        + " \(ByteSize.rendered(minimumRate))", "raise it, or write 0 to disable it"),
                at: scope.isSet("pressureRate") ? "pressureRate" : "minimumRate")
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
