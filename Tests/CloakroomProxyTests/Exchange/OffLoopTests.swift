import CloakroomCore
import NIOCore
import NIOPosix
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Work off the event loop", .serialized)
struct OffLoopTests {
    private static func asking(_ load: FakeSessions.Load) -> GatewaySetup {
        .serving.with(\.sessions, FakeSessions(load: load))
    }

    private static let live = FakeSessions.Load.response(.active(FakeSessions.make().1))
    private static let strange = Ask.get("/private/a", FakeSessions.strangeCookie)
    private static let largeBody = String(repeating: "0123456789", count: 20_000)

    private static func loads(_ count: Int, of setup: GatewaySetup) -> Scenario.Step {
        .run { _ in expect(setup.sessions.loads, equals: count) }
    }

    private static let loaded = asking(live)
    private static let neverAsked = asking(.fail)

    private static let signInBody = String(repeating: "x", count: AccountEndpoint.signIn.bodyLimit)

    private static func chunkedSignIn(_ body: String) -> String {
        Ask.ask("POST", "/auth", ["Transfer-Encoding: chunked"])
            + "\(String(body.utf8.count, radix: 16))\r\n\(body)\r\n0\r\n\r\n"
    }

    private static let rows = [
        Scenario(
            "A request whose session is not cached is forwarded once the session has been loaded", on: loaded,
            .ok(strange), .ok(strange), loads(2, of: loaded),
            sent: [.init(has: ["Authorization: Bearer \(Canary.accessToken)"]), .init()]),
        Scenario(
            "A request body waits while the session is loaded, and arrives complete", on: asking(live),
            .ok(Ask.post("/private/a", FakeSessions.strangeCookie, body: largeBody)), sent: [.init(text: largeBody)]),
        Scenario(
            "Without a cookie the store is not queried", on: neverAsked, .ask(Ask.get("/private/a"), 401),
            loads(0, of: neverAsked)),
        Scenario(
            "The calls of an account request to its upstream are time of the upstream, not of the gateway",
            on: GatewaySetup().with(
                \.endpoints,
                FakeEndpoints { _ in
                    IdentityCallTime.current?.add(nanoseconds: 1_000)
                    return AccountResponse(status: 204)
                }), .ask(Ask.get("/auth")),
            metrics: [#"cloakroom_overhead_seconds_count{route="(accounts)"} 1"#]),
        Scenario(
            "A body too large for an account endpoint is 413", on: GatewaySetup(),
            .each(
                [
                    Ask.ask("POST", "/auth", ["Content-Length: 100000"]),
                    Ask.ask("POST", "/auth", ["Transfer-Encoding: chunked"])
                        + "1388\r\n\(String(repeating: "x", count: 5_000))\r\n",
                    Ask.ask("DELETE", "/auth", ["Content-Length: 1"]) + "x", Ask.post("/auth", body: signInBody + "x"),
                    chunkedSignIn(signInBody + "x"),
                ], 413), .each([Ask.post("/auth", body: signInBody), chunkedSignIn(signInBody)], 200)),
    ]

    private static let missing = UnauthorizedReason.allCases.map { reason in
        Scenario(
            "A request without a valid session gets 401 with the reason, and the upstream receives nothing",
            on: asking(.response(.missing(reason))),
            .ask(strange, 401, "unauthorized", reason: reason.rawValue, has: ["WWW-Authenticate: Session…"]), sent: [],
            metrics: ["cloakroom_unauthorized_responses_total{reason=\"\(reason.rawValue)\"} 1"])
    }

    private static let outages = [FakeSessions.Load.fail, .response(.notCached)].map { load in
        Scenario(
            "A store outage is 503 with Retry-After and never 401: it ends no session", on: asking(load),
            .ask(strange, 503, "store_unavailable", has: ["Retry-After: 1", "Set-Cookie"]),
            .run { expect(empty: $0.upstream.connections) },
            // A store outage does not affect requests that need no session.
            .ok())
    }

    @Test("Sessions that are not cached", arguments: rows + missing + outages)
    func scenario(_ scenario: Scenario) async throws { try await scenario.run() }

    @Test("Pipelined requests wait while an earlier one is suspended, and get their responses in request order")
    func pipelinedBehindParked() async throws {
        try await Self.asking(.response(.active(FakeSessions.make().1))).run { gateway, client async throws in
            client.send(Ask.get("/private/a", FakeSessions.strangeCookie) + Ask.get("/nowhere") + Ask.get())
            try await expect(client.response().text, equals: "ok")
            try await expect(client.response().status, equals: 404)
            try await expect(client.response().text, equals: "ok")
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
        try await Scenario(
            "account endpoint", on: GatewaySetup().with(\.endpoints, endpoints),
            .ask(
                Ask.post(
                    "/auth", "Content-Type: text/plain", "Authorization: Basic eA==", FakeSessions.strangeCookie,
                    body: "hello"),
                text: "signIn|hello|text/plain|Basic eA==|true", has: ["Set-Cookie: a=b", "Cache-Control: no-store"]),
            .ask(Ask.get("/auth"), text: "currentSession||||false"),
            .ask(Ask.ask("DELETE", "/auth"), text: "signOut||||false"),
            .ask(
                Ask.ask("POST", "/auth", ["Transfer-Encoding: chunked"]) + "2\r\nhi\r\n0\r\n\r\n",
                text: "signIn|hi|||false"),
            .ask(Ask.ask("HEAD", "/auth"), has: ["Content-Length: 23"]), sent: []
        ).run()
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
        try await GatewaySetup().with(\.endpoints, endpoints).run { gateway, client in
            client.send(Ask.get("/auth"))
            await asked.passed()
            try await client.close()
            let gauge = "http_server_active_requests{http_request_method=\"GET\",url_scheme=\"http\"} 0"
            try await gateway.metric(gauge)
            gate.open()
            try await expect(gateway.client().exchange(Ask.get("/auth")).text, equals: "{}")
            try await gateway.metric(gauge)
        }
    }

    /// The common event loop of the current thread.
    private static var commonLoop: (any EventLoop)? {
        MultiThreadedEventLoopGroup.singleton.makeIterator().first { $0.inEventLoop }
    }

    @Test("An account request is handled on a common event loop, where its calls return too, always on the same one")
    func executor() async throws {
        let endpoints = FakeEndpoints { _ in
            let first = Self.commonLoop
            await Task.yield()
            async let child = Self.commonLoop
            let others = await [Self.commonLoop, child]
            let isSame = first != nil && others.allSatisfy { $0 === first }
            return AccountResponse(
                status: isSame ? 200 : 500, content: .json(Array((first?.description ?? "").utf8)))
        }
        try await GatewaySetup().with(\.endpoints, endpoints).run { _, client in
            let first = try await client.exchange(Ask.get("/auth"))
            expect(first.status, equals: 200)
            try await expect(client.exchange(Ask.get("/auth")).text, equals: first.text)
        }
    }

    @Test("A task that begins on a common event loop stays there")
    func current() async {
        for number in 0..<3 {
            let isSame = await Task(executorPreference: EventLoopExecutor.forLoop(number)) {
                let first = Self.commonLoop
                return await Task(executorPreference: EventLoopExecutor.current) {
                    first != nil && Self.commonLoop === first
                }.value
            }.value
            expect(isSame)
        }
    }

    @Test("Tasks that always continue do not keep their event loop from its connections", .timeLimit(.minutes(1)))
    func turns() async throws {
        let tasks = (0..<System.coreCount).map { number in
            Task(executorPreference: EventLoopExecutor.forLoop(number)) {
                let end = ContinuousClock.now + .seconds(10)
                while !Task.isCancelled, ContinuousClock.now < end { await Task.yield() }
                return Task.isCancelled
            }
        }
        try await RawServer.run { port, server in
            let client = try await RawPeer.connect(port: port, sending: "a")
            try await expect(server.peer().text(1), equals: "a")
            try await client.close()
        }
        for task in tasks {
            task.cancel()
            await expect(task.value)
        }
    }

    @Test("A wait ends with its duration, or at once if its task is cancelled before or during it")
    func sleep() async throws {
        try await EventLoopExecutor.sleep(for: .zero)
        for isLate in [false, true] {
            let begun = Gate()
            let task = Task {
                if !isLate { await begun.passed() }
                try await EventLoopExecutor.sleep(for: .seconds(3_600))
            }
            if isLate { await Task.yield() }
            task.cancel()
            begun.open()
            await #expect(throws: (any Error).self) { try await task.value }
        }
    }
}
