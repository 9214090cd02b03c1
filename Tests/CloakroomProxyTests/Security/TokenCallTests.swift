import CloakroomCore
import Testing

/// What a client gets that asks for the upstream's token calls through a wide route.
@Suite("Token calls behind wide routes", .serialized)
struct TokenCallTests {
    private static let methods = ["GET", "POST", "PUT", "DELETE", "OPTIONS"]

    /// A wide public route, a narrower one, and one that names the user call, in front of an upstream that signs people in.
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

    @Test("Rule 33: no spelling of a token call reaches the upstream through a wide route, by no method")
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

    @Test("Rule 33: what cannot be told from a token call by an upstream that folds paths is kept back, and no more")
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

    @Test("Rule 33: a reload that adds a token call keeps its path back from then on")
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
