import CloakroomCore
import CloakroomWire
import Foundation
import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("Requests that why can explain")
struct RejectedRequestsTests {
    private let telemetry: GatewayTelemetry = {
        var settings = TelemetrySettings()
        settings.isAccessLogEnabled = false
        settings.logFormat = .text
        return GatewayTelemetry(settings: settings)
    }()

    private var loop: LoopTelemetry {
        telemetry.makeLoopTelemetry(
            routes: [RouteLabels(name: "video")],
            upstreams: [UpstreamTarget(upstream: "api", address: "127.0.0.1", port: 9_000)])
    }

    private func keep(
        _ id: UInt64, in loop: LoopTelemetry, path: String = "/videos/1?token=secret", host: String = "a.example",
        details: RejectionDetails = RejectionDetails()
    ) {
        var record = ExchangeRecord.sample
        record.requestID = ID128(high: 7, low: id)
        record.status = 502
        (record.app, record.isBound) = ("shop", true)
        record.errorType = .upstreamUnreachable
        record.startWallNanoseconds += Int64(id) * 1_000_000_000
        let (method, path, host) = (Array("GET".utf8), Array(path.utf8), Array(host.utf8))
        loop.keepRejected(
            record, details, listener: "127.0.0.1:8080", credentials: "cookie", method: method.span, path: path.span,
            host: host.span)
    }

    private func document(of id: UInt64) throws -> [String: Any] {
        let bytes = telemetry.rejectedRequests.document(of: ID128(high: 7, low: id))
        return try require(JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any])
    }

    @Test("A request has its line of the access log, whatever the format of that, and what explains it")
    func content() throws {
        defer { telemetry.shutdown() }
        let details = RejectionDetails()
        (details.code, details.claim) = (.unreachable, "groups")
        for target in [0, -1, 0, 0, 0, 0] { details.failed(target: target, outcome: "upstream_reset") }
        keep(1, in: loop, details: details)
        let found = try require(document(of: 1)["found"] as? [String: Any])
        let request = try require(found["request"] as? [String: Any])
        expect(request["path"] as? String, equals: "/videos/1")
        expect(request["request_id"] as? String, equals: "00000000000000070000000000000001")
        expect(request["upstream_target"] as? String, equals: "127.0.0.1:9000")
        expect(request["error"] as? String, equals: "upstream_unreachable")
        expect(request["user_agent"] == nil)
        expect(request["app"] as? String == "shop" && request["bound"] as? Bool == true)
        let attempts = "127.0.0.1:9000: upstream reset, no target: upstream reset"
        expect(
            found["attempts"] as? String,
            equals: attempts + String(repeating: ", 127.0.0.1:9000: upstream reset", count: 2))
        for (name, value) in [
            ("listener", "127.0.0.1:8080"), ("credentials", "cookie"), ("code", "unreachable"), ("claim", "groups"),
        ] { expect(found[name] as? String, equals: value) }
    }

    @Test("Another id finds nothing, but how many there are and since when")
    func unknown() throws {
        defer { telemetry.shutdown() }
        let none = try document(of: 1)
        expect(none["held"] as? Int == 0 && none.count == 1)
        keep(1, in: loop)
        keep(2, in: loop)
        let some = try document(of: 3)
        expect(some["held"] as? Int == 2 && some["since"] as? String == "2026-01-01T00:00:00.005Z" && some.count == 2)
    }

    @Test("Rule 77: a flood displaces older requests, and takes no more than 1,000 entries of 4 KiB")
    func bound() throws {
        defer { telemetry.shutdown() }
        let loop = loop
        // Every byte is escaped as six.
        let text = String(repeating: "\u{1}", count: 10_000)
        for id in 0..<2_500 { keep(UInt64(id), in: loop, path: "/" + text, host: text) }
        var bytes = 0
        for id in 1_500..<2_500 {
            let size = telemetry.rejectedRequests.document(of: ID128(high: 7, low: UInt64(id))).count
            #expect(size > 1_000)
            bytes += size
        }
        #expect(bytes <= RejectedRequests.limit * (RejectedRequests.entryLimit + 100))
        let gone = try document(of: 1_499)
        expect(gone["found"] == nil && gone["held"] as? Int == 1_000)
        expect(gone["since"] as? String, equals: "2026-01-01T00:24:59.005Z")
        // One that is too large displaces none.
        telemetry.rejectedRequests.add(
            ID128(high: 7, low: 9_999), time: 0, Array(repeating: 0x20, count: RejectedRequests.entryLimit + 1))
        try expect(document(of: 9_999)["found"] == nil)
        try expect(document(of: 1_500)["found"] != nil)
    }

    @Test(
        "An id has 32 hexadecimal digits",
        arguments: [
            ("00000000000000070000000000000001", true), ("ABCDEF00000000070000000000000001", true), ("", false),
            ("0000000000000007000000000000001", false), ("+0000000000000070000000000000001", false),
            ("0000000000000007+000000000000001", false), ("0000000000000007 000000000000001", false),
            ("000000000000000é000000000000001", false),
        ])
    func ids(text: String, isValid: Bool) {
        expect(ID128(text) != nil, equals: isValid)
        if isValid { expect(ID128(text)?.description, equals: text.lowercased()) }
    }
}
