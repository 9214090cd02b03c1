import TestSupport
import Testing

@testable import CloakroomCore

/// Client requests that a wider, less strict route matches, but that an upstream may treat as those of a stricter one.
@Suite("Stricter routes within wider ones", .serialized)
struct StricterRouteTests {
    /// A public wildcard route with the API token and a protected route within it.
    private static let setup = GatewaySetup([.request, .send(Reply.ok), .again]).configuration { configuration in
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

    @Test("Rule 6: no spelling of a protected path reaches the upstream through a wider public route, over HTTP/1.1")
    func http1() async throws {
        try await Self.setup.run { gateway in
            let client = try await gateway.client()
            for path in Self.spellings {
                let response = try await client.exchange(Ask.get(path))
                #expect(response.status == 404, "\(path)")
                #expect(response.code == "not_found", "\(path)")
            }
            #expect(try await client.exchange(Ask.get("/admin/x")).status == 401)
            #expect(gateway.upstream.connections.isEmpty)
            #expect(try await client.exchange(Ask.get("/administrators")).text == "ok")
        }
    }

    @Test("Rule 6: no spelling of a protected path reaches the upstream through a wider public route, over HTTP/2")
    func http2() async throws {
        try await Self.setup.http2().run { gateway in
            let client = try await gateway.http2()
            var id: UInt32 = 1
            for path in Self.spellings {
                let response = try await client.exchange(id, .get(path))
                #expect(response.status == 404, "\(path)")
                #expect(response.code == "not_found", "\(path)")
                id += 2
            }
            #expect(gateway.upstream.received == 0)
            #expect(try await client.exchange(id, .get("/administrators")).text == "ok")
        }
    }

    @Test("Rule 27: a method without a route of its own at a protected path is 405, and the upstream receives nothing")
    func methods() async throws {
        try await Self.setup.run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.post("/admin/x"))
            #expect(response.status == 405)
            #expect(response.code == "method_not_allowed")
            #expect(gateway.upstream.connections.isEmpty)
            #expect(try await client.exchange(Ask.post("/other")).text == "ok")
        }
    }

    @Test("Rule 6: after a reload that protects a path, its other spellings are not served")
    func reload() async throws {
        try await Self.setup.configuration { $0.routes.removeLast() }.run { gateway in
            #expect(try await gateway.client().exchange(Ask.get("/Admin/x")).text == "ok")
            try await gateway.replace { configuration in
                configuration.routes.append(
                    Route(
                        name: "admin", methods: ["GET"], pattern: try PathPattern("/admin/*"),
                        requiresAuthorization: true))
            }
            #expect(try await gateway.client().exchange(Ask.get("/Admin/x")).status == 404)
            #expect(gateway.upstream.requests.count == 1)
        }
    }
}
