import CloakroomCore
import TestSupport
import Testing

@Suite("Fields forwarded to the upstream", .serialized)
struct ForwardingFieldTests {
    private static let trusted = GatewaySetup.serving.configuration {
        $0.trustedProxies = [CIDRBlock("127.0.0.0/8")].compactMap(\.self)
    }

    private static func get(_ fields: String...) -> String { ask("GET", fields) }
    private static func options(_ fields: String...) -> String { ask("OPTIONS", fields) }

    private static func ask(_ method: String, _ fields: [String]) -> String {
        (["\(method) /public/a HTTP/1.1", "Host: a"] + fields).joined(separator: "\r\n") + "\r\n\r\n"
    }

    private static let withTrailers = Scenario.Expectation("…", has: ["TE: trailers", "Connection: TE"])
    private static let traceParent = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    private static let negotiation = [
        "Range: bytes=0-1", "If-Match: \"a\", W/\"b\"", "If-None-Match: *",
        "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT", "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
        "If-Range: \"a\"", "Accept-Encoding: br;q=1.0, gzip", "Accept-Language: de", "Accept: */*",
    ]
    private static let notModified = GatewaySetup.replying(
        "HTTP/1.1 304 Not Modified\r\nETag: W/\"1\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
            + "Cache-Control: max-age=1\r\nVary: Accept-Encoding\r\n\r\n")

    /// The identifiers that the upstream received.
    private static func checkIDs(_ gateway: RunningGateway) {
        let ids = gateway.upstream.requests.map { $0.values("X-Request-Id") }
        expect(ids.first, equals: ["01H-abc_7.9"])
        expect(ids.dropFirst().allSatisfy { $0.count == 1 && $0[0].count == 32 }, "\(ids)")
    }

    @Test(
        "Fields that the gateway changes, and fields that it does not",
        arguments: [
            Scenario(
                "TE is not forwarded, except trailers, which the gateway writes itself (RFC 9110 §10.1.4)",
                .ok(get("TE: trailers", "Connection: TE")), .ok(get("TE: gzip;q=0.5, trailers")),
                .ok(get("TE: gzip", "TE: Trailers")), .ok(get("TE: gzip, trailers-not", "Connection: TE")),
                .run { expect($0.upstream.connections.count, equals: 1) },
                sent: [withTrailers, withTrailers, withTrailers, .init("…", has: ["TE", "Connection"])]),
            Scenario(
                "Max-Forwards 0 of OPTIONS gets a local response (RFC 9110 §7.6.2)",
                .ask(options("Max-Forwards: 0"), 204, has: ["Allow: …GET…"]), sent: []),
            // An invalid number is ignored, a number too large for an integer is a large number, and the gateway ignores
            // the field of other methods, as it may.
            Scenario(
                "Max-Forwards of OPTIONS is decremented (RFC 9110 §7.6.2)", .ok(options("Max-Forwards: 1")),
                .ok(options("Max-Forwards: 10")), .ok(options("Max-Forwards: 007")), .ok(options()),
                .ok(options("Max-Forwards: x")), .ok(options("Max-Forwards: 99999999999999999999")),
                .ok(get("Max-Forwards: 0")),
                sent: [
                    .init("…", has: ["Max-Forwards: 0"]), .init("…", has: ["Max-Forwards: 9"]),
                    .init("…", has: ["Max-Forwards: 6"]),
                    .init("…", has: ["Max-Forwards"]), "…", "…", .init("…", has: ["Max-Forwards: 0"]),
                ]),
            Scenario(
                "A trusted peer's X-Request-Id is kept; a duplicate or invalid one is replaced (RFC 9110 §7.6)",
                on: trusted, .ok(get("X-Request-Id: 01H-abc_7.9")), .ok(get("X-Request-Id: a", "X-Request-Id: b")),
                .ok(get("X-Request-Id: a b")), .ok(get("X-Request-Id:")), .run { checkIDs($0) }),
            Scenario(
                "A trusted peer's tracestate fields are joined to one line in order (W3C Trace Context §3.3.1)",
                on: trusted, .ok(get(traceParent, "tracestate: a=1,b=2", "X: y", "tracestate: c=3")),
                sent: [
                    .init("…", has: ["tracestate: a=1,b=2,c=3", "traceparent: 00-0af7651916cd43dd8448eb211c80319c-…"])
                ]),
            Scenario(
                "Without a traceparent tracestate is dropped (W3C Trace Context §3.3)", on: trusted,
                .ok(get("tracestate: a=1")), sent: [.init("…", has: ["tracestate"])]),
            Scenario(
                "Range, conditional and content negotiation fields and responses are unchanged (RFC 9110 §12, §13, §14)",
                on: notModified,
                .ask(ask("GET", negotiation), 304, has: ["ETag: W/\"1\"", "Vary: Accept-Encoding"]),
                sent: [.init("…", has: negotiation)]),
        ])
    func row(_ row: Scenario) async throws { try await row.run() }

    @Test("A client that disconnects at a message boundary leaves a reusable upstream connection (RFC 9112 §9.5)")
    func goneAtBoundary() async throws {
        try await GatewaySetup.serving.run { gateway in
            let first = try await gateway.client()
            try await expect(first.exchange(Ask.get()).text, equals: "ok")
            try await first.close()
            try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok")
            expect(gateway.upstream.connections.count, equals: 1)
        }
    }
}
