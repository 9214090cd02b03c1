import CloakroomCore
import TestSupport
import Testing

@Suite("Responses to requests that their session does not permit", .serialized)
struct DeniedResponseTests {
    private static let navigation = "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document"

    private static func setup(
        _ made: (SessionTicket, Session)? = nil, _ change: @escaping @Sendable (inout Route) -> Void = { _ in }
    ) -> GatewaySetup {
        let sessions = FakeSessions()
        if let made { sessions.add(made) }
        return GatewaySetup([.request, .send(Reply.ok), .again]).with(\.sessions, sessions).configuration {
            configuration in
            configuration.addCompany()
            configuration.changePrivate(change)
        }
    }

    @Test("Identity rule 11: a navigation without a session is sent to sign in, and the connection stays open")
    func navigation() async throws {
        try await Self.setup { $0.onMissingSession = .login }.run { gateway in
            let client = try await gateway.client()
            for _ in 0..<2 {
                let response = try await client.exchange(Ask.get("/private/a?b=c", Self.navigation))
                #expect(response.status == 303)
                #expect(response.reason == "See Other")
                #expect(response["Location"] == "/auth/page?returnTo=%2Fprivate%2Fa%3Fb%3Dc")
                #expect(response["Vary"] == FetchMetadata.vary)
                #expect(response["Cache-Control"] == "no-store")
                #expect(response["Content-Length"] == "0")
                #expect(response["Set-Cookie"] == nil)
                #expect(response["WWW-Authenticate"] == nil)
            }
            let script = try await client.exchange(Ask.get("/private/a?b=c", "Accept: */*"))
            #expect(script.status == 401)
            #expect(script["Location"] == nil)
            #expect(script["Vary"] == FetchMetadata.vary)
            #expect(script["WWW-Authenticate"] == "Session realm=\"cloakroom\"")
            #expect(gateway.upstream.requests.isEmpty)
            try await gateway.metric(
                #"cloakroom_auth_decisions_total{decision="unauthenticated",route="private"} 3"#)
            try await gateway.metric(#"cloakroom_unauthorized_responses_total{reason="no_session"} 3"#)
        }
    }

    @Test("Identity rule 11: over HTTP/2 too")
    func navigationOverHTTP2() async throws {
        try await Self.setup { $0.onMissingSession = .login }.http2().run { gateway in
            let client = try await gateway.http2()
            let response = try await client.exchange(
                1, .get("/private/a", ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")))
            #expect(response.status == 303)
            #expect(response["location"] == "/auth/page?returnTo=%2Fprivate%2Fa")
            let script = try await client.exchange(3, .get("/private/a", ("sec-fetch-mode", "cors")))
            #expect(script.status == 401)
            let connect = try await client.exchange(5, .get("/private/a", ("sec-fetch-mode", "navigate")))
            #expect(connect.status == 401)
        }
    }

    @Test("Identity rule 23: the client does not learn which claim is missing, the log does")
    func missingClaim() async throws {
        let made = Company.session(claims: #"{"canary-claim":"canary-other"}"#)
        let log = RecordedLog()
        let setup = Self.setup(made) {
            $0.require = SessionRequirement(claims: [.init("canary-claim", in: ["canary-value"])])
        }.with(\.logger, log.logger)
        try await setup.run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get("/private/a", FakeSessions.cookie(made.0)))
            #expect(response.status == 403)
            #expect(response.code == "missing_claim")
            #expect(!"\(response)".contains("canary") && !response.text.contains("canary"))
            #expect(gateway.upstream.requests.isEmpty)
            try await gateway.metric(#"cloakroom_auth_decisions_total{decision="forbidden",route="private"} 1"#)
            let lines = log.lines("event", "missing_claim")
            #expect(lines.map { $0["claim"] } == ["canary-claim"])
            #expect(lines.map { $0["route"] } == ["private"])
            #expect(lines.map { $0["session"] } == ["\(made.1.id)"])
            // The values, of the user and of the configuration, are not logged.
            #expect(!log.texts.contains { $0.contains("canary-other") || $0.contains("canary-value") })
            // A client cannot fill the log.
            for _ in 0..<30 { _ = try await client.exchange(Ask.get("/private/a", FakeSessions.cookie(made.0))) }
            #expect(log.lines("event", "missing_claim").count == 10)
        }
    }

    @Test("Identity rule 23: a session of another identity is 403, and continues where it may be used")
    func wrongIdentity() async throws {
        let made = Company.session()
        try await Self.setup(made).configuration { $0.identities[0].tokensFor = [] }.run { gateway in
            let client = try await gateway.client()
            let ask = Ask.get("/private/a", FakeSessions.cookie(made.0))
            let response = try await client.exchange(ask)
            #expect(response.status == 403)
            #expect(response.code == "wrong_identity")
            #expect(response["Set-Cookie"] == nil)
            try await gateway.replace { $0.addCompany() }
            #expect(try await client.exchange(ask).text == "ok")
            #expect(gateway.upstream.requests.map { $0["Authorization"] } == ["Bearer \(Canary.accessToken)"])
        }
    }

    @Test("Identity rule 24: the challenge of a step-up is the only one, and the body has the path to continue at")
    func stepUp() async throws {
        let made = Company.session(age: 3_600)
        let requirement = SessionRequirement(acr: ["mfa"], maxAge: .seconds(600))
        let setup = Self.setup(made) { $0.require = requirement }
        try await setup.run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get("/private/a", FakeSessions.cookie(made.0)))
            #expect(response.status == 401)
            #expect(response.code == "step_up")
            #expect(response.values("WWW-Authenticate") == [requirement.challenge])
            #expect(response.text.contains(#""login":"/auth/login?for=private""#))
            #expect(response["Vary"] == nil)
            #expect(gateway.upstream.requests.isEmpty)
            // After the step-up.
            let fresh = Company.session()
            setup.sessions.add(fresh)
            #expect(try await client.exchange(Ask.get("/private/a", FakeSessions.cookie(fresh.0))).text == "ok")
        }
    }

    // MARK: - Reload

    @Test("A session whose identity was removed or has another issuer ends: 401 revoked")
    func identityGone() async throws {
        for isRemoved in [true, false] {
            let made = Company.session()
            try await Self.setup(made).run { gateway in
                let client = try await gateway.client()
                let ask = Ask.get("/private/a", FakeSessions.cookie(made.0))
                #expect(try await client.exchange(ask).text == "ok")
                try await gateway.replace { configuration in
                    if isRemoved {
                        configuration.identities = []
                        configuration.accounts.identities = []
                    } else {
                        configuration.addCompany { $0.issuer = "https://other.example.com" }
                    }
                }
                let response = try await client.exchange(ask)
                #expect(response.status == 401)
                #expect(response.problemReason == "revoked")
                #expect(gateway.upstream.requests.count == 1)
                // Ended in the store, so that it does not come back with the identity.
                try await gateway.replace { $0.addCompany() }
                #expect(try await client.exchange(ask).problemReason == "no_session")
            }
        }
    }

    /// A change of the configuration while an event stream of a provider's session is open.
    enum Change: CaseIterable {
        case nothing, otherIdentityAdded, clockSkew, issuer, removed, tokens, requirement, claimHeaders

        var endsStream: Bool {
            switch self {
            case .nothing, .otherIdentityAdded, .clockSkew: false
            case .issuer, .removed, .tokens, .requirement, .claimHeaders: true
            }
        }

        func make(in configuration: inout GatewayConfiguration) {
            switch self {
            case .nothing: break
            case .otherIdentityAdded:
                var other = Company.identity
                other.name = "other"
                configuration.identities.append(other)
                configuration.accounts.identities.append(.provider(1))
            case .clockSkew: configuration.identities[0].clockSkew = .zero
            case .issuer: configuration.identities[0].issuer = "https://other.example.com"
            case .removed: configuration.accounts.identities = [.upstream(0)]
            case .tokens:
                configuration.identities[0].tokensFor = []
                configuration.identities[0].exchanges = [.init(upstream: 0, audience: "a")]
            case .requirement: configuration.changePrivate { $0.require = SessionRequirement(acr: ["mfa"]) }
            case .claimHeaders: configuration.upstreams[0].claimHeaders = [ClaimHeader("X-User", claim: "sub")]
            }
        }
    }

    @Test("A reload ends an event stream whose session could not open it in the same way", arguments: Change.allCases)
    func streams(change: Change) async throws {
        let made = Company.session()
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        let gate = Gate()
        var setup = Self.setup(made)
        setup.scripts = [[.request, .send(head), .wait(gate), .send("9\r\ndata: 1\n\n\r\n")]]
        try await setup.run { gateway in
            let client = try await gateway.client()
            client.send(Ask.get("/private/a", FakeSessions.cookie(made.0)))
            _ = try await client.head()
            try await gateway.replace { change.make(in: &$0) }
            if change.endsStream {
                try await client.closed()
            } else {
                gate.open()
                #expect(try await client.text(14) == "9\r\ndata: 1\n\n\r\n")
            }
        }
    }

    @Test("An event stream ends when its user loses a claim that the route requires, not when maxAge passes")
    func lostClaims() async throws {
        for (claims, age, endsStream) in [(#"{"groups":[]}"#, 60, true), (#"{"groups":["staff"]}"#, 600, false)]
            as [(String, Int64, Bool)]
        {
            let made = Company.session()
            let sessions = FakeSessions()
            _ = sessions.add(made)
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            let gate = Gate()
            var setup = Self.setup {
                $0.require = SessionRequirement(claims: [.init("groups", in: ["staff"])], maxAge: .seconds(300))
            }.with(\.sessions, sessions).steppedTime()
            setup.scripts = [[.request, .send(head), .wait(gate), .send("9\r\ndata: 1\n\n\r\n")]]
            try await setup.run { gateway in
                let client = try await gateway.client()
                client.send(Ask.get("/private/a", FakeSessions.cookie(made.0)))
                #expect(try await client.head().hasPrefix("HTTP/1.1 200"))
                _ = sessions.add((made.0, Company.session(claims: claims, age: age).1))
                // The session is checked once a second.
                try await gateway.advance(.seconds(3), inStepsOf: .seconds(1))
                if endsStream {
                    try await client.closed()
                } else {
                    gate.open()
                    #expect(try await client.text(14) == "9\r\ndata: 1\n\n\r\n")
                }
            }
        }
    }
}
