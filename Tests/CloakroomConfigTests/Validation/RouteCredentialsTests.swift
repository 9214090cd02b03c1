import TestSupport
import Testing

@testable import CloakroomConfig
@testable import CloakroomCore

@Suite("authorization of a route")
struct RouteCredentialsTests {
    /// - Parameter route: Members of the route `api`.
    private static func yaml(_ route: String) -> String {
        """
        \(ConfigFixture.head)
        \(ConfigFixture.company)
            accessTokens: { audience: [orders] }
        accounts:
          publicURL: http://localhost:8080
          login: { returnTo: / }
        session:
          cookie: { secure: false }
        routes:
          - { name: page, methods: [GET], path: /, requiresAuthorization: true }
          - { name: api, methods: [GET], path: /api, \(route) }

        """
    }

    @Test(
        "Combinations without effect are errors",
        arguments: [
            ("requiresAuthorization: false, authorization: bearer", "requires requiresAuthorization: true"),
            ("requiresAuthorization: true, authorization: bearer, onMissingSession: login", "conflicts with bearer"),
            ("requiresAuthorization: true, authorization: either, inject: [bearer]", "tokens are for the upstream"),
            ("requiresAuthorization: false, authorization: pass, inject: [bearer]", "conflicts with inject"),
            ("redirect: { to: / }, authorization: pass", "conflicts with redirect"),
        ])
    func mistakes(route: String, message: String) throws {
        let errors = try ConfigFixture(Self.yaml(route)).valueErrors()
        expect(errors.contains { $0.contains(message) }, "\(errors)")
    }

    @Test("`require.device` is met by tokens with a key, without sessions that are bound to a device")
    func device() throws {
        func yaml(_ value: String) -> String {
            Self.yaml("requiresAuthorization: true, authorization: \(value), require: { device: true }")
        }
        for value in ["bearer", "either"] {
            let route = try ConfigFixture(yaml(value)).load().configuration.routes[1]
            expect(route.require.device)
        }
        let errors = try ConfigFixture(yaml("session")).valueErrors()
        expect(errors.contains { $0.contains("is never met: no session is bound") }, "\(errors)")
    }

    @Test(
        "The reports show the credentials of a route",
        arguments: [
            ("bearer", "access tokens of company (DPoP optional)", "bearer"),
            ("either", "access tokens of company (DPoP optional); without the field the session", "either"),
            ("pass", "sent unverified; without the field the session", "pass"),
        ])
    func reports(value: String, explanation: String, column: String) throws {
        let fixture = try ConfigFixture(Self.yaml("requiresAuthorization: true, authorization: \(value)"))
        let explained = fixture.report { CommandReport.explain($0, method: "GET", target: "/api") }.text
        expect(explained.contains(explanation), "\(explained)")
        expect(explained.contains("hop-by-hop fields, Authorization"), equals: value != "pass")
        let routes = fixture.report(CommandReport.routes).text.split(separator: "\n")
        expect(routes.first?.hasSuffix("CREDENTIALS") == true && routes.contains { $0.hasSuffix(column) }, "\(routes)")
        let notes = try fixture.load().notes.map(\.description)
        expect(notes.contains { $0.contains("unverified") }, equals: value == "pass", "\(notes)")
    }

    @Test("A route that accepts more is an exposure", arguments: ["either", "pass"])
    func exposure(value: String) throws {
        let old = try ConfigFixture(Self.yaml("requiresAuthorization: true")).load().configuration
        let new = try ConfigFixture(Self.yaml("requiresAuthorization: true, authorization: \(value)")).load()
        let changes = RouteTableDiff(from: old, to: new.configuration).changes
        expect(changes.map(\.kind), equals: [.requiresLess])
        let isExposure = changes.contains { $0.kind.isExposure }
        expect(isExposure)
        // A wide route that accepts more is less strict: paths that may be those of the other one are read leniently.
        for (one, other) in [(old, new.configuration), (new.configuration, old)] {
            let rules = [one, other].map { SessionRules($0.routes[1], in: $0, claimHeaders: nil) }
            expect(rules[0].reasonStricter(than: rules[1]), equals: (one == old ? .credentials : nil))
        }
    }
}
