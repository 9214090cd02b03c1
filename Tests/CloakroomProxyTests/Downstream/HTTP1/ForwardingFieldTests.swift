import CloakroomCore
import NIOCore
import TestSupport
import Testing

@Suite("Fields forwarded to the upstream", .serialized)
struct ForwardingFieldTests {
    private static let upload = "POST /public/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"

    @Test("Request trailers are forwarded, except framing, routing and identity fields (RFC 9110 §6.5.1)")
    func trailers() async throws {
        try await GatewaySetup([.request, .wait(Gate())]).run { gateway in
            let client = try await gateway.client()
            client.send(
                Self.upload + "Trailer: X-Checksum\r\n\r\n2\r\nab\r\n0\r\nX-Checksum: 1\r\nContent-Length: 5\r\n"
                    + "Transfer-Encoding: chunked\r\nHost: b\r\nAuthorization: Bearer t\r\nX-API-TOKEN: t\r\n"
                    + "x_api_token: t\r\nCookie: a=b\r\nX-Forwarded-For: 1.2.3.4\r\nX-Client-Cert-Subject: CN=root\r\n"
                    + "Content-Type: a/b\r\nX-Other: 2\r\n\r\n")
            let body = "2\r\nab\r\n0\r\nX-Checksum: 1\r\nX-Other: 2\r\n\r\n"
            let request = try await gateway.upstream.request()
            #expect(request.values("Trailer").isEmpty)
            try await eventually("all of the body") {
                gateway.upstream.received >= request.head.utf8.count + 4 + body.utf8.count
            }
            #expect(gateway.upstream.received == request.head.utf8.count + 4 + body.utf8.count)
        }
    }

    @Test("TE is not forwarded, except trailers, which the gateway writes itself (RFC 9110 §10.1.4)")
    func te() async throws {
        try await GatewaySetup([.request, .send(Reply.ok), .again]).run { gateway in
            let client = try await gateway.client()
            for fields in [
                ["TE: trailers", "Connection: TE"], ["TE: gzip;q=0.5, trailers"], ["TE: gzip", "TE: Trailers"],
            ] {
                let lines = (["GET /public/a HTTP/1.1", "Host: a"] + fields).joined(separator: "\r\n")
                #expect(try await client.exchange(lines + "\r\n\r\n").text == "ok")
                let request = gateway.upstream.requests[gateway.upstream.requests.count - 1]
                #expect(request.values("TE") == ["trailers"])
                #expect(request.values("Connection") == ["TE"])
            }
            _ = try await client.exchange(Ask.get("/public/a", "TE: gzip, trailers-not", "Connection: TE"))
            let request = gateway.upstream.requests[gateway.upstream.requests.count - 1]
            #expect(request.values("TE").isEmpty)
            #expect(request.values("Connection").isEmpty)
            #expect(gateway.upstream.connections.count == 1)
        }
    }

    @Test("Max-Forwards of OPTIONS is decremented, and 0 gets a local response (RFC 9110 §7.6.2)")
    func maxForwards() async throws {
        try await GatewaySetup([.request, .send(Reply.ok), .again]).run { gateway in
            let client = try await gateway.client()
            func options(_ fields: String) -> String {
                "OPTIONS /public/a HTTP/1.1\r\nHost: a\r\n\(fields)\r\n"
            }
            let here = try await client.exchange(options("Max-Forwards: 0\r\n"))
            #expect(here.status == 204)
            #expect(here["Allow"]?.contains("GET") == true)
            #expect(gateway.upstream.requests.isEmpty)
            for (given, passed) in [("1", "0"), ("10", "9"), ("007", "6")] {
                #expect(try await client.exchange(options("Max-Forwards: \(given)\r\n")).text == "ok")
                #expect(gateway.upstream.requests.last?.values("Max-Forwards") == [passed])
            }
            #expect(try await client.exchange(options("")).text == "ok")
            #expect(gateway.upstream.requests.last?.values("Max-Forwards") == [])
            // An invalid number is ignored, and a number too large for an integer is a large number.
            #expect(try await client.exchange(options("Max-Forwards: x\r\n")).text == "ok")
            #expect(try await client.exchange(options("Max-Forwards: 99999999999999999999\r\n")).text == "ok")
            // Other methods may ignore it, and the gateway does.
            #expect(try await client.exchange(Ask.get("/public/a", "Max-Forwards: 0")).text == "ok")
            #expect(gateway.upstream.requests.last?.values("Max-Forwards") == ["0"])
        }
    }

    @Test("A client's X-Client-Cert-Subject is never forwarded, in any spelling (RFC 9110 §7.6.1)")
    func certificateSubject() async throws {
        let sessions = FakeSessions()
        let cookie = sessions.add()
        try await GatewaySetup([.request, .send(Reply.ok), .again]).with(\.sessions, sessions)
            .configuration { configuration in
                configuration.trustedProxies = [CIDRBlock("127.0.0.0/8")].compactMap { $0 }
            }
            .run { gateway in
                let client = try await gateway.client()
                for path in ["/public/a", "/token/a", "/private/a"] {
                    _ = try await client.exchange(
                        Ask.get(
                            path, cookie, "X-Client-Cert-Subject: CN=root", "x-client-cert-subject: CN=root",
                            "X_Client_Cert_Subject: CN=root", "X.CLIENT-CERT_SUBJECT: CN=root"))
                    #expect(gateway.upstream.requests.last?.line == "GET \(path) HTTP/1.1")
                    #expect(gateway.upstream.requests.last?.head.contains("CN=root") == false)
                }
            }
    }

    /// Sends a request as a trusted peer.
    private static func trusted(_ fields: String...) async throws -> ScriptedUpstream.Request {
        try await GatewaySetup([.request, .send(Reply.ok)])
            .configuration { configuration in
                configuration.trustedProxies = [CIDRBlock("127.0.0.0/8")].compactMap { $0 }
            }
            .run { gateway in
                let lines = (["GET /public/a HTTP/1.1", "Host: a"] + fields).joined(separator: "\r\n")
                #expect(try await gateway.client().exchange(lines + "\r\n\r\n").text == "ok")
                return try await gateway.upstream.request()
            }
    }

    @Test("A trusted peer's X-Request-Id is kept; a duplicate or invalid one is replaced (RFC 9110 §7.6)")
    func requestID() async throws {
        #expect(try await Self.trusted("X-Request-Id: 01H-abc_7.9").values("X-Request-Id") == ["01H-abc_7.9"])
        for fields in [["X-Request-Id: a", "X-Request-Id: b"], ["X-Request-Id: a b"], ["X-Request-Id:"]] {
            let ids = try await Self.trusted(fields.joined(separator: "\r\n")).values("X-Request-Id")
            #expect(ids.count == 1)
            #expect(ids.first?.count == 32)
        }
    }

    @Test("A trusted peer's tracestate fields are joined to one line in order (W3C Trace Context §3.3.1)")
    func tracestate() async throws {
        let parent = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        let request = try await Self.trusted(parent, "tracestate: a=1,b=2", "X: y", "tracestate: c=3")
        #expect(request.values("tracestate") == ["a=1,b=2,c=3"])
        #expect(request["traceparent"]?.hasPrefix("00-0af7651916cd43dd8448eb211c80319c-") == true)
        // Without a traceparent it is dropped (W3C Trace Context §3.3).
        #expect(try await Self.trusted("tracestate: a=1").values("tracestate").isEmpty)
    }

    @Test(
        "Range, conditional and content negotiation fields and their responses are unchanged (RFC 9110 §12, §13, §14)")
    func untouched() async throws {
        let lines = [
            "Range: bytes=0-1", "If-Match: \"a\", W/\"b\"", "If-None-Match: *",
            "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT", "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
            "If-Range: \"a\"", "Accept-Encoding: br;q=1.0, gzip", "Accept-Language: de", "Accept: */*",
        ]
        let response =
            "HTTP/1.1 304 Not Modified\r\nETag: W/\"1\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
            + "Cache-Control: max-age=1\r\nVary: Accept-Encoding\r\n\r\n"
        try await GatewaySetup([.request, .send(response)]).run { gateway in
            let client = try await gateway.client()
            let request = (["GET /public/a HTTP/1.1", "Host: a"] + lines).joined(separator: "\r\n") + "\r\n\r\n"
            let response = try await client.exchange(request)
            #expect(response.status == 304)
            #expect(response["ETag"] == "W/\"1\"")
            #expect(response["Vary"] == "Accept-Encoding")
            for line in lines { #expect(gateway.upstream.requests[0].head.contains("\r\n\(line)"), "\(line)") }
        }
    }

    @Test("A client that disconnects at a message boundary leaves a reusable upstream connection (RFC 9112 §9.5)")
    func goneAtBoundary() async throws {
        try await GatewaySetup([.request, .send(Reply.ok), .again]).run { gateway in
            let first = try await gateway.client()
            #expect(try await first.exchange(Ask.get()).text == "ok")
            try await first.close()
            #expect(try await gateway.client().exchange(Ask.get()).text == "ok")
            #expect(gateway.upstream.connections.count == 1)
        }
    }
}
