import CloakroomCore
import NIOCore
import NIOHPACK
import NIOHTTP2
import TestSupport
import Testing

@Suite("Requests in HTTP/2", .serialized)
struct HTTP2RequestTests {
    @Test("RFC 9113 §8.3.1: a request reaches the upstream as HTTP/1.1, with its authority in the forwarding fields")
    func get() async throws {
        try await GatewaySetup.serving.runHTTP2 { gateway, client in
            let response = try await client.exchange(1, .get("/public/a?b=c", ("accept", "x/y"), ("x-empty", "")))
            expect(response.status, equals: 200)
            expect(response.text, equals: "ok")
            expect(response["content-length"], equals: "2")
            expect(response["date"] != nil)
            expect(response.reset, equals: nil)
            let request = try await gateway.upstream.request()
            expect(request.line, equals: "GET /public/a?b=c HTTP/1.1")
            expect(request["Accept"], equals: "x/y")
            expect(request["X-Empty"], equals: "")
            expect(request.values("Host").count, equals: 1)
            expect(request["X-Forwarded-Host"], equals: "gateway.test")
            expect(request["Via"], equals: "2.0 cloakroom")
            expect(!request.head.contains("\r\n:"))
        }
    }

    @Test("RFC 9110 §9.3.2: the response to HEAD ends with its fields, and keeps its content-length")
    func head() async throws {
        let reply = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
        try await GatewaySetup.replying(reply).runHTTP2 { gateway, client in
            let response = try await client.exchange(1, .request("HEAD"))
            expect(response.endedWithFields)
            expect(response["content-length"], equals: "1000")
            try await expect(client.exchange(3, .request("HEAD", "/nowhere")).endedWithFields)
            let long = HTTP2Fields.request("HEAD", "/public/" + String(repeating: "a", count: 9_000))
            try await expect(client.exchange(5, long).status, equals: 414)
        }
    }

    @Test("RFC 9110 §15.3.5, §15.4.5: 204 and 304 end with their fields", arguments: [204, 304])
    func bodiless(status: Int) async throws {
        let reply = "HTTP/1.1 \(status) Nothing\r\nETag: \"a\"\r\n\r\n"
        try await GatewaySetup.replying(reply).http2().run { gateway in
            let response = try await gateway.http2().exchange(1, .get())
            expect(response.status, equals: status)
            expect(response.endedWithFields)
            expect(response["etag"], equals: "\"a\"")
        }
    }

    @Test("Rules 15 and 52, RFC 9113 §8.2.3: cookie fields become one; the session is found in it and removed from it")
    func cookies() async throws {
        let sessions = FakeSessions()
        let cookie = String(sessions.add().dropFirst("Cookie: ".count))
        try await GatewaySetup.serving.with(\.sessions, sessions).http2().run { gateway in
            let response = try await gateway.http2().exchange(
                1, .get("/private/a", ("cookie", "a=1"), ("cookie", cookie), ("x", "y"), ("cookie", "b=2")))
            expect(response.status, equals: 200)
            let request = try await gateway.upstream.request()
            expect(request["Cookie"], equals: "a=1; b=2")
            expect(request["Authorization"], equals: "Bearer \(Canary.accessToken)")
            expect(request["X-API-TOKEN"], equals: Canary.apiToken)
        }
    }

    @Test("RFC 9110 §9.3.6, §9.3.8: plain CONNECT is 501, TRACE is 405, OPTIONS * gets a local response")
    func specialMethods() async throws {
        try await GatewaySetup.serving.runHTTP2 { gateway, client async throws in
            let connect = HTTP2Fields([(":method", "CONNECT"), (":authority", "other.test:443")])
            try await expect(client.exchange(1, connect).status, equals: 501)
            try await expect(client.exchange(3, .request("TRACE")).status, equals: 405)
            try await expect(client.exchange(5, .request("OPTIONS", "*")).status, equals: 204)
            try await expect(client.exchange(7, .request("PATCH")).status, equals: 405)
            expect(empty: gateway.upstream.requests)
        }
    }

    @Test("RFC 9113 §8.3.1: an invalid authority is rejected", arguments: ["", "a b", "user@a.test", "a.test:x"])
    func badAuthority(authority: String) async throws {
        try await GatewaySetup.serving.runHTTP2 { gateway, client in
            let fields = HTTP2Fields([
                (":method", "GET"), (":scheme", "http"), (":path", "/public/a"), (":authority", authority),
            ])
            let response = try await client.exchange(1, fields)
            expect(response.status == 400 || response.reset == .protocolError)
            try await expect(client.exchange(3, .get()).status, equals: 200)
            expect(gateway.upstream.requests.count, equals: 1)
        }
    }
}
