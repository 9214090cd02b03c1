import CloakroomCore

extension LimitsConfiguration: ConfigSection {
    /// The maximum configurable body size in bytes.
    static let maxBodySize = 1 << 40

    /// `limits`. Rates are bytes per second.
    static let keys: [Key<Self>] = [
        Key {
            $1.head = $0.value("head", as: .size(1_024...65_535), default: $1.head)
            $1.target = $1.head / 2
        },
        Key("fields", \.fields, .integer(1...1_000)),
        Key("body", \.body, .size(0...maxBodySize)),
        Key("connections", \.connections, .integer(1...1_000_000), .restart),
        Key("connectionsPerAddress", \.connectionsPerAddress, .integer(0...1_000_000), .restart),
        Key("streamsPerConnection", \.streamsPerConnection, .integer(1...1_000)),
        Key("requestBuffer", \.requestBuffer, .size(0...65_536)),
        Key("requestBuffers", \.requestBuffers, .size(0...17_179_869_184)),
        Key("minimumRate", \.minimumRate, .size(0...1_048_576)),
        Key("pressureRate", \.pressureRate, .size(0...16_777_216)),
        Key("inFlightPerAddress", \.inFlightPerAddress, .integer(0...1_000_000)),
        Key("inFlightPerSession", \.inFlightPerSession, .integer(0...1_000_000)),
        Key(list: "rate", \.rate, .name),
        Key("rateKeys", \.rateKeys, .integer(1_024...16_777_216), .restart),
        Key("rateFields", \.rateFields, .choice()),
    ]

    func check(_ scope: ConfigScope) {
        if requestBuffers > 0, requestBuffers < requestBuffer {
            scope.warn(
                "\(ByteSize.rendered(requestBuffers)) is less than one buffer of"
                    + " \(ByteSize.rendered(requestBuffer)): no body is buffered",
                "raise it, or write 0 to disable buffers",
                at: scope.isSet("requestBuffers") ? "requestBuffers" : "requestBuffer")
        }
        if pressureRate > 0, pressureRate < minimumRate {
            scope.warn(
                "\(ByteSize.rendered(pressureRate)) has no effect: slower clients are disconnected by minimumRate"
                    + " \(ByteSize.rendered(minimumRate))", "raise it, or write 0 to disable it",
                at: scope.isSet("pressureRate") ? "pressureRate" : "minimumRate")
        }
    }
}

extension TimeoutsConfiguration: ConfigSection {
    /// `timeouts`.
    static let keys: [Key<Self>] = [
        Key("header", \.header, .wait),
        Key("bodyIdle", \.bodyIdle, .wait),
        Key("keepAlive", \.keepAlive, .wait),
        Key("connect", \.connect, .wait),
        Key("responseHead", \.responseHead, .wait),
        Key("identity", \.identity, .wait, .restart),
        Key("tunnelIdle", \.tunnelIdle, .wait),
        Key("drain", \.drain, .wait, .restart),
    ]
}

extension LoggingConfiguration: ConfigSection {
    /// `logging`.
    static let keys: [Key<Self>] = [
        Key("level", \.level, .logLevel),
        Key(optional: "format", \.format, .choice(), .restart),
        Key("accessLog", \.accessLog, .flag, .restart),
    ]
}

private enum LogLevel: String, CaseIterable {
    case trace, debug, info, notice, warning, error, critical
}

extension ValueFormat where Value == String {
    fileprivate static let logLevel = ValueFormat(ValueFormat<LogLevel>.choice().expectation) {
        text throws(ConfigValueError) in try ValueFormat<LogLevel>.choice().parse(text).rawValue
    }
}
