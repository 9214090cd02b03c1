import CloakroomCore
import NIOCore
import TestSupport
import Testing

@Suite("Limits of requests in flight", .serialized)
struct RequestCapsTests {
    private let gate = Gate()

    private static func metric(_ cap: String, _ count: Int) -> String {
        "cloakroom_client_cap_total{cap=\"\(cap)\"} \(count)"
    }

    @Test("Rule 63: requests of one address beyond the limit are 429, over all its connections, until others end")
    func address() async throws {
        try await GatewaySetup([.request, .wait(gate), .send(Reply.ok), .again])
            .http2 { $0.limits.inFlightPerAddress = 3 }
            .run { gateway async throws in
                let first = try await gateway.client()
                let streams = try await gateway.http2()
                first.send(Ask.get())
                // A body that is not complete counts.
                streams.send(.headers(1, .get()), .headers(3, .post("/public/a", ("content-length", "5")), ends: false))
                try await eventually("two requests") { gateway.upstream.requests.count == 2 }
                let second = try await gateway.client()
                let rejected = try await second.exchange(Ask.get())
                expect(rejected.problem, equals: "429 too_many_requests")
                expect(rejected["Retry-After"], equals: "1")
                try await expect(streams.exchange(5, .get()).status, equals: 429)
                // Local responses are not counted.
                try await expect(second.exchange(Ask.get("/nowhere")).status, equals: 404)
                try await gateway.metric(Self.metric("address", 2))
                gate.open()
                try await expect(first.response().text, equals: "ok")
                streams.send(.data(3, "hello", ends: true))
                try await expect(streams.response(3).text, equals: "ok")
                try await expect(streams.response(1).text, equals: "ok")
                for _ in 0..<5 { try await expect(second.exchange(Ask.get()).text, equals: "ok") }
            }
    }

    @Test("Rule 63: a request to an account endpoint counts before its body is complete")
    func incompleteAccountRequest() async throws {
        try await GatewaySetup.serving.http2 { $0.limits.inFlightPerAddress = 3 }.run { gateway async throws in
            let streams = try await gateway.http2()
            let fields = HTTP2Fields.post("/auth", ("content-length", "5"))
            for id in [1, 3, 5] as [UInt32] { streams.send(.headers(id, fields, ends: false)) }
            try await expect(streams.exchange(7, .get()).status, equals: 429)
            try await expect(streams.exchange(9, .get("/auth")).status, equals: 429)
            streams.send(.data(1, "hello", ends: true), .reset(3))
            try await expect(streams.response(1).status, equals: 200)
            for id in [11, 13] as [UInt32] { try await expect(streams.exchange(id, .get()).text, equals: "ok") }
        }
    }

    @Test(
        "Rule 63: requests that wait for the session store or an account endpoint count, also if their clients leave",
        arguments: ["/private/a", "/auth"])
    func suspended(path: String) async throws {
        let cookie = FakeSessions.strangeCookie
        try await GatewaySetup.serving
            .with(\.sessions, FakeSessions(load: .wait(gate, .active(FakeSessions.make().1))))
            .with(
                \.endpoints,
                FakeEndpoints { _ in
                    await gate.passed()
                    return AccountResponse(status: 200, content: .json(Array("{}".utf8)))
                }
            )
            .http2 { $0.limits.inFlightPerAddress = 3 }
            .run { gateway async throws in
                let clients = [try await gateway.client(), try await gateway.client()]
                for client in clients {
                    client.send(Ask.get(path, cookie))
                    await gate.waitForArrival()
                }
                let streams = try await gateway.http2()
                let fields = HTTP2Fields.get(path, ("cookie", String(cookie.dropFirst("Cookie: ".count))))
                streams.send(.headers(1, fields))
                await gate.waitForArrival()
                let other = try await gateway.client()
                try await expect(other.exchange(Ask.get(path, cookie)).code, equals: "too_many_requests")
                try await expect(streams.exchange(3, fields).status, equals: 429)
                try await expect(other.exchange(Ask.get()).status, equals: 429)
                // Their clients leave, in both versions; the work continues.
                for client in clients { try await client.close() }
                streams.send(.reset(1), .headers(5, fields))
                try await expect(streams.response(5).status, equals: 429)
                await gateway.settle()
                try await expect(other.exchange(Ask.get()).status, equals: 429)
                gate.open()
                try await eventually("the work is done") { try await other.exchange(Ask.get()).status == 200 }
                for _ in 0..<5 { try await expect(other.exchange(Ask.get(path, cookie)).status, equals: 200) }
            }
    }

    @Test("Rule 63: behind a trusted proxy each client of a connection has a limit of its own")
    func forwarded() async throws {
        try await GatewaySetup([.request, .wait(Gate())]).configuration {
            $0.limits.inFlightPerAddress = 1
            $0.trustedProxies = [CIDRBlock("127.0.0.1")].compactMap(\.self)
        }
        .run { gateway async throws in
            func status(_ address: String) async throws -> Int? {
                let client = try await gateway.client()
                client.send(Ask.get("/public/a", "X-Forwarded-For: 192.0.2.77, \(address)"))
                let before = gateway.upstream.requests.count
                try await eventually("a result") { gateway.upstream.requests.count > before || !client.unread.isEmpty }
                return client.unread.isEmpty ? nil : try await client.response().status
            }
            let expected: [(String, Int?)] = [
                ("192.0.2.1", nil), ("192.0.2.1", 429), ("192.0.2.2", nil), ("2001:db8::1", nil), ("2001:db8::2", 429),
            ]
            for (address, expected) in expected {
                let status = try await status(address)
                expect(status, equals: expected, "\(address)")
            }
        }
    }

    @Test("Rule 63: requests of one session beyond the limit are 429, those of others are served")
    func session() async throws {
        try await GatewaySetup([.request, .wait(gate), .send(Reply.ok), .again])
            .configuration { $0.limits.inFlightPerSession = 1 }
            .run { gateway async throws in
                let other = gateway.sessions.add()
                let first = try await gateway.client(sending: Ask.get("/private/a", Ask.cookie))
                try await eventually("a request") { gateway.upstream.requests.count == 1 }
                let second = try await gateway.client()
                try await expect(second.exchange(Ask.get("/private/a", Ask.cookie)).status, equals: 429)
                second.send(Ask.get("/private/a", other))
                try await eventually("a request") { gateway.upstream.requests.count == 2 }
                gate.open()
                try await expect(second.response().text, equals: "ok")
                try await expect(first.response().text, equals: "ok")
                try await expect(second.exchange(Ask.get("/private/a", Ask.cookie)).text, equals: "ok")
                try await gateway.metric(Self.metric("session", 1))
            }
    }

    @Test("A route that is full responds with 503, and is served again when a client has left")
    func route() async throws {
        try await GatewaySetup([.request, .wait(Gate())], [.request, .send(Reply.ok), .again])
            .configuration { $0.routes[0].inFlight = 1 }
            .run { gateway async throws in
                let first = try await gateway.client(sending: Ask.get())
                try await eventually("a request") { gateway.upstream.requests.count == 1 }
                let second = try await gateway.client()
                let rejected = try await second.exchange(Ask.get())
                expect(rejected.problem, equals: "503 overloaded")
                expect(rejected["Retry-After"], equals: "1")
                try await expect(second.exchange(Ask.get("/token/a")).text, equals: "ok")
                try await gateway.metric(Self.metric("route", 1))
                try await first.close()
                try await gateway.upstream.closed()
                try await expect(second.exchange(Ask.get()).text, equals: "ok")
            }
    }

    @Test("Requests in flight on a route count after reloads until they end, and no longer")
    func reloaded() async throws {
        try await GatewaySetup([.request, .wait(gate), .send(Reply.ok), .again])
            .configuration { $0.routes[0].inFlight = 1 }
            .run { gateway async throws in
                let first = try await gateway.client(sending: Ask.get())
                try await eventually("a request") { gateway.upstream.requests.count == 1 }
                for _ in 0..<2 {
                    try await gateway.replace { _ in }
                    try await expect(gateway.client().exchange(Ask.get()).problem, equals: "503 overloaded")
                }
                gate.open()
                try await expect(first.response().text, equals: "ok")
                try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok")
            }
    }

    @Test("Rule 63: a count includes requests with earlier tokens of the session, and returns to 0")
    func refreshed() async throws {
        let (ticket, stale) = FakeSessions.make("Bearer stale", refreshToken: "r")
        let tokens = TokenSet(authorization: Secret("Bearer fresh"), obtainedAt: WallTime(seconds: 1))
        let fresh = stale.refreshed(with: SessionUpdate(tokens: tokens))
        let setup = GatewaySetup(
            [.request, .send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")], [.request, .send(Reply.ok)]
        ).with(\.refresher, FakeRefresher { _, _ in .active(fresh) }).configuration {
            $0.limits.inFlightPerSession = 5
        }
        setup.sessions.add((ticket, stale))
        try await Scenario("refreshed", on: setup, .ok(Ask.get("/private/a", FakeSessions.cookie(ticket)))).run()
        expect(stale.beginRequest(limit: 1))
        expect(!fresh.beginRequest(limit: 1))
        stale.endRequest()
        expect(fresh.beginRequest(limit: 1))
    }
}
