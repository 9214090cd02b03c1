import CloakroomCore
import Foundation
import Testing

@testable import CloakroomAdmin

@Suite("Choices in the query of the status page")
struct StatusQueryTests {
    private let made = SampleStatus()

    private func names(_ query: String) -> [String] {
        StatusQuery(query).selecting(made.document().routes).map(\.name)
    }

    @Test("Only listed values have an effect; all others are ignored")
    func whitelist() {
        for query in [
            "", "x", "refresh", "refresh=", "refresh=7", "refresh=05", "refresh=10;url=https://example.com",
            "routes-sort=<script>", "routes-sort=--p99", "routes-show=x", "targets-sort=%6eame", "Refresh=10",
            "targets-show=unused%00",
        ] {
            #expect(StatusQuery(query) == StatusQuery(), "\(query)")
        }
        #expect(StatusQuery(String(repeating: "x=1&", count: 16) + "refresh=10") == StatusQuery())
    }

    @Test("A link contains all choices, and leads to the same page")
    func links() {
        for text in [
            "routes-sort=p99&routes-show=failing&targets-sort=-state&targets-show=unused&refresh=30",
            "routes-sort=-rate", "refresh=5",
        ] {
            let link = StatusQuery(text).link(to: "routes")
            #expect(link == "./?\(text)#routes")
        }
        #expect(StatusQuery().link() == "./")
    }

    @Test("Routes are sorted by every column and in both directions")
    func sorting() {
        made.served(5, route: "b", milliseconds: 90)
        made.served(9, route: "c")
        made.served(2, route: "a", status: 500)
        made.served(1, route: "a", status: 401)
        #expect(names("") == ["c", "b", "a"])
        #expect(names("routes-sort=-rate") == ["a", "b", "c"])
        #expect(names("routes-sort=name") == ["a", "b", "c"])
        #expect(names("routes-sort=-name") == ["c", "b", "a"])
        for column in ["p50", "p95", "p99"] { #expect(names("routes-sort=\(column)").first == "b", "\(column)") }
        for column in ["failed", "unauthorized", "-total"] {
            #expect(names("routes-sort=\(column)").first == "a", "\(column)")
        }
    }

    @Test("Routes are filtered, and an empty result names its cause")
    func filtering() throws {
        made.served(5, route: "ok")
        #expect(names("routes-show=active") == ["ok"])
        let html = try #require(StatusPage(made.document(), query: StatusQuery("routes-show=failing")).html())
        #expect(html.contains("No route matches."))
        made.served(1, route: "broken", status: 503)
        #expect(names("routes-show=failing") == ["broken"])
    }

    @Test("Targets are sorted and filtered")
    func targets() {
        let targets: [StatusQuery.NamedTarget] = [
            ("b", .init(.init(address: "http://2:80", circuit: .closed, inFlight: 3), now: SampleStatus.now)),
            ("a", .init(.init(address: "http://3:80", circuit: .open, inFlight: 9), now: SampleStatus.now)),
            (
                "c",
                .init(
                    .init(
                        address: "http://1:80", circuit: .closed,
                        lastFailure: .init(time: SampleStatus.now, reason: "reset")), now: SampleStatus.now)
            ),
        ]
        func upstreams(_ query: String) -> String {
            StatusQuery(query).selecting(targets).map(\.upstream).joined()
        }
        #expect(upstreams("") == "bac")
        #expect(upstreams("targets-sort=name") == "cba")
        #expect(upstreams("targets-sort=upstream") == "abc")
        #expect(upstreams("targets-sort=-upstream") == "cba")
        #expect(upstreams("targets-sort=inflight") == "abc")
        #expect(upstreams("targets-sort=state") == "abc")
        #expect(upstreams("targets-show=unused") == "a")
        #expect(upstreams("targets-show=failed") == "c")
    }

    @Test("A sorted column is marked, its link reverses the order, and other choices are kept")
    func columns() throws {
        made.served(1)
        let query = StatusQuery("routes-sort=p99&refresh=10")
        let html = try #require(StatusPage(made.document(), query: query).html())
        #expect(
            html.contains(
                "aria-sort=\"descending\"><a href=\"./?routes-sort=-p99&amp;refresh=10#routes\">p99</a></th>"))
        #expect(html.contains("<a href=\"./?routes-sort=name&amp;refresh=10#routes\">Route</a>"))
        #expect(html.contains("<a href=\"./?routes-sort=p99&amp;refresh=10\" aria-current=\"true\">10 s</a>"))
        #expect(html.contains("<a href=\"./?routes-sort=p99\">Stop</a>"))
        #expect(html.components(separatedBy: "aria-sort").count == 2)
    }
}
