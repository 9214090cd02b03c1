import AsyncHTTPClient
import CloakroomCore
import CloakroomTelemetry
import Foundation
import NIOHTTP1
import TestSupport
import Testing

@testable import CloakroomAdmin

@Suite("Details of a route and a target")
struct StatusDetailsTests {
    private let made = SampleStatus()

    /// The member `details` of `/status.json` with these parameters; `nil` if it is absent.
    private func details(_ address: String, _ query: String) async throws -> [String: Any]? {
        let (response, body) = try await RunningAdminServer.send(.GET, address + "/status.json?" + query)
        expect(response.status, equals: .ok, "\(query)")
        let document = try require(JSONSerialization.jsonObject(with: Data(body)) as? [String: Any])
        return document["details"] as? [String: Any]
    }

    @Test("A route has its requests, its trend and its responses by status")
    func route() async throws {
        made.served(3)
        made.served(1, status: 502)
        made.served(7, route: "video")
        try await RunningAdminServer.run(made.registry, status: made.source) { address in
            let details = try await require(details(address, "route=episodes"))
            let requests = try require(details["requests"] as? [String: Any])
            expect(requests["total"] as? Int, equals: 4)
            expect(requests["error_share"] as? Double, equals: 0.25)
            let responses = try require(details["responses"] as? [[String: Any]])
            expect(responses.map { $0["status"] as? String }, equals: ["200", "502"])
            expect(responses.map { $0["total"] as? Int }, equals: [3, 1])
            expect((details["trend"] as? [String: Any])?["route"] as? String, equals: "episodes")
            expect(details["trend_kept"] as? Bool, equals: true)
            expect((details["events"] as? [Any])?.isEmpty, equals: true)
            try await expect(self.details(address, "") == nil)
        }
    }

    @Test("A target has its requests, its trend, and its connection attempts and checks")
    func target() async throws {
        made.sent(4)
        made.count(
            "cloakroom_upstream_connects_total",
            [("upstream", "api"), ("target", "http://10.0.0.1:80"), ("outcome", "refused")], 6)
        try await RunningAdminServer.run(made.registry, status: made.source) { address in
            let details = try await require(
                details(address, "upstream=api&target=http%3A%2F%2F10.0.0.1%3A80"))
            expect((details["requests"] as? [String: Any])?["total"] as? Int, equals: 4)
            expect((details["trend"] as? [String: Any])?["target"] as? String, equals: "10.0.0.1:80")
            let event = try require((details["events"] as? [[String: Any]])?.first)
            expect(event["kind"] as? String, equals: "connect")
            expect(event["outcome"] as? String, equals: "refused")
            expect(event["total"] as? Int, equals: 6)
        }
    }

    @Test("Names are decoded, whatever they contain")
    func hostile() async throws {
        made.served(1, route: "a&b=\"><script>#é?")
        try await RunningAdminServer.run(made.registry, status: made.source) { address async throws in
            try await expect(details(address, "route=a%26b%3D%22%3E%3Cscript%3E%23%C3%A9%3F") != nil)
        }
    }

    @Test("Unknown names have no details, and the response does not repeat them")
    func unknown() async throws {
        made.served(1)
        try await RunningAdminServer.run(made.registry, status: made.source) { address in
            for query in [
                "route", "route=", "route=%3Cscript%3E", "route=%FF", "xroute=episodes", "upstream=api",
                "upstream=api&target=http%3A%2F%2F169.254.169.254", "upstream=x&target=http%3A%2F%2F10.0.0.1%3A80",
                "route=" + String(repeating: "a", count: 5_000),
            ] {
                try await expect(details(address, query) == nil, "\(query)")
            }
            let (_, body) = try await RunningAdminServer.send(.GET, address + "/status.json?route=hostile-name")
            expect(!String(decoding: body, as: UTF8.self).contains("hostile-name"))
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
        let details = try require(reporter.details(ofRoute: "episodes", instant: start + .seconds(11)))
        for (failure, route) in [(document.recentFailures.first, "episodes"), (details.failures.first, nil)] {
            let failure = try require(failure)
            expect(failure.route, equals: route)
            expect(failure.status, equals: "504")
            expect(failure.reason, equals: "upstream_timeout")
            expect(failure.count, equals: 3)
            expect(failure.lastAt, equals: "2027-01-15T08:00:10Z")
            expect(failure.hint, equals: "No response in time: compare p99 with the timeouts of the route.")
        }
        let text = String(decoding: try JSONEncoder().encode(details), as: UTF8.self)
        expect(!text.contains("/episodes/"))
    }

    @Test("The hint of a failure of an account endpoint is the list of failed identity calls, on both pages")
    func accounts() throws {
        let start = ContinuousClock.now
        let reporter = StatusReporter(
            source: made.source, registry: made.registry, startedAt: SampleStatus.now, instant: start)
        for (route, reason) in [
            ("(accounts)", "upstream_invalid_response"), ("(accounts)", "store_unavailable"),
            ("episodes", "upstream_invalid_response"),
        ] {
            made.registry.histogram(
                "http_server_request_duration_seconds", help: "Served.",
                labels: [("route", route), ("http_response_status_code", "502"), ("error_type", reason)]
            ).record(nanoseconds: 1_000_000)
        }
        reporter.takeSample(at: start + .seconds(10))
        let document = reporter.document(
            readiness: ReadinessReport(checks: []), now: SampleStatus.now, instant: start + .seconds(11))
        let details = try require(reporter.details(ofRoute: "(accounts)", instant: start + .seconds(11)))
        let ofAccounts = document.recentFailures.filter { $0.route == "(accounts)" }
        for failures in [ofAccounts, details.failures] {
            expect(
                Set(failures.map(\.hint)),
                equals: [
                    "An identity call failed: see the list of failed identity calls.", "Check the session store.",
                ])
        }
        let other = document.recentFailures.first { $0.route == "episodes" }
        expect(other?.hint, equals: "The response was not valid HTTP: check the log of the gateway.")
    }
}
