import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("The decision on a request that its session does not permit")
struct DeniedRequestTests {
    private static let cookie = FakeSessions.strangeCookie
    private static let navigation = ["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"]

    private static func setup(_ adjust: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in })
        -> GatewaySetup
    {
        GatewaySetup().configuration { configuration in
            configuration.addCompany()
            configuration.changePrivate { $0.onMissingSession = .login }
            adjust(&configuration)
        }
    }

    private static func decide(
        _ text: String, session lookup: SessionLookup = .missing(.noSession), upgrade: RequestedUpgrade = .none,
        setup: GatewaySetup = setup()
    ) throws -> RequestDecision {
        var request = try RequestDeciderTests.makeRequest(text, upgrade: upgrade)
        let decider = RequestDecider(config: try setup.makeConfig(), isTrusted: false, scheme: .http, listener: 0)
        return decider.decide(
            &request, session: { _, _ in lookup }, limit: { _, _ in nil }, now: WallTime(seconds: 1_800_000_000))
    }

    private static func denial(_ decision: RequestDecision) throws -> Denial {
        guard case .denied(let denial) = decision else { throw Unexpected(decision) }
        return denial
    }

    private static func location(_ decision: RequestDecision) throws -> String? {
        if case .redirect(let location) = try denial(decision).response { location } else { nil }
    }

    private static func problem(_ denial: Denial) -> Problem? {
        if case .problem(let document) = denial.response { document.problem } else { nil }
    }

    private static let vary = "Vary: Sec-Fetch-Mode, Sec-Fetch-Dest, Sec-Purpose, Accept\r\n"

    // MARK: - Navigations

    /// The fields of a request, and whether it is a navigation.
    private static let requests: [(fields: [String], isNavigation: Bool)] = [
        (["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"], true),
        (["Accept: text/html,*/*;q=0.8"], true),
        (
            [
                "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Fetch-Site: cross-site",
                "Sec-Fetch-User: ?1",
            ], true
        ),
        (["Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty", "Accept: text/html"], false),
        (["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe", "Accept: text/html"], false),
        (["Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"], false),
        (["Sec-Fetch-Mode: navigate", "Accept: text/html"], false),
        (["Sec-Fetch-Dest: document", "Accept: text/html"], false),
        (["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Fetch-Mode: cors"], false),
        (["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Purpose: prefetch"], false),
        (["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Purpose: prefetch;prerender"], false),
        (["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Purpose: prefetch"], false),
        (["Accept: */*"], false),
        (["Accept: application/json"], false),
        ([], false),
    ]

    @Test("Identity rule 11: only a navigation is redirected, all else gets 401, and Vary names what it depends on")
    func xhrIsNeverRedirected() throws {
        for request in Self.requests { try check(fields: request.fields, isNavigation: request.isNavigation) }
    }

    private func check(fields: [String], isNavigation: Bool) throws {
        let denial = try Self.denial(Self.decide(Ask.ask("GET", "/private/a", fields)))
        expect(denial.decision, equals: .unauthenticated)
        expect(denial.reason, equals: .noSession)
        expect(String(decoding: denial.fieldLines, as: UTF8.self), equals: Self.vary)
        expect(Self.problem(denial) == nil, equals: isNavigation, "\(fields)")
        if !isNavigation { expect(Self.problem(denial)?.reason, equals: .noSession) }
    }

    @Test("Identity rule 11: other methods, upgrades, gRPC calls and HTTP/1.0 are never redirected")
    func neverRedirected() throws {
        let fields = Self.navigation.joined(separator: "\r\n")
        for method in ["HEAD", "POST"] {
            let text = "\(method) /private/a HTTP/1.1\r\nHost: a\r\n\(fields)\r\n\r\n"
            try expect(Self.location(Self.decide(text)), equals: nil, "\(method)")
        }
        try expect(Self.location(Self.decide("GET /private/a HTTP/1.0\r\n\(fields)\r\n\r\n")), equals: nil)
        let upgrade = [
            "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        ]
        try expect(Self.location(Self.decide(Ask.ask("GET", "/private/a", Self.navigation + upgrade))), equals: nil)
        try expect(
            Self.location(Self.decide(Ask.ask("GET", "/private/a", Self.navigation), upgrade: .webSocketConnect)),
            equals: nil)
        let calls = Self.setup { $0.changePrivate { $0.grpc = true } }
        try expect(Self.location(Self.decide(Ask.ask("GET", "/private/a", Self.navigation), setup: calls)), equals: nil)
        // The same request on an ordinary route.
        try expect(Self.location(Self.decide(Ask.ask("GET", "/private/a", Self.navigation))) != nil)
    }

    @Test("A route that rejects requests without a session never redirects, and its response does not vary")
    func reject() throws {
        let setup = Self.setup { $0.changePrivate { $0.onMissingSession = .reject } }
        let decision = try Self.decide(Ask.ask("GET", "/private/a", Self.navigation), setup: setup)
        guard case .problem(let document, .unauthenticated, nil) = decision else { throw Unexpected(decision) }
        expect(document.problem.reason, equals: .noSession)
    }

    @Test(
        "A navigation continues at the sign-in page, and comes back to the path in its normal form with its query",
        arguments: [
            ("/private/a", "%2Fprivate%2Fa"), ("/private/%61?b=c&d=/%2f", "%2Fprivate%2Fa%3Fb%3Dc%26d%3D%2F%252f"),
            ("http://gateway.test/private/a?x", "%2Fprivate%2Fa%3Fx"),
            ("/private/a?returnTo=//evil.test", "%2Fprivate%2Fa%3FreturnTo%3D%2F%2Fevil.test"),
        ])
    func location(target: String, value: String) throws {
        try expect(
            Self.location(Self.decide(Ask.ask("GET", target, Self.navigation))), equals: "/auth/page?returnTo=\(value)")
        let only = Self.setup { configuration in
            configuration.accounts.upstream = nil
            configuration.accounts.identities = [.provider(0)]
        }
        try expect(
            Self.location(Self.decide(Ask.ask("GET", target, Self.navigation), setup: only)),
            equals: "/auth/login?returnTo=\(value)")
    }

    @Test("A session that ended is signed in to again, whatever the reason", arguments: UnauthorizedReason.allCases)
    func ended(reason: UnauthorizedReason) throws {
        let denial = try Self.denial(
            Self.decide(Ask.ask("GET", "/private/a", Self.navigation + [Self.cookie]), session: .missing(reason)))
        expect(denial.reason, equals: reason)
        guard case .redirect = denial.response else { throw Unexpected(.denied(denial)) }
    }

    // MARK: - Sessions that are not sufficient

    private static let acr = SessionRequirement(acr: ["urn:a", "urn:b"], maxAge: .seconds(600))

    @Test("Identity rule 24: a script gets the challenge of RFC 9470 and the path to continue at")
    func challenge() throws {
        for action in MissingSessionAction.allCases {
            let setup = Self.setup { configuration in
                configuration.changePrivate {
                    $0.require = Self.acr
                    $0.onMissingSession = action
                    $0.messages[.stepUp] = "Confirm."
                }
            }
            let fields = action == .login ? ["Accept: */*"] : Self.navigation
            let denial = try Self.denial(
                Self.decide(
                    Ask.ask("GET", "/private/a", fields + [Self.cookie]), session: .active(Company.session().1),
                    setup: setup)
            )
            expect(denial.decision, equals: .unauthenticated)
            guard case .problem(let document) = denial.response else { throw Unexpected(.denied(denial)) }
            expect(document.problem.code, equals: .stepUp)
            expect(document.problem.detail, equals: "Confirm.")
            expect(String(decoding: document.prefix, as: UTF8.self).contains(#""login":"/auth/login?for=private","#))
            expect(
                String(decoding: denial.fieldLines, as: UTF8.self),
                equals: "WWW-Authenticate: \(Self.acr.challenge)\r\n" + (action == .login ? Self.vary : ""))
        }
        expect(Self.acr.challenge.hasPrefix(#"Bearer error="insufficient_user_authentication""#))
        expect(Self.acr.challenge.hasSuffix(#"acr_values="urn:a urn:b", max_age="600""#))
    }

    @Test("Identity rule 24: a navigation authenticates again and comes back")
    func stepUpNavigation() throws {
        let setup = Self.setup { $0.changePrivate { $0.require = Self.acr } }
        let decision = try Self.decide(
            Ask.ask("GET", "/private/a?b", Self.navigation + [Self.cookie]), session: .active(Company.session().1),
            setup: setup)
        try expect(Self.location(decision), equals: "/auth/login?for=private&returnTo=%2Fprivate%2Fa%3Fb")
        try expect(Self.denial(decision).reason, equals: nil)
    }

    @Test("A session of an identity that the configuration does not have is ended")
    func removedIdentity() throws {
        for setup in [
            Self.setup { $0.identities[0].issuer = "https://other.example.com" },
            Self.setup { $0.identities[0].name = "renamed" },
            Self.setup { $0.accounts.identities = [.upstream(0)] },
            Self.setup {
                $0.identities = []
                $0.accounts.identities = []
            },
        ] {
            let decision = try Self.decide(
                Ask.ask("GET", "/private/a", [Self.cookie]), session: .active(Company.session().1), setup: setup)
            guard case .endSession(_, route: 2) = decision else { throw Unexpected(decision) }
        }
    }

    // MARK: - Account endpoints

    @Test("The cross-site checks leave navigations to the login and logouts of providers alone")
    func accountEndpoints() throws {
        let setup = Self.setup {
            $0.crossSite.requiredField = .init(name: "X-Requested-With", value: "a")
        }
        let evil = ["Origin: https://evil.test", "Sec-Fetch-Site: cross-site", Self.cookie]
        for path in ["/auth/login", "/auth/callback?code=a&state=b", "/auth/callback/company"] {
            let decision = try Self.decide(Ask.ask("GET", path, evil), setup: setup)
            guard case .own = decision else { throw Unexpected(decision) }
        }
        for path in ["/auth/backchannel", "/auth/backchannel/company"] {
            let text = "POST \(path) HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
            let decision = try Self.decide(text, setup: setup)
            guard case .own(.backChannel) = decision else { throw Unexpected(decision) }
        }
        let signIn = try Self.decide("POST /auth HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", setup: setup)
        guard case .problem(_, .csrfRejected, _) = signIn else { throw Unexpected(signIn) }
    }

    private struct Unexpected: Error, CustomStringConvertible {
        let description: String
        init(_ decision: RequestDecision) { description = "unexpected decision: \(decision)" }
    }
}
