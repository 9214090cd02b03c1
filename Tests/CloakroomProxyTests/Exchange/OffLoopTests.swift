import CloakroomCore
import TestSupport
import Testing

@Suite("Work off the event loop", .serialized)
struct OffLoopTests {
    private static func asking(_ load: FakeSessions.Load) -> GatewaySetup {
        GatewaySetup([.request, .send(Reply.ok), .again]).with(\.sessions, FakeSessions(load: load))
    }

    @Test("A request whose session is not cached is forwarded once the session has been loaded")
    func live() async throws {
        let setup = Self.asking(.response(.active(FakeSessions.make().1)))
        try await setup.run { gateway in
            let client = try await gateway.client()
            for _ in 0..<2 {
                let response = try await client.exchange(Ask.get("/private/a", FakeSessions.strangeCookie))
                #expect(response.text == "ok")
            }
            #expect(setup.sessions.loads == 2)
            #expect(gateway.upstream.requests[0].values("Authorization") == ["Bearer \(Canary.accessToken)"])
        }
    }

    @Test("A request body waits while the session is loaded, and arrives complete")
    func liveWithBody() async throws {
        let body = String(repeating: "0123456789", count: 20_000)
        try await Self.asking(.response(.active(FakeSessions.make().1))).run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.post("/private/a", FakeSessions.strangeCookie, body: body))
            #expect(response.text == "ok")
            #expect(gateway.upstream.requests[0].text == body)
        }
    }

    @Test(
        "A request without a valid session gets 401 with the reason, and the upstream receives nothing",
        arguments: UnauthorizedReason.allCases)
    func none(reason: UnauthorizedReason) async throws {
        try await Self.asking(.response(.missing(reason))).run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get("/private/a", FakeSessions.strangeCookie))
            #expect(response.status == 401)
            #expect(response.code == "unauthorized")
            #expect(response.problemReason == reason.rawValue)
            #expect(response["WWW-Authenticate"]?.hasPrefix("Session") == true)
            #expect(gateway.upstream.connections.isEmpty)
            try await gateway.metric("cloakroom_unauthorized_responses_total{reason=\"\(reason.rawValue)\"} 1")
        }
    }

    @Test(
        "A store outage is 503 with Retry-After and never 401: it ends no session",
        arguments: [true, false])
    func unavailable(fails: Bool) async throws {
        try await Self.asking(fails ? .fail : .response(.notCached)).run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get("/private/a", FakeSessions.strangeCookie))
            #expect(response.status == 503)
            #expect(response.code == "store_unavailable")
            #expect(response["Retry-After"] == "1")
            #expect(response.values("Set-Cookie").isEmpty)
            #expect(gateway.upstream.connections.isEmpty)
            // A store outage does not affect requests that need no session.
            #expect(try await client.exchange(Ask.get()).text == "ok")
        }
    }

    @Test("The calls of an account request to its upstream are time of the upstream, not of the gateway")
    func identityCalls() async throws {
        let endpoints = FakeEndpoints { _ in
            IdentityCallTime.current?.add(nanoseconds: 1_000)
            return AccountResponse(status: 204)
        }
        try await GatewaySetup().with(\.endpoints, endpoints).run { gateway in
            let client = try await gateway.client()
            _ = try await client.exchange(Ask.get("/auth"))
            try await gateway.metric(#"cloakroom_overhead_seconds_count{route="(accounts)"} 1"#)
        }
    }

    @Test("Without a cookie the store is not queried")
    func noCookie() async throws {
        let setup = Self.asking(.fail)
        try await setup.run { gateway in
            let response = try await gateway.client().exchange(Ask.get("/private/a"))
            #expect(response.status == 401)
            #expect(setup.sessions.loads == 0)
        }
    }

    @Test("Pipelined requests wait while an earlier one is suspended, and get their responses in request order")
    func pipelinedBehindParked() async throws {
        try await Self.asking(.response(.active(FakeSessions.make().1))).run { gateway in
            let client = try await gateway.client()
            client.send(Ask.get("/private/a", FakeSessions.strangeCookie) + Ask.get("/nowhere") + Ask.get())
            #expect(try await client.response().text == "ok")
            #expect(try await client.response().status == 404)
            #expect(try await client.response().text == "ok")
        }
    }

    @Test("An account endpoint receives the request data it needs, and its response is sent unchanged")
    func accountEndpoint() async throws {
        let endpoints = FakeEndpoints { request in
            let text = [
                "\(request.endpoint)", String(decoding: request.body.bytes, as: UTF8.self), request.contentType ?? "",
                String(decoding: request.authorization?.bytes ?? [], as: UTF8.self), "\(request.ticket != nil)",
            ].joined(separator: "|")
            return AccountResponse(status: 200, fields: [.init("Set-Cookie", "a=b")], content: .json(Array(text.utf8)))
        }
        try await GatewaySetup().with(\.endpoints, endpoints).run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(
                Ask.post(
                    "/auth", "Content-Type: text/plain", "Authorization: Basic eA==", FakeSessions.strangeCookie,
                    body: "hello"))
            #expect(response.text == "signIn|hello|text/plain|Basic eA==|true")
            #expect(response["Set-Cookie"] == "a=b")
            #expect(response["Cache-Control"] == "no-store")
            #expect(try await client.exchange(Ask.get("/auth")).text == "currentSession||||false")
            #expect(try await client.exchange("DELETE /auth HTTP/1.1\r\nHost: a\r\n\r\n").text == "signOut||||false")
            let chunked = "POST /auth HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
            #expect(try await client.exchange(chunked).text == "signIn|hi|||false")
            let head = try await client.exchange("HEAD /auth HTTP/1.1\r\nHost: a\r\n\r\n", isToHead: true)
            #expect(head["Content-Length"] == "23")
            #expect(gateway.upstream.connections.isEmpty)
        }
    }

    @Test("A body too large for an account endpoint is 413")
    func ownBodyTooLarge() async throws {
        try await GatewaySetup().run { gateway in
            for request in [
                "POST /auth HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n",
                "POST /auth HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1388\r\n"
                    + String(repeating: "x", count: 5_000) + "\r\n",
                "DELETE /auth HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
            ] {
                let response = try await gateway.client().exchange(request)
                #expect(response.status == 413, "\(request.prefix(60))")
            }
        }
    }

    @Test("A client that disconnects while its session is loaded has no effect on other requests")
    func goneMeanwhile() async throws {
        let gate = Gate()
        let asked = Gate()
        let endpoints = FakeEndpoints { _ in
            asked.open()
            await gate.passed()
            return AccountResponse(status: 200, content: .json(Array("{}".utf8)))
        }
        try await GatewaySetup().with(\.endpoints, endpoints).run { gateway in
            let client = try await gateway.client()
            client.send(Ask.get("/auth"))
            await asked.passed()
            try await client.close()
            let gauge = "http_server_active_requests{http_request_method=\"GET\",url_scheme=\"http\"} 0"
            try await gateway.metric(gauge)
            gate.open()
            #expect(try await gateway.client().exchange(Ask.get("/auth")).text == "{}")
            try await gateway.metric(gauge)
        }
    }
}
