import Foundation
import MockAPI
import TestSupport
import Testing

/// A single-page application that the gateway serves from a folder.
@Suite("Files", .serialized, .timeLimit(.minutes(2)))
struct FilesTests {
    private static func application() throws -> TemporaryDirectory {
        let folder = try TemporaryDirectory()
        try folder.write("<title>one</title>", to: "index.html")
        try folder.write("secret", to: ".env")
        return folder
    }

    @Test("Deep links get the page, hidden files do not exist, and a deployment appears without a reload")
    func application() async throws {
        let folder = try Self.application()
        let set = [
            "name=app", "path=/app/*", "requiresAuthorization=false", "files.root=\(folder.path)",
            "files.fallback=index.html", "files.scan.every=500ms",
        ].map { "routes.4.\($0)" }
        let navigation = [("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document"), ("Accept", "text/html")]
        try await GatewayProcess.running(set: set) { gateway, _ in
            let client = gateway.client
            let page = try await client.get("/app/orders/7", navigation)
            expect(page.status, equals: 200)
            expect(page.body, equals: "<title>one</title>")
            try await expect(client.get("/app/.env", navigation).body, equals: "<title>one</title>")
            try await expect(client.get("/app/missing.js").status, equals: 404)
            try await expect(client.get("/episodes").status, equals: 200)
            try folder.write("<title>two</title>", to: "index.html")
            try await eventually("the next page") {
                try await client.get("/app/").body == "<title>two</title>"
            }
        }
    }

    @Test("check-config reports what an operator should know about a folder")
    func check() async throws {
        let folder = try Self.application()
        for name in ["tls.key", "a.js.map", "b.js.map"] { try folder.write("x", to: name) }
        try FileManager.default.createDirectory(atPath: folder.path(of: "assets"), withIntermediateDirectories: true)
        for name in ["a-B8fJx2Qa.js", "b-C8fJx2Qa.js", "c-D8fJx2Qa.css"] { try folder.write("x", to: "assets/\(name)") }
        let config = try TemporaryDirectory()
        func check(_ files: String) async throws -> ChildProgram.Outcome {
            try config.write(
                """
                listeners: [{ address: "127.0.0.1:0" }]
                upstreams: { api: { targets: ["http://127.0.0.1:1"] } }
                session: { cookie: { secure: false } }
                routes:
                  - { name: app, path: /*, requiresAuthorization: false, files: { \(files) } }

                """, to: "cloakroom.yaml")
            return try await cloakroom(["check-config", "--config", config.path(of: "cloakroom.yaml")])
        }
        let found = try await check("root: \(folder.path), fallback: app.html")
        expect(found.ending, equals: ChildProgram.Ending(status: 0), "\(found.output)\(found.errors)")
        for message in [
            "files.fallback: app.html is missing", "serves /tls.key, which may be a private key",
            "2 source maps are served (write names.exclude: [.map] to hide them)",
            "/assets/ has hashed names (write immutable: [/assets/*])",
        ] { expect(found.output.contains(message), "\(message): \(found.output)") }
        let repeated = try await check("root: \(folder.path), fallback: dist/index.html")
        let message = "files.fallback: dist/index.html is missing below root, \(folder.path) (write index.html)"
        expect(repeated.output.contains(message), "\(repeated.output)")
        let wrong = try await check("root: \(folder.path)/nowhere")
        expect(wrong.ending, equals: ChildProgram.Ending(status: 1))
        expect(wrong.output.contains("files.root: must be a folder that can be read"), "\(wrong.output)")
    }
}
