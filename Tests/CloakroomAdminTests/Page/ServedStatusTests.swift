import AsyncHTTPClient
import CloakroomCore
import CloakroomTelemetry
import Foundation
import NIOHTTP1
import Testing

@testable import CloakroomAdmin

@Suite("Status page over HTTP")
struct ServedStatusTests {
    private let made = SampleStatus()

    private func serving(
        _ probes: [ReadinessProbe] = [], _ body: @Sendable (_ address: String) async throws -> Void
    ) async throws {
        try await RunningAdminServer.run(made.registry, probes, status: made.source, body)
    }

    @Test("The page may load its style sheet only, run no script, and must not be framed or stored")
    func policy() async throws {
        try await serving { address in
            let (response, body) = try await RunningAdminServer.send(.GET, address + "/")
            #expect(response.status == .ok)
            #expect(response.headers["content-type"] == ["text/html; charset=utf-8"])
            #expect(
                response.headers["content-security-policy"] == [
                    "default-src 'none'; style-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none';"
                        + " form-action 'none'"
                ])
            #expect(response.headers["cache-control"] == ["no-store"])
            #expect(response.headers["x-content-type-options"] == ["nosniff"])
            #expect(response.headers["referrer-policy"] == ["no-referrer"])
            #expect(response.headers["refresh"].isEmpty)
            let html = String(decoding: body, as: UTF8.self)
            #expect(!html.contains("<script"))
            #expect(!html.contains(" style="))
            #expect(!html.contains("src=") && !html.contains("href=\"http"), "no resource is from another origin")
        }
    }

    @Test("The style sheet is served, and loads no resource")
    func style() async throws {
        try await serving { address in
            let (response, body) = try await RunningAdminServer.send(.GET, address + "/status.css")
            #expect(response.status == .ok)
            #expect(response.headers["content-type"] == ["text/css; charset=utf-8"])
            let css = String(decoding: body, as: UTF8.self)
            #expect(css.contains("prefers-color-scheme: dark"))
            #expect(!css.contains("url("))
            #expect(!css.contains("@import"))
        }
    }

    @Test("/status.json is the same document, and 200 even if the gateway is not ready")
    func json() async throws {
        made.served(3)
        let failing = ReadinessProbe(name: "session store") {
            ReadinessCheck(name: "session store", isReady: false, detail: "it is unreachable")
        }
        try await serving([failing]) { address in
            let (response, body) = try await RunningAdminServer.send(.GET, address + "/status.json")
            #expect(response.status == .ok)
            #expect(response.headers["content-type"] == ["application/json"])
            #expect(response.headers["cache-control"] == ["no-store"])
            let document = try #require(try JSONSerialization.jsonObject(with: body) as? [String: Any])
            #expect(document["state"] as? String == "not_ready")
            let routes = try #require(document["routes"] as? [[String: Any]])
            #expect(routes.first?["name"] as? String == "episodes")
            let (page, html) = try await RunningAdminServer.send(.GET, address + "/")
            #expect(page.status == .ok)
            #expect(String(decoding: html, as: UTF8.self).contains("it is unreachable"))
        }
    }

    @Test("HEAD has GET's Content-Length and no body; other methods are rejected")
    func methods() async throws {
        try await serving { address in
            for path in ["/", "/status.json", "/status.css"] {
                let (head, body) = try await RunningAdminServer.send(.HEAD, address + path)
                #expect(head.status == .ok)
                #expect(body.isEmpty)
                #expect((head.headers.first(name: "content-length").flatMap { Int($0) } ?? 0) > 500)
                for method in [HTTPMethod.POST, .PUT, .DELETE] {
                    let (rejected, _) = try await RunningAdminServer.send(method, address + path)
                    #expect(rejected.status == .methodNotAllowed)
                    #expect(rejected.headers["allow"] == ["GET, HEAD"])
                }
            }
            for path in ["/status", "/index.html", "/status.json/", "/favicon.ico"] {
                let (response, _) = try await RunningAdminServer.send(.GET, address + path)
                #expect(response.status == .notFound, "\(path)")
            }
        }
    }

    @Test("It refreshes automatically only on request, and only at the allowed intervals")
    func refreshing() async throws {
        try await serving { address in
            let (asked, body) = try await RunningAdminServer.send(.GET, address + "/?refresh=10")
            #expect(asked.headers["refresh"] == ["10"])
            #expect(String(decoding: body, as: UTF8.self).contains("Refreshes every 10 s"))
            for interval in ["5", "30", "60"] {
                let (response, _) = try await RunningAdminServer.send(.GET, address + "/?refresh=\(interval)")
                #expect(response.headers["refresh"] == [interval])
            }
            for query in ["?refresh=0", "?refresh=10;url=https://example.com", "?refresh=1", "?x"] {
                let (response, _) = try await RunningAdminServer.send(.GET, address + "/" + query)
                #expect(response.status == .ok)
                #expect(response.headers["refresh"].isEmpty, "\(query)")
            }
        }
    }

    @Test("Without a data source there is no page")
    func none() async throws {
        try await RunningAdminServer.run { address in
            for path in ["/", "/status.json", "/status.css"] {
                let (response, _) = try await RunningAdminServer.send(.GET, address + path)
                #expect(response.status == .notFound, "\(path)")
            }
        }
    }

    @Test("/metrics is the text format whatever a client accepts")
    func metrics() async throws {
        made.served(1)
        try await serving { address in
            let (response, body) = try await RunningAdminServer.send(
                .GET, address + "/metrics",
                [("accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")])
            #expect(response.headers["content-type"] == ["text/plain; version=0.0.4; charset=utf-8"])
            #expect(response.headers["vary"].isEmpty)
            #expect(String(decoding: body, as: UTF8.self).hasPrefix("# HELP "))
        }
    }
}
