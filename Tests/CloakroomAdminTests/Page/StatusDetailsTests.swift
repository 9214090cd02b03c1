import AsyncHTTPClient
import CloakroomCore
import CloakroomTelemetry
import Foundation
import NIOHTTP1
import Testing

@testable import CloakroomAdmin

@Suite("Pages of a route and a target")
struct StatusDetailsTests {
    private let made = SampleStatus()

    /// The body of a response with this status.
    private func get(_ address: String, _ path: String, _ status: UInt) async throws -> String {
        let (response, body) = try await RunningAdminServer.send(.GET, address + path)
        #expect(response.status.code == status, "\(path)")
        return String(decoding: body, as: UTF8.self)
    }

    @Test("A route has its figures, its responses by status, and a link back")
    func route() async throws {
        made.served(3)
        made.served(1, status: 502)
        made.served(7, route: "video")
        try await RunningAdminServer.run(made.registry, status: made.source) { address in
            let html = try await get(address, "/route?name=episodes&refresh=30", 200)
            for text in [
                "Route episodes", "Refreshes every 30 s", "25\u{202F}% of the requests failed", ">502<",
                "<a href=\"./?refresh=30\">All routes and targets</a>",
            ] {
                #expect(html.contains(text), "\(text)")
            }
            #expect(!html.contains("video"))
            let main = try await get(address, "/", 200)
            #expect(main.contains("<a href=\"route?name=episodes\">episodes</a>"))
            #expect(!main.contains("All routes and targets"))
        }
    }

    @Test("A target has its state, its figures, and its connection attempts and checks")
    func target() async throws {
        made.sent(4)
        made.count(
            "cloakroom_upstream_connects_total",
            [("upstream", "api"), ("target", "http://10.0.0.1:80"), ("outcome", "refused")], 6)
        try await RunningAdminServer.run(made.registry, status: made.source) { address in
            let html = try await get(address, "/target?upstream=api&address=http%3A%2F%2F10.0.0.1%3A80", 200)
            for text in ["Target http://10.0.0.1:80", "Upstream api.", "4 requests", "Connection attempt", "refused"] {
                #expect(html.contains(text), "\(text)")
            }
            let main = try await get(address, "/", 200)
            #expect(main.contains("href=\"target?upstream=api&amp;address=http%3A%2F%2F10.0.0.1%3A80\""))
        }
    }

    @Test("Unknown names are not found, and the response does not repeat them")
    func unknown() async throws {
        made.served(1)
        try await RunningAdminServer.run(made.registry, status: made.source) { address in
            for path in [
                "/route", "/route?name=", "/route?name=%3Cscript%3E", "/route?name=%FF", "/route?xname=episodes",
                "/target?upstream=api", "/target?upstream=api&address=http%3A%2F%2F169.254.169.254",
                "/target?upstream=x&address=http%3A%2F%2F10.0.0.1%3A80",
                "/route?name=" + String(repeating: "a", count: 5_000),
            ] {
                let body = try await get(address, path, 404)
                #expect(body == "not found\n")
            }
            let (posted, _) = try await RunningAdminServer.send(.POST, address + "/route?name=episodes")
            #expect(posted.status == .methodNotAllowed)
        }
    }

    @Test("Recent failures have a fixed reason, a hint and no data of the request")
    func failures() throws {
        let start = ContinuousClock.now
        let reporter = StatusReporter(
            source: made.source, registry: made.registry, startedAt: SampleStatus.now, instant: start)
        let histogram = made.registry.histogram(
            "http_server_request_duration_seconds", help: "Served.",
            labels: [
                ("route", "episodes"), ("http_route", "/episodes/{id}"), ("http_response_status_code", "504"),
                ("error_type", "upstream_timeout"),
            ])
        for _ in 0..<3 { histogram.record(nanoseconds: 1_000_000) }
        reporter.takeSample(at: start + .seconds(10))
        let document = reporter.document(
            readiness: ReadinessReport(checks: []), now: SampleStatus.now, instant: start + .seconds(11))
        let failure = try #require(document.recentFailures.first)
        #expect(failure.route == "episodes")
        #expect(failure.status == "504")
        #expect(failure.reason == "upstream_timeout")
        #expect(failure.count == 3)
        #expect(failure.lastAt == "2027-01-15T08:00:10Z")
        #expect(try #require(StatusPage(document).html()).contains("upstream timeout"))
        let details = try #require(reporter.details(ofRoute: "episodes", instant: start + .seconds(11)))
        let page = StatusPage(route: "episodes", details, in: document, refresh: nil)
        let html = try #require(page.html())
        #expect(html.contains("No response in time: compare p99 with the timeouts of the route."))
        #expect(!html.contains("/episodes/"))
    }

    @Test("Names are encoded in links and escaped in pages, whatever they contain")
    func hostile() throws {
        let hostile = "a&b=\"><script>#é?"
        made.served(1, route: hostile)
        let html = try #require(StatusPage(made.document()).html())
        #expect(html.contains("href=\"route?name=a%26b%3D%22%3E%3Cscript%3E%23%C3%A9%3F\""))
        #expect(StatusSubjectLink.value(of: "name", in: "name=a%26b%3D%22%3E%3Cscript%3E%23%C3%A9%3F") == hostile)
        #expect(!html.contains("<script"))
    }
}
