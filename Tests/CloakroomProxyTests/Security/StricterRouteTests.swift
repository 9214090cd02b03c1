import TestSupport
import Testing

@testable import CloakroomCore

/// Client requests that a wider, less strict route matches, but that an upstream may treat as those of a stricter one.
@Suite("Stricter routes within wider ones", .serialized)
struct StricterRouteTests {
    /// A public wildcard route with the API token and a protected route within it.
    private static let setup = GatewaySetup.serving.configuration { configuration in
        configuration.routes = [("/*", ["GET", "POST"], false), ("/admin/*", ["GET"], true)].compactMap {
            path, methods, isProtected in
            (try? PathPattern(path)).map {
                Route(
                    name: isProtected ? "admin" : "all", methods: methods, pattern: $0,
                    requiresAuthorization: isProtected, inject: .apiToken)
            }
        }
    }

    private static let spellings = [
        "/Admin/x", "/admin./x", "/admin%20/x", "/%2561dmin/x", "/x/%252e%252e/admin/x", "/adm%C4%B1n/x", "/admin",
        "/ADMIN/", "/admin%252Fx", "/x/..%20/admin/x",
    ]

    private static let rows = [
        Scenario(
            "Rule 6: no spelling of a protected path reaches the upstream through a wider public route", on: setup,
            .all(spellings.map { Ask.get($0) }, 404, "not_found"), .ask(Ask.get("/admin/x"), 401),
            .run { expect(empty: $0.upstream.connections) }, .ok(Ask.get("/administrators")), alsoHTTP2: true),
        Scenario(
            "Rule 27: a method without a route of its own at a protected path is 405, and the upstream receives nothing",
            on: setup, .ask(Ask.post("/admin/x"), 405, "method_not_allowed"),
            .run { expect(empty: $0.upstream.connections) }, .ok(Ask.post("/other"))),
        Scenario(
            "Rule 6: after a reload that protects a path, its other spellings are not served",
            on: setup.configuration { $0.routes.removeLast() }, .ok(Ask.get("/Admin/x")),
            .replace {
                $0.routes.append(
                    Route(
                        name: "admin", methods: ["GET"], pattern: try PathPattern("/admin/*"),
                        requiresAuthorization: true))
            }, .each([Ask.get("/Admin/x")], 404), sent: ["GET /Admin/x HTTP/1.1"]),
    ]

    @Test("Stricter routes", arguments: rows)
    func scenario(_ scenario: Scenario) async throws { try await scenario.run() }
}
