import TestSupport
import Testing

@testable import CloakroomCore

/// Client requests for the upstream's identity endpoints through a wildcard route.
@Suite("Identity endpoints under wildcard routes", .serialized)
struct TokenCallTests {
    private static let methods = ["GET", "POST", "PUT", "DELETE", "OPTIONS"]

    /// A public wildcard route, a narrower one, and one for the user path, with an upstream that provides sign-in.
    private static let setup = GatewaySetup([.request, .send(Reply.ok), .again]).configuration { configuration in
        configuration.upstreams[0].signIn = IdentityEndpointConfiguration(path: "/auth", credentials: .basic)
        configuration.upstreams[0].refresh = IdentityEndpointConfiguration(path: "/auth/refresh")
        configuration.upstreams[0].revoke = IdentityEndpointConfiguration(path: "/api/v1/logout")
        configuration.upstreams[0].user = IdentityEndpointConfiguration(method: "GET", path: "/user")
        configuration.accounts = AccountsConfiguration(prefix: "/session")
        let paths = ["/*", "/api/{version}/{call}", "/user"]
        configuration.routes = paths.compactMap { path in
            (try? PathPattern(path)).map {
                Route(
                    name: "r\(path.count)", methods: path == "/user" ? ["GET"] : methods, pattern: $0,
                    requiresAuthorization: false, inject: .apiToken)
            }
        }
    }

    @Test("Rule 33: no spelling or method reaches an identity endpoint of the upstream through a wildcard route")
    func nothingUpstream() async throws {
        try await Self.setup.run { gateway in
            for method in Self.methods {
                for path in [
                    "/auth", "/Auth", "/auth%20", "/auth/", "/AUTH./", "/%61uth", "/%2561uth", "/auth?a=b",
                    "/auth/refresh",
                    "/auth/Refresh%20", "/api/v1/logout", "/API/v1/logout", "/api/v1/LogOut.", "/api/v1%252Flogout",
                    "/USER", "/user/", "http://gateway.test/auth",
                ] {
                    let response = try await gateway.client().exchange(
                        "\(method) \(path) HTTP/1.1\r\nHost: gateway.test\r\nContent-Length: 0\r\n\r\n")
                    #expect(response.status == 404, "\(method) \(path)")
                    #expect(response.text.contains("not_found"), "\(method) \(path)")
                }
            }
            #expect(gateway.upstream.connections.isEmpty)
        }
    }

    @Test("Rule 33: paths that differ from an identity endpoint in more than spelling are forwarded")
    func others() async throws {
        try await Self.setup.run { gateway in
            let paths = ["/", "/authx", "/auth.json", "/auth/x", "/users", "/api/v1/log", "/user"]
            for path in paths {
                let response = try await gateway.client().exchange(Ask.get(path))
                #expect(response.text == "ok", "\(path)")
            }
            #expect(gateway.upstream.requests.map(\.line) == paths.map { "GET \($0) HTTP/1.1" })
        }
    }

    @Test("Rule 33: after a reload that adds an identity endpoint its path is blocked")
    func reload() async throws {
        try await Self.setup.run { gateway in
            #expect(try await gateway.client().exchange(Ask.get("/login")).text == "ok")
            try await gateway.replace { configuration in
                configuration.upstreams[0].signIn = IdentityEndpointConfiguration(path: "/login", credentials: .basic)
            }
            let response = try await gateway.client().exchange(Ask.get("/Login"))
            #expect(response.status == 404)
            #expect(gateway.upstream.requests.count == 1)
        }
    }
}
