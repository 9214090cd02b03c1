import TestSupport
import Testing

@testable import CloakroomConfig
@testable import CloakroomCore

@Suite("Upstreams to which only another proxy forwards")
struct ExternalUpstreamTests {
    private static let asking = """
          - address: 127.0.0.1:0
            forwardAuth: { proxy: traefik, sources: [127.0.0.1], hosts: [a.test] }

        """

    /// The usual configuration, in which the upstream `other` is external and has a route.
    private static func yaml(
        _ keys: String = "", route: String = "", listener: String = asking
    ) -> String {
        ConfigFixture.good
            .replacing("targets: [\"http://127.0.0.1:9001\"]", with: "external: true\n\(keys)")
            .replacing("upstreams:\n", with: listener + "upstreams:\n")
                + """
                  - name: orders
                    methods: [GET, POST]
                    path: /orders/*
                    upstream: other
                    requiresAuthorization: true
                    \(route)

                """
    }

    @Test("An external upstream has no targets")
    func loads() throws {
        let configuration = try ConfigFixture(Self.yaml()).load().configuration
        expect(configuration.upstreams.map(\.isExternal), equals: [false, true])
        expect(configuration.routes.last?.upstream, equals: 1)
    }

    @Test("Without a listener with forwardAuth, no request could reach it")
    func noListener() throws {
        let found = try ConfigFixture(Self.yaml(listener: "")).valueErrors()
        expect(found.count, equals: 1)
        expect(
            found.first?.contains("upstreams.other.external: requires a listener with forwardAuth"), equals: true,
            "\(found)")
    }

    @Test(
        "Keys for the gateway's own connections conflict with it",
        arguments: [
            "    targets: [\"http://127.0.0.1:9001\"]", "    health: { path: /health }", "    protocol: h2c",
            "    signIn: { path: /auth }",
        ])
    func conflicts(key: String) throws {
        let found = try ConfigFixture(Self.yaml(key)).valueErrors()
        let name = key.drop { $0 == " " }.prefix { $0 != ":" }
        expect(
            found.contains { $0.contains("upstreams.other.\(name): conflicts with external") }, "\(key): \(found)")
    }

    @Test("explain reports that listeners for clients do not serve it, and which proxy asks")
    func explain() throws {
        func text(_ target: String) throws -> String {
            try ConfigFixture(Self.yaml()).report {
                CommandReport.explain($0, method: "GET", target: target, host: "a.test")
            }.text
        }
        let orders = try text("/orders/1")
        expect(
            orders.contains("other, to which only another proxy forwards; clients get 404"),
            "\(orders)")
        expect(orders.contains("traefik at 127.0.0.1:0"), "\(orders)")
        expect(!orders.contains("127.0.0.1:0: 403"), "\(orders)")
        try expect(text("/orders/%61").contains("traefik at 127.0.0.1:0: 403"))
        try expect(text("/episodes").contains("traefik at 127.0.0.1:0"))
    }
}
