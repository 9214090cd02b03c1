import AsyncHTTPClient
import CloakroomCore
import CloakroomTelemetry
import Foundation
import NIOHTTP1
import TestSupport
import Testing

@testable import CloakroomAdmin

@Suite("Status page over HTTP")
struct StatusPageTests {
    private let made = SampleStatus()

    private func serving(
        _ probes: [ReadinessProbe] = [], _ body: @Sendable (_ address: String) async throws -> Void
    ) async throws {
        try await RunningAdminServer.run(made.registry, probes, status: made.source, body)
    }

    @Test("A file of the page must not be framed, stored or sniffed", arguments: StatusPage.allCases)
    func headers(file: StatusPage) async throws {
        let types: [StatusPage: String] = [.page: "text/html", .style: "text/css"]
        try await serving { address in
            // The query is for the script.
            let (response, body) = try await RunningAdminServer.send(
                .GET, address + file.rawValue + "?route=%3Cscript%3E")
            expect(response.status, equals: .ok)
            expect(response.headers["content-type"], equals: [(types[file] ?? "text/javascript") + "; charset=utf-8"])
            expect(response.headers["cache-control"], equals: ["no-store"])
            expect(response.headers["x-content-type-options"], equals: ["nosniff"])
            expect(response.headers["referrer-policy"], equals: ["no-referrer"])
            expect(response.headers["content-security-policy"].first?.contains("frame-ancestors 'none'"), equals: true)
            expect(Array(body), equals: file.content)
        }
    }

    @Test("The page may load only files of this listener, and no text may become markup")
    func policy() async throws {
        try await serving { address in
            let (response, _) = try await RunningAdminServer.send(.GET, address + "/")
            expect(
                response.headers["content-security-policy"],
                equals: [
                    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:;"
                        + " form-action 'none'; base-uri 'none'; frame-ancestors 'none';"
                        + " require-trusted-types-for 'script'; trusted-types 'none'"
                ])
        }
    }

    private func text(_ file: StatusPage) -> String { String(decoding: file.content, as: UTF8.self) }

    @Test("The page has no inline script or style, and all that it loads is a file of the page")
    func inline() {
        let html = text(.page)
        let loaded = html.matches(of: /(?:src|href)="([^"]+)"/).map { "/" + $0.1 }
        expect(Set(loaded), equals: ["/status.css", "/draw.js", "/status.js", "/status.json", "/data:,"])
        expect(empty: html.matches(of: /<script[^>]*>[^<]/))
        expect(empty: html.matches(of: /<style|\sstyle=|\son\w+=|javascript:/))
        let css = text(.style)
        expect(css.contains("prefers-color-scheme: dark"))
        expect(!css.contains("url(") && !css.contains("@import"))
    }

    @Test("Without scripts the page states that it needs them, and links the document")
    func withoutScripts() throws {
        let html = text(.page)
        let hint = try require(html.firstMatch(of: /<noscript>([^\0]*)<\/noscript>/)).1
        expect(hint.contains("needs JavaScript") && hint.contains("href=\"status.json\""))
    }

    @Test("No script turns text into markup or code", arguments: [StatusPage.parts, .script])
    func scripts(file: StatusPage) {
        let script = text(file)
        let sinks = /\.(inner|outer)HTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setAttribute\("style/
        expect(empty: script.matches(of: sinks))
    }

    @Test("The page marks the values that the alerts report")
    func thresholds() {
        expect(text(.parts).contains("const errorShare = \(StatusAlert.errorShare);"))
        expect(text(.script).contains("const certificateDays = \(StatusAlert.certificateDays);"))
    }

    @Test("/status.json is 200 even if the gateway is not ready")
    func json() async throws {
        made.served(3)
        let failing = ReadinessProbe(name: "session store", failure: "it is unreachable") { false }
        try await serving([failing]) { address in
            let (response, body) = try await RunningAdminServer.send(.GET, address + "/status.json")
            expect(response.status, equals: .ok)
            expect(response.headers["content-type"], equals: ["application/json"])
            expect(response.headers["cache-control"], equals: ["no-store"])
            let document = try require(JSONSerialization.jsonObject(with: body) as? [String: Any])
            expect(document["state"] as? String, equals: "not_ready")
            let routes = try require(document["routes"] as? [[String: Any]])
            expect(routes.first?["name"] as? String, equals: "episodes")
            expect(String(decoding: body, as: UTF8.self).contains("it is unreachable"))
        }
    }

    @Test("HEAD has GET's Content-Length and no body; other methods are rejected")
    func methods() async throws {
        try await serving { address in
            for path in StatusPage.allCases.map(\.rawValue) + ["/status.json"] {
                let (head, body) = try await RunningAdminServer.send(.HEAD, address + path)
                expect(head.status, equals: .ok)
                expect(empty: body)
                #expect((head.headers.first(name: "content-length").flatMap { Int($0) } ?? 0) > 500)
                for method in [HTTPMethod.POST, .PUT, .DELETE] {
                    let (rejected, _) = try await RunningAdminServer.send(method, address + path)
                    expect(rejected.status, equals: .methodNotAllowed)
                    expect(rejected.headers["allow"], equals: ["GET, HEAD"])
                }
            }
            for path in ["/status", "/index.html", "/status.json/", "/favicon.ico", "/route", "/target"] {
                let (response, _) = try await RunningAdminServer.send(.GET, address + path)
                expect(response.status, equals: .notFound, "\(path)")
            }
        }
    }

    @Test("Without a data source there is no page")
    func none() async throws {
        try await RunningAdminServer.run { address in
            for path in StatusPage.allCases.map(\.rawValue) + ["/status.json"] {
                let (response, _) = try await RunningAdminServer.send(.GET, address + path)
                expect(response.status, equals: .notFound, "\(path)")
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
            expect(response.headers["content-type"], equals: ["text/plain; version=0.0.4; charset=utf-8"])
            expect(empty: response.headers["vary"])
            expect(String(decoding: body, as: UTF8.self).hasPrefix("# HELP "))
        }
    }
}
