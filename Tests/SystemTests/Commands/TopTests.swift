import CloakroomCore
import Foundation
import MockAPI
import TestSupport
import Testing

@testable import cloakroom

/// `cloakroom top`.
@Suite("Top", .serialized, .timeLimit(.minutes(3)))
struct TopTests {
    private func top(
        _ arguments: [String], environment: [String: String] = [:]
    ) async throws -> (ending: ChildProgram.Ending, output: String, errors: String) {
        try await ChildProgram.run(try Executables.cloakroom(), ["top"] + arguments, environment: environment)
    }

    private static func json(
        routes: String = "", targets: String = "", concerns: String = "", total: Int = 0, errors: Int = 0,
        startedAt: String = "2027-01-15T08:00:00Z"
    ) -> Data {
        Data(
            """
            {"state":"ready","concerns":[\(concerns)],"generated_at":"2027-01-15T08:10:00Z","window_seconds":300,
            "process":{"version":"1.2.3","commit":"c","started_at":"\(startedAt)","uptime_seconds":600},
            "traffic":{"total":\(total),"recent":0,"per_second":1.5,"errors_total":\(errors)},
            "routes":[\(routes)],"sessions":{"active":4,"created_total":9,"ended":[]},
            "upstreams":[{"name":"api","health":"healthy","in_flight":2,"pending":1,"targets":[\(targets)]}],
            "recent_failures":[{"route":"video","status":"504","reason":"upstream_timeout","count":3,
            "first_at":"2027-01-15T08:09:00Z","last_at":"2027-01-15T08:09:50Z"}]}
            """.utf8)
    }

    private static func route(_ name: String, total: Int, errors: Int = 0) -> String {
        """
        {"name":"\(name)","requests":{"total":\(total),"per_second":0.5,"errors_total":\(errors),\
        "latency":{"p50_ms":1.5,"p95_ms":20,"p99_ms":99}}}
        """
    }

    private func document(_ json: Data) throws -> TopDocument { try #require(TopDocument(json: json)) }

    @Test("A frame has the state, the alerts, the routes, the targets and the failures")
    func frame() throws {
        let json = Self.json(
            routes: Self.route("episodes", total: 12),
            targets: #"{"address":"http://10.0.0.1:80","state":"down","circuit":"open"}"#,
            concerns: #"{"kind":"upstream","severity":"critical","text":"The upstream is unreachable."}"#)
        let text = TopFrame(try document(json), address: "http://127.0.0.1:9464").text()
        for part in [
            "Serving traffic · Cloakroom 1.2.3 · up 10 min · http://127.0.0.1:9464",
            "1.5 requests/s · - failed (last 300 s)", "2 in flight · 1 waiting · 4 sessions",
            "PROBLEM  The upstream is unreachable.",
            "episodes         0.5       -  1.5 ms  20 ms  99 ms     12", "http://10.0.0.1:80  api       down",
            "video    504     upstream_timeout         3  2027-01-15T08:09:50Z",
        ] {
            #expect(text.contains(part), "\(part)\n\(text)")
        }
        #expect(!text.contains("\u{1B}"))
    }

    @Test("Rates and shares are those since the previous frame, and the busiest route is first")
    func rates() throws {
        let before = try document(
            Self.json(
                routes: [Self.route("a", total: 100), Self.route("b", total: 5)].joined(separator: ","), total: 105))
        let after = try document(
            Self.json(
                routes: [Self.route("a", total: 100), Self.route("b", total: 25, errors: 5)].joined(separator: ","),
                total: 125, errors: 5))
        let text = TopFrame(after, address: "", previous: (before, 2)).text()
        #expect(text.contains("10.0 requests/s · 25.0 % failed (last 2.0 s)"), "\(text)")
        let names = text.split(separator: "\n").filter { $0.hasPrefix("a ") || $0.hasPrefix("b ") }.map(\.first)
        #expect(names == ["b", "a"])
    }

    @Test("A percentile above the highest bucket is shown as a lower bound")
    func bound() throws {
        let slow = """
            {"name":"video","requests":{"total":9,"per_second":0.5,"errors_total":0,\
            "latency":{"p50_ms":1500,"p95_ms":10000,"p99_ms":10000,"at_least":["p99_ms"]}}}
            """
        let text = TopFrame(try document(Self.json(routes: slow)), address: "").text()
        #expect(text.contains("1.5 s  10.0 s  > 10.0 s"), "\(text)")
    }

    @Test("A restarted gateway is not compared with the previous process")
    func restarted() throws {
        let before = try document(Self.json(total: 1_000, startedAt: "2027-01-14T08:00:00Z"))
        let text = TopFrame(try document(Self.json(total: 3)), address: "", previous: (before, 2)).text()
        #expect(text.contains("1.5 requests/s"), "\(text)")
    }

    @Test("Texts of the document cannot control the terminal, and lines are cut to it")
    func hostile() throws {
        let name = #"\u001b[2J\u0007\u202e\n"# + String(repeating: "x", count: 500)
        let frame = TopFrame(try document(Self.json(routes: Self.route(name, total: 1))), address: "")
        let text = frame.text(width: 40, height: 6)
        #expect(!text.unicodeScalars.contains { $0 == "\u{1B}" || $0 == "\u{7}" || $0 == "\u{202E}" })
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.count == 7)
        #expect(lines.allSatisfy { $0.count <= 40 })
        #expect(frame.text(inColor: true).contains("\u{1B}[1;32mServing traffic"))
    }

    @Test(
        "Characters that control a terminal, change the direction of text or are invisible are replaced",
        arguments: [
            "\u{1B}", "\u{9B}", "\n", "\u{61C}", "\u{200B}", "\u{200D}", "\u{202E}", "\u{2028}", "\u{2067}",
            "\u{FEFF}", "\u{AD}", "\u{180E}", "\u{3164}", "\u{E0041}",
        ])
    func invisible(character: String) {
        #expect(TerminalText.clean("a\(character)b") == "a\u{FFFD}b")
    }

    @Test("Ordinary text is unchanged, and a limit counts scalars")
    func visible() {
        let text = "GET /épisodes/{id} · 東京 עברית 50 %"
        #expect(TerminalText.clean(text) == text)
        #expect(
            TerminalText.clean("e" + String(repeating: "\u{301}", count: 1_000), limit: 3).unicodeScalars.count == 3)
    }

    @Test("At most 20 routes are shown")
    func many() throws {
        let routes = (0..<300).map { Self.route("route-\($0)", total: 1) }.joined(separator: ",")
        let text = TopFrame(try document(Self.json(routes: routes)), address: "").text()
        #expect(text.contains("and 280 more"))
    }

    @Test("A document of another kind is rejected", arguments: ["", "[]", "{}", #"{"state":1}"#])
    func otherDocument(_ json: String) {
        #expect(TopDocument(json: Data(json.utf8)) == nil)
    }

    @Test("top --once prints one frame of a running gateway, without control characters")
    func once() async throws {
        try await GatewayProcess.running(GatewayYAML(upstream: "http://127.0.0.1:9")) { gateway in
            for response in [
                try await top(["--once", "--admin", gateway.admin]),
                try await top(["--once", "--admin", gateway.admin + "/"]),
                try await top(
                    ["--once"],
                    environment: ["CLOAKROOM_ADMIN_ADDRESS": String(gateway.admin.dropFirst("http://".count))]),
            ] {
                #expect(response.ending == ChildProgram.Ending(status: 0), "\(response.errors)")
                #expect(response.output.hasPrefix("Serving traffic · Cloakroom "), "\(response.output)")
                #expect(response.output.contains("http://127.0.0.1:9  api"), "\(response.output)")
                #expect(!response.output.contains("\u{1B}"))
            }
        }
    }

    @Test("A gateway that does not respond, and a port of another service, end top with 1 and the reason")
    func unreachable() async throws {
        let gone = try await top(["--once", "--admin", "http://127.0.0.1:9"])
        #expect(gone.ending == ChildProgram.Ending(status: 1))
        let refused = """
            cloakroom: http://127.0.0.1:9 does not respond: no process listens on this address \
            (start the gateway, or write the address of admin.address)\n
            """
        #expect(gone.errors == refused)
        let other = try await MockAPI.withServer(.withTwoUsers) { mock in
            try await top(["--once", "--admin", mock.baseURL])
        }
        #expect(other.ending == ChildProgram.Ending(status: 1))
        #expect(other.errors.contains("is not an admin listener"), "\(other.errors)")
    }

    @Test("An invalid option is rejected with a hint")
    func invalid() async throws {
        for (arguments, hint) in [
            (["--admin", "ftp://127.0.0.1"], "write --admin http://127.0.0.1:9464"),
            (["--admin", "http://user:secret@127.0.0.1:9464"], "write --admin http://127.0.0.1:9464"),
            (["--interval", "0"], "write --interval 2"),
            (["--token-file", "/nonexistent/token"], "check its path and its permissions"),
        ] {
            let response = try await top(["--once"] + arguments)
            #expect(response.ending == ChildProgram.Ending(status: 64), "\(arguments)")
            #expect(response.errors.contains(hint), "\(response.errors)")
        }
    }

    @Test("The admin token is sent without TLS only to this machine")
    func token() async throws {
        for address in ["http://admin.example.com:9464", "http://127.example.com:9464", "http://10.0.0.1:9464"] {
            let response = try await top(["--once", "--admin", address], environment: ["CLOAKROOM_ADMIN_TOKEN": "t"])
            #expect(response.ending == ChildProgram.Ending(status: 64), "\(address)")
            #expect(response.errors.contains("is not sent to another machine without TLS"), "\(response.errors)")
        }
    }

    @Test("A token with a line break is rejected and not printed")
    func tokenOfTwoLines() async throws {
        let response = try await top(
            ["--once", "--admin", "http://127.0.0.1:9"], environment: ["CLOAKROOM_ADMIN_TOKEN": "first-line\nsecond"])
        #expect(response.ending == ChildProgram.Ending(status: 64))
        #expect(response.errors.contains("the admin token contains a line break"), "\(response.errors)")
        #expect(!response.errors.contains("first-line"), "\(response.errors)")
    }

    @Test("A body that does not end ends top in time")
    func endlessBody() async throws {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"
        try await ScriptedServer.run([.bytes(head)]) { port, _ in
            let response = try await top(["--once", "--admin", "http://127.0.0.1:\(port)"])
            #expect(response.ending == ChildProgram.Ending(status: 1))
            #expect(
                response.errors.contains("does not respond: no complete response within 5 s (check "),
                "\(response.errors)")
        }
    }
}
