import CloakroomCore
import CloakroomWire
import Foundation
import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("Loop telemetry")
struct LoopTelemetryTests {
    private struct Outcome {
        let objects: [[String: Any]]
        let exposition: String
    }

    private static var record: ExchangeRecord { .sample }

    private func run(
        accessLog: Bool = true, _ body: (LoopTelemetry) -> Void
    ) async throws -> Outcome {
        let pipe = try LinePipe()
        var settings = TelemetrySettings()
        settings.logFileDescriptor = pipe.writeEnd
        settings.isAccessLogEnabled = accessLog
        let telemetry = GatewayTelemetry(settings: settings)
        let loop = telemetry.makeLoopTelemetry(
            routes: [RouteLabels(name: "video", pattern: "/videos/{id}"), RouteLabels(name: "odd \"name\"")],
            upstreams: [
                UpstreamTarget(upstream: "api", address: "127.0.0.1", port: 9_000),
                UpstreamTarget(upstream: "api", address: "::1", port: 9_001),
            ])
        body(loop)
        loop.flush()
        telemetry.shutdown()
        let exposition = telemetry.registry.text
        return Outcome(objects: try await pipe.objects(), exposition: exposition)
    }

    private func finish(
        _ loop: LoopTelemetry, _ record: ExchangeRecord, method: String = "GET", path: [UInt8], host: String = "",
        userAgent: String = ""
    ) {
        let (method, host, userAgent) = (Array(method.utf8), Array(host.utf8), Array(userAgent.utf8))
        loop.requestStarted(scheme: record.scheme, method: record.method)
        loop.requestCompleted(record, method: method.span, path: path.span, host: host.span, userAgent: userAgent.span)
    }

    @Test("An exchange is one access-log line with all its values")
    func accessLog() async throws {
        let outcome = try await run {
            finish(
                $0, Self.record, path: Array("/videos/1?token=secret".utf8), host: "api.example.com:8443",
                userAgent: "Mozilla/5.0 (X11)")
        }
        expect(outcome.objects.count, equals: 1)
        let object = try require(outcome.objects.first as? NSDictionary)
        let expected: NSDictionary = [
            "time": "2025-12-31T23:59:59.005Z", "level": "info", "logger": "access",
            "request_id": "000000000000000000000000000000ff", "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
            "peer": "192.0.2.7", "method": "GET", "route": "video", "path": "/videos/1", "status": 200,
            "bytes_in": 12, "bytes_out": 650, "duration_ms": 12.345, "upstream_ms": 12, "overhead_ms": 0.345,
            "upstream": "api", "upstream_target": "127.0.0.1:9000", "retries": 1, "decision": "forwarded",
            "session": "0000000000abcdef", "scheme": "https", "protocol": "2", "tls": "1.3",
            "host": "api.example.com:8443", "user_agent": "Mozilla/5.0 (X11)",
        ]
        expect(object, equals: expected)
    }

    @Test("Absent values of an exchange are omitted from its line")
    func absentFields() async throws {
        var record = ExchangeRecord()
        record.status = 400
        record.errorType = .invalidRequest
        let outcome = try await run { finish($0, record, method: "BREW\"\u{1}", path: []) }
        let object = try require(outcome.objects.first)
        expect(object["route"] as? String, equals: "(unmatched)")
        expect(object["method"] as? String, equals: "BREW\"\u{1}")
        expect(object["path"] as? String, equals: "")
        expect(object["error"] as? String, equals: "invalid_request")
        expect(object["decision"] as? String, equals: "undecided")
        for key in ["trace_id", "upstream", "upstream_target", "upstream_ms", "session", "tls", "host", "user_agent"] {
            expect(object[key] == nil, "\(key)")
        }
    }

    @Test("Host and user agent are bounded and escaped, so that a client cannot write a line or a member of its own")
    func hostAndUserAgent() async throws {
        let outcome = try await run {
            finish(
                $0, Self.record, path: Array("/".utf8), host: String(repeating: "h", count: 1_000),
                userAgent: "a\",\"status\":500,\"x\":\"\u{1b}[2J\n" + String(repeating: "u", count: 1_000))
        }
        expect(outcome.objects.count, equals: 1)
        let object = try require(outcome.objects.first)
        expect(object["status"] as? Int, equals: 200)
        expect((object["host"] as? String)?.utf8.count, equals: 259)
        let agent = try require(object["user_agent"] as? String)
        expect(agent.utf8.count, equals: 256)
        expect(agent.hasPrefix("a\",\"status\":500,\"x\":\"\u{1b}[2J\n"))
    }

    @Test("A truncated user agent does not end inside a character", arguments: ["é", "漢", "😀"])
    func truncatedCharacter(character: String) async throws {
        let size = character.utf8.count
        let agents = (0..<size).map { String(repeating: "u", count: 252 + $0) + character + character }
        let outcome = try await run { loop in
            for agent in agents { finish(loop, Self.record, path: [0x2f], userAgent: agent) }
        }
        let logged = outcome.objects.compactMap { $0["user_agent"] as? String }
        expect(logged.count, equals: agents.count)
        for (agent, logged) in zip(agents, logged) {
            expect(agent.hasPrefix(logged))
            expect(logged.utf8.count <= 256 && logged.utf8.count > 256 - size)
        }
    }

    @Test("The reason of a 401 of the gateway is logged and counted")
    func unauthorizedReason() async throws {
        var record = Self.record
        record.status = 401
        record.decision = .unauthenticated
        record.unauthorizedReason = .refreshRejected
        let outcome = try await run { finish($0, record, path: [0x2f]) }
        expect(outcome.objects.first?["unauthorized_reason"] as? String, equals: "refresh_rejected")
        for (reason, count) in [("refresh_rejected", 1), ("no_session", 0)] {
            let line = "cloakroom_unauthorized_responses_total{reason=\"\(reason)\"} \(count)\n"
            expect(outcome.exposition.contains(line))
        }
    }

    @Test("Hostile paths are logged unchanged; invalid UTF-8 is replaced")
    func hostilePaths() async throws {
        let paths: [([UInt8], String)] = [
            (Array("/\"},{\"status\":1,\"a\":\"".utf8), "/\"},{\"status\":1,\"a\":\""),
            (Array("/\\u0041\r\nlevel\u{0}\u{1f}\u{7f}".utf8), "/\\u0041\r\nlevel\u{0}\u{1f}\u{7f}"),
            (Array("/é漢😀\u{9b}31m".utf8), "/é漢😀\u{9b}31m"),
            ([0x2f, 0xff, 0x61, 0xc3], "/\u{fffd}a\u{fffd}"),
            ([0x2f, 0xed, 0xa0, 0x80], "/\u{fffd}\u{fffd}\u{fffd}"),
            ([0x2f, 0xc0, 0xaf, 0xf4, 0x90, 0x80, 0x80], "/" + String(repeating: "\u{fffd}", count: 6)),
        ]
        let outcome = try await run { loop in
            for (path, _) in paths { finish(loop, Self.record, path: path) }
        }
        expect(outcome.objects.compactMap { $0["path"] as? String }, equals: paths.map(\.1))
    }

    @Test("The overhead is the total without upstream, identity calls and the wait for the body, and never negative")
    func overhead() {
        var record = Self.record
        record.durationNanoseconds = 10_000
        record.upstreamDurationNanoseconds = 4_000
        record.identityNanoseconds = 3_000
        record.bodyWaitNanoseconds = 2_000
        expect(record.overheadNanoseconds, equals: 1_000)
        record.identityNanoseconds = 9_000
        expect(record.overheadNanoseconds, equals: 0)
    }

    @Test("Values of attempts and waits are members of the line only if there are some")
    func attempts() async throws {
        var record = Self.record
        record.retryReason = .reset
        record.queueNanoseconds = 2_500_000
        record.bodyWaitNanoseconds = 1_000_000
        record.identityNanoseconds = 3_000_000
        record.upstreamProtocol = .http2
        record.upstreamPeer = UpstreamPeer(ipv6High: 0x2001_0db8_0000_0000, low: 1, port: 443)
        let full = record
        let outcome = try await run { loop in
            finish(loop, full, path: [0x2f])
            finish(loop, Self.record, path: [0x2f])
        }
        let line = try require(outcome.objects.first)
        expect(line["upstream_peer"] as? String, equals: "[2001:db8::1]:443")
        expect(line["retry_reason"] as? String, equals: "reset")
        expect(line["queue_ms"] as? Double, equals: 2.5)
        expect(line["body_wait_ms"] as? Double, equals: 1)
        expect(line["identity_ms"] as? Double, equals: 3)
        expect(line["upstream_protocol"] as? String, equals: "2")
        let plain = try require(outcome.objects.last)
        for key in [
            "upstream_peer", "retry_reason", "queue_ms", "body_wait_ms", "identity_ms", "upstream_protocol",
        ] {
            expect(plain[key] == nil, "\(key)")
        }
    }

    @Test("A 4xx of the upstream is an error of the client request, and none of the server request")
    func clientErrors() async throws {
        var record = Self.record
        record.status = 404
        let missing = record
        let outcome = try await run { finish($0, missing, path: [0x2f]) }
        let counts = outcome.exposition.split(separator: "\n").filter {
            $0.contains("_request_duration_seconds_count{")
        }
        expect(counts.contains { $0.hasPrefix(#"http_client_request_duration_seconds_count{error_type="404","#) })
        expect(counts.contains { $0.hasPrefix(#"http_server_request_duration_seconds_count{error_type="","#) })
    }

    @Test("A long path is truncated at 1 KiB")
    func longPath() async throws {
        let outcome = try await run { finish($0, Self.record, path: [UInt8](repeating: 0x2f, count: 9_000)) }
        expect((outcome.objects.first?["path"] as? String)?.count, equals: 1_024)
    }

    @Test("A path is logged up to its query or fragment, and an invalid one is omitted")
    func secretsInTargets() async throws {
        let paths = [
            ("/a?token=s3cret", "/a"), ("/a#s3cret", "/a"), ("/a#b?s3cret", "/a"), ("*", "*"), ("?s3cret", ""),
            ("http://jo:s3cret@example.com/", ""), ("jo:s3cret@example.com", ""),
        ]
        let outcome = try await run { loop in
            for (path, _) in paths { finish(loop, Self.record, path: Array(path.utf8)) }
        }
        expect(outcome.objects.compactMap { $0["path"] as? String }, equals: paths.map(\.1))
    }

    @Test("Metrics have the configured names and the exchange's outcome")
    func metrics() async throws {
        var unauthorized = Self.record
        unauthorized.routeIndex = 1
        unauthorized.status = 401
        unauthorized.decision = .unauthenticated
        unauthorized.upstreamIndex = -1
        unauthorized.upstreamDurationNanoseconds = nil
        var failed = Self.record
        failed.status = 503
        failed.errorType = .upstreamTimeout
        failed.upstreamStatus = 0
        failed.upstreamIndex = 1
        let outcome = try await run { loop in
            finish(loop, Self.record, path: [0x2f])
            finish(loop, Self.record, path: [0x2f])
            finish(loop, unauthorized, path: [0x2f])
            finish(loop, failed, path: [0x2f])
            loop.requestStarted(scheme: .https, method: .post)
        }
        for line in [
            #"http_server_request_duration_seconds_count{error_type="",http_request_method="GET","#
                + #"http_response_status_code="200",http_route="/videos/{id}",network_protocol_version="2","#
                + #"route="video",url_scheme="https"} 2"#,
            #"http_server_request_duration_seconds_count{error_type="",http_request_method="GET","#
                + #"http_response_status_code="401",http_route="",network_protocol_version="2","#
                + #"route="odd \"name\"",url_scheme="https"} 1"#,
            #"http_client_request_duration_seconds_count{error_type="upstream_timeout",http_request_method="GET","#
                + #"http_response_status_code="",server_address="::1",server_port="9001",upstream="api"} 1"#,
            #"http_server_active_requests{http_request_method="GET",url_scheme="https"} 0"#,
            #"http_server_active_requests{http_request_method="POST",url_scheme="https"} 1"#,
            #"cloakroom_overhead_seconds_count{route="video"} 3"#,
            #"cloakroom_auth_decisions_total{decision="forwarded",route="video"} 3"#,
            #"cloakroom_auth_decisions_total{decision="unauthenticated",route="odd \"name\""} 1"#,
        ] {
            expect(outcome.exposition.contains(line + "\n"), "\(line)")
        }
        expect(!outcome.exposition.contains(#"cloakroom_overhead_seconds_count{route="odd"#))
    }

    @Test("Forwarded requests that differ in one property are counted apart, each time")
    func outcomes() async throws {
        var records = Array(repeating: Self.record, count: 8)
        records[1].method = .post
        records[2].scheme = .http
        records[3].protocolVersion = .http1_1
        records[4].status = 404
        records[5].decision = .public
        records[6].routeIndex = 1
        records[7].upstreamIndex = 1
        let outcome = try await run { loop in
            for _ in 0..<2 {
                for record in records { finish(loop, record, path: [0x2f]) }
            }
        }
        func series(_ name: String, _ labels: [String]) -> [String] {
            outcome.exposition.split(separator: "\n")
                .filter { line in line.hasPrefix(name + "{") && labels.allSatisfy { line.contains($0) } }
                .compactMap { $0.split(separator: " ").last.map(String.init) }
        }
        let server = "http_server_request_duration_seconds_count"
        expect(series(server, []).sorted(), equals: ["2", "2", "2", "2", "2", "6"])
        expect(series(server, [#"method="POST""#]), equals: ["2"])
        expect(series(server, [#"scheme="http""#]), equals: ["2"])
        expect(series(server, [#"version="1.1""#]), equals: ["2"])
        expect(series(server, [#"status_code="404""#]), equals: ["2"])
        expect(series(server, [#"route="odd"#]), equals: ["2"])
        expect(series("http_client_request_duration_seconds_count", [#"server_port="9001""#]), equals: ["2"])
        expect(series("cloakroom_overhead_seconds_count", [#"route="video""#]), equals: ["14"])
        expect(series("cloakroom_auth_decisions_total", [#"decision="forwarded",route="video""#]), equals: ["12"])
        expect(series("cloakroom_auth_decisions_total", [#"decision="public""#]), equals: ["2"])
        expect(series("cloakroom_auth_decisions_total", [#"route="odd"#]), equals: ["2"])
    }

    @Test("Lines are submitted to the writer when the buffer is full, without a flush")
    func fullBuffer() async throws {
        let pipe = try LinePipe()
        let metrics = GatewayMetrics(registry: PrometheusRegistry())
        let writer = LogWriter(fileDescriptor: pipe.writeEnd, dropped: metrics.droppedLogs)
        let loop = LoopTelemetry(metrics: metrics, writer: writer, routes: [RouteLabels(name: "video")], upstreams: [])
        for _ in 0..<100 { finish(loop, Self.record, path: Array("/videos/1".utf8)) }
        writer.shutdown()
        let count = try await pipe.objects().count
        expect(count > 30 && count < 100)
    }

    @Test("A route with a ratio of 0 logs failures only, and counts everything")
    func sampled() async throws {
        let pipe = try LinePipe()
        var settings = TelemetrySettings()
        settings.logFileDescriptor = pipe.writeEnd
        let telemetry = GatewayTelemetry(settings: settings)
        let loop = telemetry.makeLoopTelemetry(
            routes: [RouteLabels(name: "video")], upstreams: [], accessLogRatios: [0])
        var failed = Self.record
        failed.status = 503
        for record in [Self.record, failed, Self.record] { finish(loop, record, path: [0x2f]) }
        loop.flush()
        telemetry.logWriter.shutdown()
        try await expect(pipe.objects().map { $0["status"] as? Int }, equals: [503])
        let exposition = telemetry.registry.text
        expect(exposition.contains("cloakroom_auth_decisions_total{decision=\"forwarded\",route=\"video\"} 3\n"))
    }

    @Test("Without metrics lines are logged and no exchange is counted")
    func metricsOff() async throws {
        let pipe = try LinePipe()
        var settings = TelemetrySettings()
        settings.logFileDescriptor = pipe.writeEnd
        settings.isMetricsEnabled = false
        let telemetry = GatewayTelemetry(settings: settings)
        let loop = telemetry.makeLoopTelemetry(routes: [RouteLabels(name: "video")], upstreams: [])
        finish(loop, Self.record, path: [0x2f])
        loop.flush()
        telemetry.logWriter.shutdown()
        try await expect(pipe.objects().count, equals: 1)
        let exposition = telemetry.registry.text
        for family in ["http_server_active_requests{", "http_server_request_duration", "cloakroom_auth_decisions"] {
            expect(!exposition.contains(family), "\(family)")
        }
    }

    @Test("Without an access log nothing is logged and everything is counted")
    func accessLogOff() async throws {
        let outcome = try await run(accessLog: false) { finish($0, Self.record, path: [0x2f]) }
        expect(empty: outcome.objects)
        expect(outcome.exposition.contains(#"decision="forwarded",route="video"} 1"#))
    }
}
