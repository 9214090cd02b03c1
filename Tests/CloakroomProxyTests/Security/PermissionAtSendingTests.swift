import CloakroomCore
import NIOCore
import TestSupport
import Testing

@Suite("A request is sent with the session that is valid then", .serialized)
struct PermissionAtSendingTests {
    private static let ok: [ScriptedUpstream.Step] = [.request, .send(Reply.ok), .again]

    /// What happens to the session while the request waits.
    enum Change: CaseIterable, Sendable {
        case none, ended, refreshed, notCached, endedElsewhere, storeFails

        func apply(to sessions: FakeSessions) async throws {
            switch self {
            case .none: break
            case .ended: _ = try await sessions.end(Ask.ticket, reason: .revoked, now: SessionTime(seconds: 0))
            case .refreshed: sessions.add((Ask.ticket, FakeSessions.make("Bearer next", version: 2).1))
            case .notCached:
                let session = sessions.lookup(Ask.ticket, now: SessionTime(seconds: 0), slides: false)
                sessions.forget(load: .response(session))
            case .endedElsewhere: sessions.forget(load: .response(.missing(.revoked)))
            case .storeFails: sessions.forget(load: .fail)
            }
        }

        var status: Int {
            switch self {
            case .none, .refreshed, .notCached: 200
            case .ended, .endedElsewhere: 401
            case .storeFails: 503
            }
        }

        /// The token that the upstream receives.
        var authorization: String? {
            switch self {
            case .none, .notCached: "Bearer \(Canary.accessToken)"
            case .refreshed: "Bearer next"
            case .ended, .endedElsewhere, .storeFails: nil
            }
        }
    }

    @Test("Rule 79: while its body is buffered", arguments: Change.allCases, [false, true])
    func body(change: Change, isHTTP2: Bool) async throws {
        try await GatewaySetup(Self.ok).configuration { $0.routes[2].methods.append("POST") }
            .http2().steppedTime().run { gateway in
                let status: Int?
                if isHTTP2 {
                    let client = try await gateway.http2()
                    let request = HTTP2Fields.post("/private/a", ("content-length", "5"), ("cookie", Ask.cookieValue))
                    client.send(.headers(1, request, ends: false), .data(1, "he"))
                    await gateway.settle()
                    try await change.apply(to: gateway.sessions)
                    try await gateway.advance(.seconds(2))
                    client.send(.data(1, "llo", ends: true))
                    status = try await client.response(1).status
                } else {
                    let client = try await gateway.client()
                    client.send("POST /private/a HTTP/1.1\r\nHost: a\r\n\(Ask.cookie)\r\nContent-Length: 5\r\n\r\nhe")
                    await gateway.settle()
                    try await change.apply(to: gateway.sessions)
                    try await gateway.advance(.seconds(2))
                    client.send("llo")
                    status = try await client.response().status
                    // The connection continues.
                    try await expect(client.exchange(Ask.get()).text, equals: "ok")
                }
                expect(status, equals: change.status)
                let request = gateway.upstream.requests.first { $0.line.hasPrefix("POST") }
                expect(request?["Authorization"], equals: change.authorization)
                expect(request == nil || request?.text == "hello")
            }
    }

    @Test("Rule 79: while it waits for a connection", arguments: Change.allCases)
    func queue(change: Change) async throws {
        let gate = Gate()
        try await GatewaySetup([.request, .wait(gate), .send(Reply.ok)] + Self.ok)
            .configuration {
                $0.upstreams[0].pool.maxConnections = 1
                $0.upstreams[0].pool.congestedAfter = .seconds(60)
            }
            .steppedTime().run { gateway in
                let first = try await gateway.client(sending: Ask.get())
                try await eventually("the first request") { gateway.upstream.requests.count == 1 }
                let second = try await gateway.client(sending: Ask.get("/private/a", Ask.cookie))
                await gateway.settle()
                try await change.apply(to: gateway.sessions)
                try await gateway.advance(.seconds(2))
                gate.open()
                try await expect(first.response().text, equals: "ok")
                try await expect(second.response().status, equals: change.status)
                // The connection was not lost by it.
                try await expect(first.exchange(Ask.get()).text, equals: "ok")
                let requests = gateway.upstream.requests.filter { $0.line.contains("private") }
                expect(requests.map { $0["Authorization"] }, equals: change.authorization.map { [$0] } ?? [])
                expect(gateway.upstream.connections.count, equals: 1)
            }
    }

    @Test("Rule 79: a sign-out while thousands of requests of the session wait exhausts no stack")
    func thousands() async throws {
        let gate = Gate()
        try await GatewaySetup([.request, .wait(gate), .send(Reply.ok)] + Self.ok)
            .http2 {
                $0.upstreams[0].pool.maxConnections = 1
                $0.upstreams[0].pool.maxPending = 10_000
                $0.upstreams[0].pool.pendingTimeout = .seconds(120)
                $0.upstreams[0].pool.congestedAfter = .seconds(120)
                $0.limits.inFlightPerAddress = 0
                $0.limits.inFlightPerSession = 0
            }
            .run { gateway in
                let first = try await gateway.client(sending: Ask.get())
                try await eventually("the first request") { gateway.upstream.requests.count == 1 }
                let ids = (0..<100).map { UInt32(2 * $0 + 1) }
                var clients: [HTTP2Client] = []
                for _ in 0..<40 {
                    let client = try await gateway.http2()
                    client.send(ids.map { .headers($0, .get("/private/a", ("cookie", Ask.cookieValue))) })
                    clients.append(client)
                }
                try await gateway.metric("cloakroom_upstream_pending_requests{upstream=\"api\"} 4000")
                try await Change.ended.apply(to: gateway.sessions)
                gate.open()
                for client in clients {
                    for id in ids { try await expect(client.response(id).status, equals: 401) }
                }
                try await expect(first.response().text, equals: "ok")
                try await expect(first.exchange(Ask.get()).text, equals: "ok")
            }
    }

    @Test("Rule 79: on a route with an optional session the request is sent without one")
    func optional() async throws {
        try await GatewaySetup(Self.ok).configuration {
            $0.routes[2].methods.append("POST")
            $0.routes[2].requiresAuthorization = false
            $0.limits.inFlightPerSession = 1
        }
        .steppedTime().run { gateway, client in
            client.send("POST /private/a HTTP/1.1\r\nHost: a\r\n\(Ask.cookie)\r\nContent-Length: 5\r\n\r\nhe")
            await gateway.settle()
            let session = try await gateway.sessions.end(Ask.ticket, reason: .revoked, now: SessionTime(seconds: 0))
            try await gateway.advance(.seconds(1))
            client.send("llo")
            try await expect(client.response().status, equals: 200)
            expect(gateway.upstream.requests[0]["Authorization"], equals: nil)
            // The session object is not counted any more.
            gateway.sessions.add((Ask.ticket, try require(session)))
            try await expect(client.exchange(Ask.get("/private/a", Ask.cookie)).status, equals: 200)
        }
    }
}
