import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Hosts of routes and listeners")
struct HostRulesTests {
    /// Lines such as `GET /admin/* protected a.test,*.b.test`.
    private static func routes(_ lines: [String]) throws -> [Route] {
        try lines.map { line in
            let parts = line.split(separator: " ").map(String.init)
            var route = Route(
                name: line, methods: [parts[0]], pattern: try PathPattern(parts[1]),
                requiresAuthorization: parts[2] == "protected")
            if parts.count > 3 { route.hosts = parts[3].split(separator: ",").map(String.init) }
            return route
        }
    }

    private static func configuration(
        _ lines: [String], listeners: [[String]] = [[]], mTLS: Set<Int> = [], redirects: Set<Int> = []
    ) throws -> GatewayConfiguration {
        var configuration = GatewayConfiguration.defaults
        configuration.routes = try routes(lines)
        configuration.accounts = AccountsConfiguration(upstream: nil)
        configuration.listeners = listeners.enumerated().map { index, hosts in
            var listener = ListenerConfiguration(address: HostAndPort(host: "127.0.0.1", port: index))
            listener.hosts = hosts
            if redirects.contains(index) { listener.redirectToHTTPS = 443 }
            if mTLS.contains(index) {
                listener.tls = ListenerTLSConfiguration(
                    certificateFile: "", keyFile: "", clientCertificates: ClientCertificateConfiguration(caFile: ""))
            }
            return listener
        }
        return configuration
    }

    /// The path pattern of the route that serves a request, or a status.
    private static func match(
        _ configuration: GatewayConfiguration, _ host: String?, _ path: String, _ method: String = "GET",
        on listener: Int = 0
    ) -> String {
        let table = RouteTable(configuration)
        var group = 0
        if let rules = HostRules(configuration, table.groups) {
            switch rules.resolve(host, on: listener) {
            case .group(let found): group = found
            case .redirect(let port): return "redirect to \(port)"
            case .misdirected(let reason): return "421 \(reason.rawValue)"
            }
        }
        return table.answer(method, path, group: group) { $0.pattern.description }
    }

    @Test("Without hosts there are no rules to evaluate")
    func unused() throws {
        let configuration = try Self.configuration(["GET /* public"])
        let table = RouteTable(configuration)
        expect(HostRules(configuration, table.groups) == nil)
        expect(table.groups.members, equals: [[0]])
    }

    @Test("Rule 96: a host with routes of its own uses these and those without hosts, and no other")
    func groups() throws {
        let configuration = try Self.configuration([
            "GET /a public a.test", "GET /* protected a.test,*.b.test", "GET /b public *.b.test",
            "GET /c public x.b.test",
            "GET /every public",
        ])
        for (host, paths) in [
            ("a.test", ["/a", "/*", "/*", "/every"]), ("y.b.test", ["/*", "/b", "/*", "/every"]),
            ("x.b.test", ["404", "404", "/c", "/every"]), ("b.test", ["404", "404", "404", "/every"]),
            ("evil.test", ["404", "404", "404", "/every"]),
        ] {
            for (path, expected) in zip(["/a", "/b", "/c", "/every"], paths) {
                expect(Self.match(configuration, host, path), equals: expected, "\(host)\(path)")
            }
        }
        expect(Self.match(configuration, nil, "/every"), equals: "/every")
        expect(Self.match(configuration, "a.test", "/every", "PUT"), equals: "405 GET, HEAD")
    }

    @Test(
        "Rule 96: no spelling of a protected path is served by a public route of the same host",
        arguments: StricterRouteTests.spellings)
    func spelling(target: String) throws {
        let configuration = try Self.configuration([
            "GET /* public b.test", "GET /admin/* protected a.test", "GET /{a}/{b} public", "GET /x public a.test",
        ])
        let path = target
        expect(!["/*", "/{a}/{b}"].contains(Self.match(configuration, "a.test", path)))
        // The strict route is one of another host: it withholds nothing here.
        expect(["/*", "/{a}/{b}", "404"].contains(Self.match(configuration, "b.test", path)))
        expect(Self.match(configuration, "b.test", "/Admin/x/y"), equals: "/*")
        expect(Self.match(configuration, "a.test", "/Admin/x"), equals: "404")
    }

    @Test("Rule 96: where all routes have hosts, another host and none are misdirected")
    func unknown() throws {
        let configuration = try Self.configuration(["GET /* public a.test"])
        expect(Self.match(configuration, "b.test", "/"), equals: "421 unknown_host")
        expect(Self.match(configuration, nil, "/"), equals: "421 no_host")
        var signingIn = configuration
        signingIn.accounts = AccountsConfiguration(prefix: "/auth")
        signingIn.accounts.upstream = 0
        signingIn.accounts.publicURL = "https://app.test:8443"
        signingIn.upstreams = [UpstreamConfiguration(name: "api", targets: [])]
        expect(Self.match(signingIn, "app.test", "/auth"), equals: "currentSession")
        expect(Self.match(signingIn, "a.test", "/auth"), equals: "currentSession")
        expect(Self.match(signingIn, "app.test", "/"), equals: "404")
        expect(Self.match(signingIn, "b.test", "/auth"), equals: "421 unknown_host")
    }

    @Test("A host that a listener lists is served by such listeners only, and such a listener serves no other")
    func listeners() throws {
        let configuration = try Self.configuration(
            ["GET /* public"], listeners: [["a.test"], [], ["a.test", "*.a.test"], ["x.a.test"]])
        let expected = [
            ("a.test", [true, false, true, false]), ("y.a.test", [false, false, true, false]),
            ("x.a.test", [false, false, false, true]), ("b.test", [false, true, false, false]),
        ]
        for (host, served) in expected {
            expect((0..<4).map { Self.match(configuration, host, "/", on: $0) == "/*" }, equals: served, "\(host)")
        }
        expect(Self.match(configuration, "b.test", "/", on: 0), equals: "421 unknown_host")
        expect(Self.match(configuration, "a.test", "/", on: 1), equals: "421 other_listener")
        expect(
            (0..<4).map { Self.match(configuration, nil, "/", on: $0) },
            equals: [
                "421 no_host", "/*", "421 no_host", "421 no_host",
            ])
        expect(Self.match(configuration, "b.test", "/", on: 4), equals: "421 other_listener")
    }

    @Test("Rule 104: each host belongs to one site, and keeps the routes that it has without sites")
    func sites() throws {
        let lines = ["GET /a public a.test", "GET /b public *.a.test", "GET /every public"]
        let plain = try Self.configuration(lines)
        var (admin, ops) = (SiteConfiguration(name: "admin"), SiteConfiguration(name: "ops"))
        (admin.hosts, ops.hosts) = (["a.test", "x.a.test", "c.test"], ["*.a.test", "*.c.test"])
        var configuration = plain
        configuration.sites = [SiteConfiguration(plain.accounts), admin, ops]
        let groups = RouteTable(configuration).groups
        let expected = [
            ("a.test", 1), ("x.a.test", 1), ("y.a.test", 2), ("x.y.a.test", 0), ("c.test", 1), ("x.c.test", 2),
            ("b.test", 0),
        ]
        for (host, site) in expected {
            expect(groups.group(of: host).map { groups.site(of: $0) }, equals: site, "\(host)")
            for path in ["/a", "/b", "/every"] {
                expect(Self.match(configuration, host, path), equals: Self.match(plain, host, path), "\(host)\(path)")
            }
        }
        expect(groups.site(of: 0) == 0 && groups.site(of: -1) == 0 && groups.site(of: 100) == 0)
        // A host of a site is served although all routes have other hosts, by the gateway's own endpoints.
        var strict = try Self.configuration(["GET /a public b.test"])
        strict.sites = [SiteConfiguration(strict.accounts), admin]
        expect(Self.match(strict, "c.test", "/a"), equals: "404")
        expect(Self.match(strict, "x.c.test", "/a"), equals: "421 unknown_host")
    }

    @Test(
        "Rule 97: a host of a listener that requires client certificates is served by no listener that does not",
        arguments: [["a.x.test"], ["*.x.test"], ["*.x.test", "a.x.test"]],
        [[], ["*.x.test"], ["a.x.test"], ["a.x.test", "*.x.test"]])
    func mtlsHostIsUnreachableElsewhere(hosts: [String], others: [String]) throws {
        let configuration = try Self.configuration(
            ["GET /* public", "GET /a public a.x.test"], listeners: [others, hosts, [], hosts], mTLS: [1, 3],
            redirects: [2])
        for index in [0, 2] {
            expect(Self.match(configuration, "a.x.test", "/a", on: index), equals: "421 other_listener", "\(index)")
        }
        for index in [1, 3] { expect(Self.match(configuration, "a.x.test", "/a", on: index), equals: "/a") }
    }

    @Test("Rule 97: of listeners that require client certificates, those that list a host exactly serve it")
    func exactHostAmongListenersWithCertificates() throws {
        let configuration = try Self.configuration(
            ["GET /* public"], listeners: [["a.x.test"], ["*.x.test"], ["*.x.test", "a.x.test"], ["*.x.test"]],
            mTLS: [0, 1, 2])
        let expected = [("a.x.test", [true, false, true, false]), ("b.x.test", [false, true, true, false])]
        for (host, served) in expected {
            expect((0..<4).map { Self.match(configuration, host, "/", on: $0) == "/*" }, equals: served, "\(host)")
        }
    }

    @Test("A listener redirects hosts of routes, listeners and accounts.publicURL, and takes none from the others")
    func redirects() throws {
        var configuration = try Self.configuration(
            ["GET /* public", "GET /a public a.test,*.b.test"], listeners: [[], ["c.test"], []], redirects: [2])
        configuration.accounts.publicURL = "https://app.test"
        for host in ["a.test", "x.b.test", "c.test", "app.test"] {
            expect(Self.match(configuration, host, "/", on: 2), equals: "redirect to 443", "\(host)")
        }
        for host in ["evil.test", "b.test", "x.c.test"] {
            expect(Self.match(configuration, host, "/", on: 2), equals: "421 unknown_host")
        }
        expect(Self.match(configuration, nil, "/", on: 2), equals: "421 no_host")
    }

    @Test("Routes conflict only if a host is served by both")
    func conflicts() throws {
        let lines = ["GET /a public a.test", "GET /a public b.test", "GET /a public"]
        let accounts = AccountsConfiguration(upstream: nil)
        expect(RouteTable.conflicts(in: try Self.routes(Array(lines.prefix(2))), accounts: accounts), equals: [])
        let conflicts = RouteTable.conflicts(in: try Self.routes(lines), accounts: accounts)
        expect(conflicts.map(\.route), equals: [2, 2])
        expect(conflicts.first?.message.hasSuffix("(remove one of the two, or give both hosts)"), equals: true)
    }

    @Test("Rule 109: a listener that decides for another proxy has its hosts only, also those of others without mTLS")
    func forwardAuth() throws {
        var configuration = try Self.configuration(
            ["GET /a public"], listeners: [["a.test"], ["mtls.test"], []], mTLS: [1])
        configuration.listeners[2].forwardAuth = ForwardAuthConfiguration(
            proxy: .nginx, sources: [], hosts: ["a.test", "*.b.test", "mtls.test"])
        let match = { Self.match(configuration, $0, "/a", on: 2) }
        expect(match("a.test"), equals: "/a")
        expect(match("x.b.test"), equals: "/a")
        expect(match("b.test"), equals: "421 unknown_host")
        expect(match("evil.test"), equals: "421 unknown_host")
        expect(match("mtls.test"), equals: "421 other_listener")
        expect(match(nil), equals: "421 no_host")
        expect(Self.match(configuration, "a.test", "/a", on: 0), equals: "/a")
        expect(Self.match(configuration, "x.b.test", "/a", on: 0), equals: "421 unknown_host")
        // A listener without hosts serves all others, with certificates.
        configuration.listeners[1].hosts = []
        expect(match("a.test"), equals: "/a")
        expect(match("x.b.test"), equals: "421 other_listener")
        expect(match("mtls.test"), equals: "421 other_listener")
    }
}
