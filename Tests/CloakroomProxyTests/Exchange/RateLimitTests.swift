import CloakroomCore
import CloakroomTelemetry
import NIOHPACK
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Rate limits of requests", .serialized)
struct RateLimitTests {
    /// A limit of one request a second in the long run.
    private static func limit(
        _ name: String = "few", by subject: RateLimit.Subject = .address, burst: Int = 2,
        _ change: (inout RateLimit) -> Void = { _ in }
    ) -> RateLimit {
        var limit = RateLimit(name: name)
        limit.subject = subject
        limit.requests = RequestRate(60, per: .minute)
        limit.givenBurst = burst
        change(&limit)
        return limit
    }

    /// The time advances only by steps of the test.
    private static func setup(_ change: @escaping @Sendable (inout GatewayConfiguration) -> Void) -> GatewaySetup {
        GatewaySetup.serving.configuration(change).steppedTime()
    }

    /// A gateway with a limit on all routes.
    private static func limited(
        _ limits: RateLimit..., change: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in }
    ) -> GatewaySetup {
        setup { configuration in
            configuration.rateLimits = limits
            for index in configuration.routes.indices { configuration.routes[index].rate = limits.map(\.name) }
            change(&configuration)
        }
    }

    /// A gateway with a limit on all requests, also those that no route serves.
    private static func general(
        burst: Int = 1, change: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in }
    ) -> GatewaySetup {
        setup {
            $0.rateLimits = [limit(burst: burst)]
            $0.limits.rate = ["few"]
            change(&$0)
        }
    }

    private static func metric(_ outcome: String, _ count: Int, of limit: String = "few") -> String {
        #"cloakroom_rate_limit_total{limit="\#(limit)",outcome="\#(outcome)"} \#(count)"#
    }

    private static func from(_ clients: String, _ path: String = "/public/a", _ fields: String...) -> String {
        Ask.ask("GET", path, ["X-Forwarded-For: \(clients)"] + fields)
    }

    private static func behindProxy(_ configuration: inout GatewayConfiguration) {
        configuration.trustedProxies = [CIDRBlock("127.0.0.1")].compactMap(\.self)
    }

    private static let mine = Ask.get("/private/a", Ask.cookie)

    private static let addressRows = [
        Scenario(
            "Rule 82: beyond the burst of an address all its connections get 429, with the fields of the draft",
            on: limited(limit()), .each([Ask.get(), Ask.get("/token/a")], 200),
            .each(
                [Ask.get()], 429, "rate_limited",
                text: "{\"type\":\"urn:cloakroom:problem:rate_limited\",\"title\":\"Too Many Requests\",\"status\":429,"
                    + "\"detail\":\"Too many requests. Try again later.\",\"code\":\"rate_limited\","
                    + "\"violated-policies\":[\"few\"],\"request_id\":\"…\"}\n",
                has: [
                    "Retry-After: 1", "RateLimit-Policy: \"few\";q=2;w=2", "RateLimit: \"few\";r=0;t=1",
                    "Content-Type: application/problem+json", "Cache-Control: no-store",
                ]),
            .run { try await $0.advance(.seconds(1)) }, .ok(has: ["RateLimit", "RateLimit-Policy"]),
            .ask(Ask.get(), 429, has: ["Retry-After: 1"]),
            sent: ["GET /public/a …", "GET /token/a …", "GET /public/a …"],
            metrics: [metric("allowed", 3), metric("rejected", 2), metric("observed", 0)], alsoHTTP2: true),
        Scenario(
            "Rule 82: all event loops share one bucket",
            on: limited(limit(burst: 6)) { $0.eventLoops = 3 }, .each([String](repeating: Ask.get(), count: 6), 200),
            .each([String](repeating: Ask.get(), count: 6), 429), metrics: [metric("allowed", 6)]),
        Scenario(
            "A route without a limit is not limited, and a path without a route is not counted",
            on: limited(limit(burst: 1)) { $0.routes[1].rate = [] }, .ok(), .ask(Ask.get("/nowhere"), 404),
            .ask(Ask.get(), 429), .ok(Ask.get("/token/a")), .ok(Ask.get("/token/a")), alsoHTTP2: true),
        Scenario(
            "limits.rate counts every request, also those that no route serves",
            on: general(burst: 3), .ask(Ask.get("/nowhere"), 404), .ask(Ask.get("/auth"), 200),
            .ask(Ask.ask("OPTIONS", "*"), 204),
            .all(
                [
                    Ask.get("/nowhere"), Ask.get("/auth"), Ask.get(), Ask.ask("OPTIONS", "*"),
                    Ask.ask("PATCH", "/public/a"), Ask.ask("TRACE", "/public/a"),
                    Ask.ask("OPTIONS", "/public/a", ["Max-Forwards: 0"]),
                ], 429, "rate_limited"), sent: [], metrics: [metric("rejected", 7)]),
        Scenario(
            "Rule 82: limits.rate counts requests that are never served, and their connections end",
            on: general(), .ok(),
            .each(
                [
                    Ask.ask("CONNECT", "gateway.test:443"), Ask.get("*"), Ask.get("//evil"),
                    "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
                    // Whether its body follows is unknown.
                    Ask.ask("OPTIONS", "*", ["Content-Length: 5", "Expect: 100-continue"]),
                ], 429, "rate_limited", has: ["Connection: close"]), metrics: [metric("rejected", 5)]),
        Scenario(
            "limits.rate counts requests that a listener redirects",
            on: general {
                $0.accounts.publicURL = "https://gateway.test"
                $0.listeners[0].redirectToHTTPS = 443
            }, .ask(Ask.get(), 308), .ask(Ask.get(), 429, has: ["Location"])),
        Scenario(
            "Preflights and logout requests of providers are not counted",
            on: general {
                $0.addCompany()
                $0.crossSite.corsOrigins = ["https://app.test"]
            }, .ok(),
            .ask(
                Ask.ask(
                    "OPTIONS", "/public/a", ["Origin: https://app.test", "Access-Control-Request-Method: GET"]), 204),
            .ask(Ask.post("/auth/backchannel"), 200),
            .ask(
                Ask.get("/public/a", "Origin: https://app.test"), 429,
                has: ["Access-Control-Allow-Origin: https://app.test"]), metrics: [metric("allowed", 1)]),
        Scenario(
            "Rule 82: behind a trusted proxy the client that it reports counts, whatever the client claims",
            on: limited(limit(burst: 1), change: behindProxy), .ok(from("192.0.2.1")),
            .all([from("192.0.2.1"), from("198.51.100.7, 192.0.2.1"), from("192.0.2.2, 192.0.2.1")], 429),
            .ok(from("192.0.2.2")), .ok(from("2001:db8::1")), .ask(from("2001:db8::2"), 429), alsoHTTP2: true),
        Scenario(
            "Rule 82: without trusted proxies the fields of a client do not select the address",
            on: limited(limit(burst: 1)) { $0.limits.rateFields = .always },
            .ok(from("192.0.2.1"), has: ["RateLimit: \"few\";r=0;t=1"]), .ask(from("192.0.2.2"), 429)),
        Scenario(
            "Rule 82: the /48 of an IPv6 address has 16 times the limit",
            on: limited(limit(burst: 1), change: behindProxy),
            .all((0..<16).map { from("2001:db8:1:\($0)::1") }, 200), .ask(from("2001:db8:1:16::1"), 429),
            .ok(from("2001:db8:2::1")),
            // The /48 rejected it, so its own bucket is complete.
            .run { try await $0.advance(.milliseconds(63)) }, .ok(from("2001:db8:1:16::1"))),
        Scenario(
            "A limit by route counts all clients together, but each route by itself",
            on: limited(limit(by: .route, burst: 1), change: behindProxy), .ok(from("192.0.2.1")),
            .ask(from("192.0.2.2"), 429), .ok(from("192.0.2.2", "/token/a"))),
        Scenario(
            "Limits by route that have the names of their routes are independent",
            on: limited(limit("public", by: .route, burst: 1), limit("token", by: .route, burst: 1)) {
                for index in 0..<2 { $0.routes[index].rate = [$0.routes[index].name] }
            }, .ok(), .ok(Ask.get("/token/a")), .all([Ask.get(), Ask.get("/token/a")], 429)),
        Scenario(
            "Of several limits only those of permitted requests count as allowed",
            on: limited(limit("wide", burst: 4), limit(burst: 1)), .ok(), .ask(Ask.get(), 429),
            metrics: [metric("allowed", 1, of: "wide"), metric("allowed", 1), metric("rejected", 1)]),
        Scenario(
            "A limit that is not enforced only counts", on: limited(limit(burst: 1) { $0.isEnforced = false }),
            .ok(has: ["RateLimit"]), .ok(), .ok(), metrics: [metric("allowed", 1), metric("observed", 2)]),
        Scenario(
            "A route has a message of its own",
            on: limited(limit(burst: 1)) { $0.routes[0].messages = [.rateLimited: "Slow down."] }, .ok(),
            .ask(Ask.get(), 429, text: "…\"detail\":\"Slow down.\"…")),
        Scenario(
            "The message of a route is also that of limits.rate",
            on: general { $0.routes[0].messages = [.rateLimited: "Slow down."] }, .ok(),
            .ask(Ask.get(), 429, text: "…\"detail\":\"Slow down.\"…\"violated-policies\":[\"few\"]…"),
            .ask(Ask.get("/token/a"), 429, lacks: ["Slow down."])),
        Scenario(
            "A limit with another rate begins anew",
            on: limited(limit(burst: 1) { $0.requests = RequestRate(1, per: .hour) }), .ok(), .ask(Ask.get(), 429),
            .replace { $0.rateLimits[0].requests = RequestRate(600, per: .minute) }, .ok()),
        Scenario(
            "The table survives a reload, with limits by name",
            on: limited(limit(burst: 2)), .ok(),
            .replace { configuration in
                configuration.rateLimits.insert(limit("other", burst: 9), at: 0)
                configuration.limits.rate = ["other"]
            }, .ok(), .ask(Ask.get(), 429),
            .replace { configuration in
                configuration.rateLimits = []
                for index in configuration.routes.indices { configuration.routes[index].rate = [] }
            }, .ok(), .replace { _ in }, .ask(Ask.get(), 429)),
        Scenario(
            "Fields in all responses, from the gateway and the upstream",
            on: limited(limit("wide", burst: 5), limit(burst: 2)) { $0.limits.rateFields = .always },
            .ok(
                has: [
                    "RateLimit-Policy: \"wide\";q=5;w=5", "RateLimit-Policy: \"few\";q=2;w=2",
                    "RateLimit: \"wide\";r=4;t=1", "RateLimit: \"few\";r=1;t=1",
                ]),
            .ask(Ask.get("/private/a"), 401, has: ["RateLimit: \"wide\";r=3;t=2", "RateLimit: \"few\";r=0;t=2"]),
            .ask(Ask.get(), 429, has: ["RateLimit-Policy: \"few\";q=2;w=2", "RateLimit: \"few\";r=0;t=1"]),
            .run { try await $0.advance(.seconds(1)) },
            // The rejected request was charged to neither.
            .ok(has: ["RateLimit: \"wide\";r=3;t=2", "RateLimit: \"few\";r=0;t=2"]), alsoHTTP2: true),
        Scenario(
            "No fields but Retry-After", on: limited(limit(burst: 1)) { $0.limits.rateFields = .none }, .ok(),
            .ask(Ask.get(), 429, has: ["Retry-After: 1", "RateLimit", "RateLimit-Policy"]), alsoHTTP2: true),
    ]

    @Test("Limits by address and by route, and the fields that report them", arguments: addressRows)
    func addresses(_ row: Scenario) async throws { try await row.run() }

    private static let other = FakeSessions.make()
    private static let tenants = ["t1", "t1", "t2"].map {
        Company.session(claims: "{\"groups\":[\"staff\"],\"plan\":\"free\",\"tenant\":\"\($0)\"}")
    }
    private static let paid = Company.session(claims: #"{"plan":"paid"}"#)

    private static func withSessions(_ setup: GatewaySetup) -> GatewaySetup {
        for made in tenants + [paid, other] { setup.sessions.add(made) }
        return setup
    }

    private static func ask(_ made: (SessionTicket, Session)) -> String {
        Ask.get("/private/a", FakeSessions.cookie(made.0))
    }

    /// A gateway with a limit on the route that requires a session.
    private static func sessionLimited(
        _ limits: RateLimit..., change: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in }
    ) -> GatewaySetup {
        withSessions(
            setup { configuration in
                configuration.rateLimits = limits
                configuration.routes[2].rate = limits.map(\.name)
                change(&configuration)
            })
    }

    private static let sessionRows = [
        Scenario(
            "A limit by session counts each session, and requests without a valid one by address",
            on: sessionLimited(limit(by: .session, burst: 1)) { $0.limits.rateFields = .always },
            .ok(mine, has: ["RateLimit-Policy: \"few\";q=1;w=1", "RateLimit: \"few\";r=0;t=1"]),
            .ask(mine, 429, "rate_limited", has: ["Set-Cookie", "RateLimit: \"few\";r=0;t=1"]), .ok(ask(other)),
            .ask(Ask.get("/private/a"), 401),
            .all([Ask.get("/private/b"), Ask.get("/private/a", FakeSessions.strangeCookie)], 429),
            metrics: [metric("allowed", 3), metric("rejected", 3)], alsoHTTP2: true),
        Scenario(
            "Rule 82: a limit by route counts no requests without a session where one is required",
            on: sessionLimited(limit(by: .route, burst: 1)),
            .all(["/private/a", "/private/b"].map { Ask.get($0) }, 401),
            .ok(mine), .ask(ask(other), 429)),
        Scenario(
            "A request whose session lacks a claim is counted by address, and is a use of it",
            on: sessionLimited(limit(by: .session, burst: 1)) {
                $0.addCompany()
                $0.changePrivate { $0.require = SessionRequirement(claims: [.init("plan", in: ["free"])]) }
            }, .ask(ask(paid), 403, "missing_claim"), .run { expect($0.sessions.uses, equals: 1) },
            .ask(ask(paid), 429),
            .run { expect($0.sessions.uses, equals: 1) }),
        Scenario(
            "A limit by account counts all its sessions together",
            on: sessionLimited(limit(by: .account, burst: 1)), .ok(mine), .ask(ask(other), 429), alsoHTTP2: true),
        Scenario(
            "The sessions of a connection are counted by themselves, in turn and across reloads",
            on: sessionLimited(limit(by: .session, burst: 2)), .ok(mine), .ok(ask(other)), .ok(mine), .ask(mine, 429),
            .replace { $0.rateLimits[0].subject = .account }, .ok(mine), .ok(ask(other)), .ask(mine, 429),
            .replace { _ in }, .ok(ask(other)), .all([ask(other), mine], 429)),
        Scenario(
            "Where a session is optional, requests without one are counted by address",
            on: sessionLimited(limit(by: .session, burst: 1)) { $0.routes[2].requiresAuthorization = false },
            .ok(Ask.get("/private/a")), .ask(Ask.get("/private/a"), 429), .ok(mine)),
        Scenario(
            "A limit by a claim counts all sessions with its value together, and by address without it",
            on: sessionLimited(limit(by: .claim("tenant"), burst: 1)) { $0.addCompany() }, .ok(ask(tenants[0])),
            .ask(ask(tenants[1]), 429), .ok(ask(tenants[2])), .ok(ask(paid)), .ask(mine, 429)),
        Scenario(
            "A limit for sessions with a claim counts no others",
            on: sessionLimited(limit(by: .account, burst: 1) { $0.when = [.init("plan", in: ["free"])] }) {
                $0.addCompany()
            }, .ok(ask(tenants[0])), .ask(ask(tenants[1]), 429), .ok(ask(paid)), .ok(ask(paid)), .ok(mine), .ok(mine)),
        Scenario(
            "A request that one limit rejects is charged to none",
            on: sessionLimited(limit("wide", burst: 4), limit(by: .session, burst: 1)) {
                $0.limits.rateFields = .always
            },
            .ok(mine), .all([mine, mine, mine], 429),
            .ok(
                ask(other),
                has: [
                    "RateLimit-Policy: \"wide\";q=4;w=4", "RateLimit-Policy: \"few\";q=1;w=1",
                    "RateLimit: \"wide\";r=2;t=2", "RateLimit: \"few\";r=0;t=1",
                ])),
        Scenario(
            "Rule 82: a rejected request does not extend the idle timeout of its session",
            on: sessionLimited(limit(by: .session, burst: 1)), .ok(mine), .all([mine, mine], 429),
            .run { expect($0.sessions.uses, equals: 1) }),
        Scenario(
            "A use of a session is recorded although the store is unavailable",
            on: sessionLimited(limit(by: .session, burst: 1)).with(\.sessions, FakeSessions(load: .fail)),
            .ask(mine, 503), .run { expect($0.sessions.uses, equals: 1) }),
        Scenario(
            "Rule 82: a flood that the address limit rejects reads no session, and extends none",
            on: limited(limit(burst: 1)).with(\.sessions, FakeSessions(load: .fail)), .ask(mine, 503),
            .all([mine, mine], 429), .run { expect($0.sessions.loads, equals: 1) }, sent: []),
        Scenario(
            "Rule 82: invented cookies use up the limit by address, although a limit by account rejects them",
            on: sessionLimited(limit(burst: 3), limit("user", by: .account, burst: 1)) {
                $0.routes[2].rate = ["user"]
                $0.limits.rate = ["few"]
            }.with(\.sessions, FakeSessions(load: .response(.missing(.noSession)))),
            .ask(Ask.get("/private/a", FakeSessions.strangeCookie), 401),
            .all((0..<7).map { _ in Ask.get("/private/a", FakeSessions.strangeCookie) }, 429),
            .run { expect($0.sessions.loads, equals: 3) }, sent: [],
            metrics: [metric("rejected", 5), metric("rejected", 2, of: "user")]),
        Scenario(
            "Rule 82: requests without a session that a limit by session rejects use up no limit by route",
            on: sessionLimited(limit("wide", by: .route, burst: 3), limit(by: .session, burst: 1)) {
                $0.routes[2].requiresAuthorization = false
            }, .ok(Ask.get("/private/a")), .all((0..<3).map { _ in Ask.get("/private/a") }, 429), .ok(mine),
            .ok(ask(other)), .ask(mine, 429)),
        Scenario(
            "A session that has to be loaded is counted, and used, once it is known",
            on: limited(limit(by: .session, burst: 1)) { configuration in
                for index in 0..<2 { configuration.routes[index].rate = [] }
            }.with(\.sessions, FakeSessions(load: .response(.active(other.1)))), .ok(mine), .ask(mine, 429),
            .run { expect($0.sessions.uses, equals: 1) }),
    ]

    @Test("Limits by session, account and claim", arguments: sessionRows)
    func sessions(_ row: Scenario) async throws { try await row.run() }

    @Test("A session beyond its limit causes no token refresh")
    func refresh() async throws {
        let stale = FakeSessions.make("Bearer stale", refreshToken: "r", accessTokenExpiresAt: WallTime(seconds: 1))
        let fresh = stale.1.refreshed(
            with: SessionUpdate(
                tokens: TokenSet(authorization: Secret("Bearer fresh"), obtainedAt: WallTime(seconds: 1))))
        let refresher = FakeRefresher { _, _ in .active(fresh) }
        let setup = Self.sessionLimited(Self.limit(by: .session, burst: 1)).with(\.refresher, refresher)
        setup.sessions.add(stale)
        try await Scenario("", on: setup, .ok(Self.ask(stale)), .all([Self.ask(stale), Self.ask(stale)], 429)).run()
        expect(refresher.calls.count, equals: 1)
    }

    @Test("The access log has the decision and the limit, also of one that is not enforced")
    func log() async throws {
        let setup = Self.limited(Self.limit("soft", burst: 1) { $0.isEnforced = false }, Self.limit(burst: 2))
        let (lines, _) = try await setup.logged { gateway in
            let client = try await gateway.client()
            for _ in 0..<3 { _ = try await client.exchange(Ask.get()) }
        }
        expect(lines.map { $0["decision"] }, equals: ["public", "public", "rate_limited"])
        expect(lines.map { $0["limit"] }, equals: [nil, "soft", "few"])
        expect(lines.map { $0["route"] }, equals: ["public", "public", "public"])
    }

    @Test("A gRPC call beyond the limit has the status RESOURCE_EXHAUSTED")
    func call() async throws {
        try await Self.general().runHTTP2 { _, client in
            try await expect(client.exchange(1, .get()).status, equals: 200)
            let response = try await client.exchange(3, .post("/public/a", ("content-type", "application/grpc")))
            expect(response.status, equals: 200)
            expect(response.head?["grpc-status"].first, equals: "8")
            expect(response.head?["retry-after"].first, equals: "1")
        }
    }

    @Test("Rule 82: addresses that their /48 rejects replace no keys")
    func blocks() {
        let telemetry = GatewayTelemetry(settings: TelemetrySettings())
        defer { telemetry.shutdown() }
        let table = RateLimitTable(keys: 1_024)
        let runtime = RateLimitRuntime(
            Self.limit(burst: 1), index: 0, RateLimitStorage(), table, telemetry.metrics.clientLimits)
        let pace = RatePace(Self.limit())
        // Every slot of all 128 sets is in use, but less than those that follow.
        for key in 0..<1_024 { _ = table.charge(UInt64(key / 8) << 57 | UInt64(key % 8) << 7, pace, now: 1) }
        let charges = (0..<100).map { runtime.charge(RateKey(peer: "2001:db8:1:\($0)::1"), now: 900_000_000) }
        expect(charges.prefix(16).allSatisfy { $0.wait == 0 && $0.isEviction })
        expect(charges.dropFirst(16).allSatisfy { $0.wait > 0 && !$0.isEviction })
    }

    @Test("A full table forgets the clients that used least, counts them, and logs it once a minute")
    func full() async throws {
        let log = RecordedLog()
        let setup = Self.limited(Self.limit(burst: 1)) { configuration in
            Self.behindProxy(&configuration)
            configuration.limits.rateKeys = 1_024
        }.with(\.logger, log.logger)
        try await setup.run { gateway, client in
            var requests = 0
            while !gateway.metrics.contains("cloakroom_rate_limit_evictions_total 3"), requests < 1_500 {
                requests += 1
                _ = try await client.exchange(Self.from("192.0.\(requests / 250).\(requests % 250)"))
            }
            #expect(requests > 8)
            #expect(requests < 1_500)
            let line = gateway.metrics.split(separator: "\n").first { $0.hasPrefix("cloakroom_rate_limit_keys ") }
            let keys = try require(line?.split(separator: " ").last.flatMap { Int($0) })
            expect((requests - 3...requests).contains(keys))
        }
        expect(log.lines("event", "rate_table_full").count, equals: 1)
    }
}
