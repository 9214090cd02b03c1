import CloakroomCore
import TestSupport
import Testing

@Suite("Responses to requests that their session does not permit", .serialized)
struct DeniedResponseTests {
    private static func setup(
        _ made: (SessionTicket, Session)..., change: @escaping @Sendable (inout Route) -> Void = { _ in }
    ) -> GatewaySetup {
        let setup = GatewaySetup.serving.configuration { configuration in
            configuration.addCompany()
            configuration.changePrivate(change)
        }
        for session in made { setup.sessions.add(session) }
        return setup
    }

    private static func ask(_ made: (SessionTicket, Session), _ path: String = "/private/a") -> String {
        Ask.get(path, FakeSessions.cookie(made.0))
    }

    private static let navigation = Ask.get(
        "/private/a?b=c", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")
    private static let user = Company.session()
    /// Authenticated too long ago for the requirement, whose time is longer than all tests of a process take: the sessions are
    /// made before the first of them.
    private static let old = Company.session(age: 200_000)
    private static let requirement = SessionRequirement(acr: ["mfa"], maxAge: .seconds(86_400))

    private static let rows = [
        Scenario(
            "Identity rule 11: a navigation without a session is sent to sign in, and the connection stays open",
            on: setup { $0.onMissingSession = .login },
            .ask(navigation, 303, line: "HTTP/1.1 303 See Other"),
            .ask(
                navigation, 303,
                has: [
                    "Location: /auth/page?returnTo=%2Fprivate%2Fa%3Fb%3Dc", "Vary: \(FetchMetadata.vary)",
                    "Cache-Control: no-store", "Content-Length: 0", "Set-Cookie", "WWW-Authenticate", "Connection",
                ]),
            .ask(
                Ask.get("/private/a?b=c", "Accept: */*"), 401,
                has: [
                    "Location", "Vary: \(FetchMetadata.vary)", "WWW-Authenticate: Session realm=\"cloakroom\"",
                ]), sent: [],
            metrics: [
                #"cloakroom_auth_decisions_total{decision="unauthenticated",route="private"} 3"#,
                #"cloakroom_unauthorized_responses_total{reason="no_session"} 3"#,
            ]),
        Scenario(
            "Identity rule 11: the same requests are navigations over HTTP/2",
            on: setup { $0.onMissingSession = .login },
            .ask(navigation, 303, has: ["Location: /auth/page?returnTo=%2Fprivate%2Fa%3Fb%3Dc"]),
            .all(["cors", "navigate"].map { Ask.get("/private/a", "Sec-Fetch-Mode: \($0)") }, 401), sent: [],
            alsoHTTP2: true),
        Scenario(
            "Identity rule 23: a session of another identity is 403, and continues where it may be used",
            on: setup(user).configuration { $0.identities[0].tokensFor = [] },
            .ask(ask(user), 403, "wrong_identity", has: ["Set-Cookie"]), .replace { $0.addCompany() }, .ok(ask(user)),
            sent: [.init(has: ["Authorization: Bearer \(Canary.accessToken)"])]),
        Scenario(
            "Identity rule 23: a navigation whose session lacks a claim is 403 with the route's sentence, no redirect",
            on: setup(user) {
                $0.onMissingSession = .login
                $0.require = SessionRequirement(claims: [RequiredClaim("x", in: ["a"])])
                $0.messages[.missingClaim] = "Not for you."
            },
            .ask(
                Ask.get(
                    "/private/a", FakeSessions.cookie(user.0), "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"),
                403, "missing_claim", text: "…Not for you.…", has: ["Location"]), sent: []),
        Scenario(
            "Identity rule 24: the challenge of a step-up is the only one, and the body has the path to continue at",
            on: setup(old, user) { $0.require = requirement },
            .ask(
                ask(old), 401, "step_up", text: #"…"login":"/auth/login?for=private"…"#,
                has: ["WWW-Authenticate: \(requirement.challenge)", "Vary"]),
            .run { expect(empty: $0.upstream.requests) },
            // After the step-up.
            .ok(ask(user))),
    ]

    private static let goneIdentities = [removed, otherIssuer].map { change in
        let made = Company.session()
        return Scenario(
            "A session whose identity was removed or has another issuer ends: 401 revoked", on: setup(made),
            .ok(ask(made)), .replace(change), .ask(ask(made), 401, reason: "revoked"),
            .run { expect($0.upstream.requests.count, equals: 1) },
            // Ended in the store, so that it does not come back with the identity.
            .replace { $0.addCompany() }, .ask(ask(made), reason: "no_session"))
    }

    private static let removed: @Sendable (inout GatewayConfiguration) throws -> Void = {
        $0.identities = []
        $0.accounts.identities = []
    }
    private static let otherIssuer: @Sendable (inout GatewayConfiguration) throws -> Void = {
        $0.addCompany { $0.issuer = "https://other.example.com" }
    }

    @Test("Denied requests", arguments: rows + goneIdentities)
    func scenario(_ scenario: Scenario) async throws { try await scenario.run() }

    @Test("Identity rule 23: the client does not learn which claim is missing, the log does")
    func missingClaim() async throws {
        let made = Company.session(claims: #"{"canary-claim":"canary-other"}"#)
        let log = RecordedLog()
        let setup = Self.setup(made) {
            $0.require = SessionRequirement(claims: [.init("canary-claim", in: ["canary-value"])])
        }.with(\.logger, log.logger)
        try await setup.run { gateway, client in
            let response = try await client.exchange(Self.ask(made))
            expect(response.problem, equals: "403 missing_claim")
            expect(!"\(response)".contains("canary") && !response.text.contains("canary"))
            expect(empty: gateway.upstream.requests)
            try await gateway.metric(#"cloakroom_auth_decisions_total{decision="forbidden",route="private"} 1"#)
            let lines = log.lines("event", "missing_claim")
            expect(lines.map { $0["claim"] }, equals: ["canary-claim"])
            expect(lines.map { $0["route"] }, equals: ["private"])
            expect(lines.map { $0["session"] }, equals: ["\(made.1.id)"])
            // The values, of the user and of the configuration, are not logged.
            expect(!log.texts.contains { $0.contains("canary-other") || $0.contains("canary-value") })
            // A client cannot fill the log.
            for _ in 0..<30 { _ = try await client.exchange(Self.ask(made)) }
            expect(log.lines("event", "missing_claim").count, equals: 10)
        }
    }

    // MARK: - Reload

    private static let changes = [
        StreamChange("nothing", ends: false) { _ in },
        StreamChange("another identity", ends: false) {
            var other = Company.identity
            other.name = "other"
            $0.identities.append(other)
            $0.accounts.identities.append(.provider(1))
        },
        StreamChange("the clock skew", ends: false) { $0.identities[0].clockSkew = .zero },
        StreamChange("the issuer", ends: true) { $0.identities[0].issuer = "https://other.example.com" },
        StreamChange("no identity", ends: true) { $0.accounts.identities = [.upstream(0)] },
        StreamChange("exchanged tokens", ends: true) {
            $0.identities[0].tokensFor = []
            $0.identities[0].exchanges = [.init(upstream: 0, audience: "a")]
        },
        StreamChange("a requirement", ends: true) {
            $0.changePrivate { $0.require = SessionRequirement(acr: ["mfa"]) }
        },
        StreamChange("claim headers", ends: true) {
            $0.upstreams[0].claimHeaders = [ClaimHeader("X-User", claim: "sub")]
        },
    ]

    @Test("A reload ends an event stream whose session could not open it in the same way", arguments: changes)
    func streams(change: StreamChange) async throws {
        let made = Company.session()
        let gate = Gate()
        var setup = Self.setup(made)
        setup.scripts = [[.request, .send(Reply.eventStream), .wait(gate), .send("9\r\ndata: 1\n\n\r\n")]]
        try await setup.run { gateway, client in
            client.send(Self.ask(made))
            _ = try await client.head()
            try await gateway.replace(change.make)
            if change.endsStream {
                try await client.closed()
            } else {
                gate.open()
                try await expect(client.text(14), equals: "9\r\ndata: 1\n\n\r\n")
            }
        }
    }

    @Test("An event stream ends when its user loses a claim that the route requires, not when maxAge passes")
    func lostClaims() async throws {
        for (claims, age, endsStream) in [(#"{"groups":[]}"#, 60, true), (#"{"groups":["staff"]}"#, 600, false)]
            as [(String, Int64, Bool)]
        {
            let made = Company.session()
            let gate = Gate()
            var setup = Self.setup(made) {
                $0.require = SessionRequirement(claims: [.init("groups", in: ["staff"])], maxAge: .seconds(300))
            }.steppedTime()
            setup.scripts = [[.request, .send(Reply.eventStream), .wait(gate), .send("9\r\ndata: 1\n\n\r\n")]]
            try await setup.run { gateway, client in
                client.send(Self.ask(made))
                try await expect(client.head().hasPrefix("HTTP/1.1 200"))
                _ = setup.sessions.add((made.0, Company.session(claims: claims, age: age).1))
                // The session is checked once a second.
                try await gateway.advance(.seconds(3), inStepsOf: .seconds(1))
                if endsStream {
                    try await client.closed()
                } else {
                    gate.open()
                    try await expect(client.text(14), equals: "9\r\ndata: 1\n\n\r\n")
                }
            }
        }
    }
}
