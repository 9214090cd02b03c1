import Benchmark
import CloakroomCore
import CloakroomTelemetry
import CloakroomWire

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// The end of an exchange: its metrics, and its line in the access log.
func accessLogBenchmarks() {
    telemetryBenchmark("Record metrics and an access-log line, JSON", format: .json)
    telemetryBenchmark("Record metrics and an access-log line, text", format: .text)
    telemetryBenchmark("Record metrics alone", format: nil)
}

/// - Parameter format: `nil` writes no line.
private func telemetryBenchmark(_ name: String, format: LoggingConfiguration.Format?) {
    Benchmark(name) { (benchmark: Benchmark, telemetry: GatewayTelemetry) in
        let loop = telemetry.makeLoopTelemetry(
            routes: [RouteLabels(name: "video", pattern: "/videos/{id}")],
            upstreams: [UpstreamTarget(upstream: "api", address: "127.0.0.1", port: 8_080)])
        let record = exchange()
        let method = Array("GET".utf8)
        let path = Array("/videos/417515716?quality=high".utf8)
        for _ in benchmark.scaledIterations {
            loop.requestStarted(scheme: record.scheme, method: record.method)
            loop.requestCompleted(record, method: method.span, path: path.span)
        }
        loop.flush()
    } setup: {
        var settings = TelemetrySettings()
        // The thread that writes takes no part in the measured time; with /dev/null it is idle most of the time.
        settings.logFileDescriptor = open("/dev/null", O_WRONLY)
        settings.isAccessLogEnabled = format != nil
        settings.logFormat = format ?? .json
        return GatewayTelemetry(settings: settings)
    }
}

/// A forwarded request.
private func exchange() -> ExchangeRecord {
    var record = ExchangeRecord()
    record.routeIndex = 0
    record.upstreamIndex = 0
    record.method = .get
    record.status = 200
    record.scheme = .https
    record.protocolVersion = .http2
    record.tlsVersion = .tls13
    record.decision = .forwarded
    record.startWallNanoseconds = 1_795_000_000_123_456_789
    record.durationNanoseconds = 412_345
    record.upstreamDurationNanoseconds = 301_234
    record.bytesSent = 650
    record.sessionHash = 0x0123_4567_89ab_cdef
    record.traceID = ID128(high: 0x0af7_6519_16cd_43dd, low: 0x8448_eb21_1c80_319c)
    record.requestID = ID128(high: 0x33a6_4df5_5142_5fcc, low: 0x55e4_d42a_1487_95d9)
    record.peerAddress = "203.0.113.17"
    return record
}
