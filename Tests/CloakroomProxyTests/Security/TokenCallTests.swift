import TestSupport
import Testing

@testable import CloakroomCore

/// Client requests for the upstream's identity endpoints through a wildcard route.
@Suite("Identity endpoints under wildcard routes", .serialized)
struct TokenCallTests {
    private static let methods = ["GET", "POST", "PUT", "DELETE", "OPTIONS"]

    /// A public wildcard route, a narrower one, and one for the user path, with an upstream that provides sign-in.
    private static let setup = GatewaySetup.serving.configuration { configuration in
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

    private static let spellings = [
        "/auth", "/Auth", "/auth%20", "/auth/", "/AUTH./", "/%61uth", "/%2561uth", "/auth?a=b", "/auth/refresh",
        "/auth/Refresh%20", "/api/v1/logout", "/API/v1/logout", "/api/v1/LogOut.", "/api/v1%252Flogout", "/USER",
        "/user/", "http://gateway.test/auth",
    ]
    private static let others = ["/", "/authx", "/auth.json", "/auth/x", "/users", "/api/v1/log", "/user"]

    private static let rows = [
        Scenario(
            "Rule 33: no spelling or method reaches an identity endpoint of the upstream through a wildcard route",
            on: setup,
            .each(
                methods.flatMap { method in spellings.map { Ask.ask(method, $0, ["Content-Length: 0"]) } }, 404,
                text: "…not_found…"), sent: []),
        Scenario(
            "Rule 33: paths that differ from an identity endpoint in more than spelling are forwarded", on: setup,
            .each(others.map { Ask.get($0) }, 200, text: "ok"), sent: others.map { .init("GET \($0) HTTP/1.1") }),
        Scenario(
            "Rule 33: after a reload that adds an identity endpoint its path is blocked", on: setup,
            .ok(Ask.get("/login")),
            .replace {
                $0.upstreams[0].signIn = IdentityEndpointConfiguration(path: "/login", credentials: .basic)
            }, .each([Ask.get("/Login")], 404), sent: ["GET /login HTTP/1.1"]),
    ]

    @Test("Identity endpoints", arguments: rows)
    func scenario(_ scenario: Scenario) async throws { try await scenario.run() }
}
