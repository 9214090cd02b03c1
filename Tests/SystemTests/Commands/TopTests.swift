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
    ) async throws -> ChildProgram.Outcome {
        try await cloakroom(["top"] + arguments, environment: environment)
    }

    private static func screen(
        headline: String = "", routes: String = "", targets: String = "", concerns: String = ""
    ) throws -> TopScreen {
        let json = """
            {"state":"ready",\(headline)"concerns":[\(concerns)],"window_seconds":300,"process":{"version":"1.2.3"},
            "traffic":{"per_second":1.5,"error_share":0.25},"routes":[\(routes)],
            "upstreams":[{"name":"api","targets":[\(targets)]}]}
            """
        return TopScreen(
            status: try require(TopScreen.Status(json: Data(json.utf8))), address: "http://127.0.0.1:9464")
    }

    private static func route(_ name: String, perSecond: Double = 0.5, latency: String = #""p99_ms":99"#) -> String {
        #"{"name":"\#(name)","requests":{"per_second":\#(perSecond),"latency":{\#(latency)}}}"#
    }

    @Test("The screen has the state, the alerts, the routes and the targets")
    func parts() throws {
        let screen = try Self.screen(
            routes: Self.route("episodes"), targets: #"{"address":"http://10.0.0.1:80","state":"down"}"#,
            concerns: #"{"kind":"upstream","severity":"critical","text":"The upstream is unreachable."}"#)
        let text = screen.text()
        for part in [
            "Serving traffic · Cloakroom 1.2.3 · http://127.0.0.1:9464",
            "1.5 requests/s · 25.0 % failed · p99 - (last 300 s)", "PROBLEM  The upstream is unreachable.",
            "episodes  0.5         -       99.0 ms", "http://10.0.0.1:80  api       down",
        ] {
            expect(text.contains(part), "\(part)\n\(text)")
        }
        expect(!text.contains("\u{1B}"))
    }

    @Test("The first line is the headline, if the gateway states one")
    func headline() throws {
        let text = try Self.screen(headline: #""headline":"The upstream is unreachable","#).text()
        expect(text.hasPrefix("The upstream is unreachable · Cloakroom 1.2.3 · "))
    }

    @Test("The busiest route is first")
    func order() throws {
        let text = try Self.screen(routes: Self.route("a") + "," + Self.route("b", perSecond: 2)).text()
        let names = text.split(separator: "\n").filter { $0.hasPrefix("a ") || $0.hasPrefix("b ") }.map(\.first)
        expect(names, equals: ["b", "a"])
    }

    @Test("A percentile above the highest bucket is a lower bound, and one of too few requests an upper bound")
    func bound() throws {
        let slow = Self.route("video", latency: #""p99_ms":10000,"at_least":["p99_ms"]"#)
        try expect(Self.screen(routes: slow).text().contains("> 10000.0 ms"))
        let few = Self.route("video", latency: #""p99_ms":12,"too_few":["p99_ms"]"#)
        try expect(Self.screen(routes: few).text().contains("<= 12.0 ms"))
    }

    @Test("Texts of the document cannot control the terminal, and lines are cut to it")
    func hostile() throws {
        let name = #"\u001b[2J\u0007\u202e\n"# + String(repeating: "x", count: 500)
        let text = try Self.screen(routes: Self.route(name)).text(width: 40, height: 5)
        expect(!text.unicodeScalars.contains { $0 == "\u{1B}" || $0 == "\u{7}" || $0 == "\u{202E}" })
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        expect(lines.count, equals: 6)
        expect(lines.allSatisfy { $0.count <= 40 })
    }

    @Test(
        "Characters that control a terminal, change the direction of text or are invisible are replaced",
        arguments: [
            "\u{1B}", "\u{9B}", "\n", "\u{61C}", "\u{200B}", "\u{200D}", "\u{202E}", "\u{2028}", "\u{2067}",
            "\u{FEFF}", "\u{AD}", "\u{180E}", "\u{3164}", "\u{E0041}",
        ])
    func invisible(character: String) {
        expect(TerminalText.clean("a\(character)b"), equals: "a\u{FFFD}b")
    }

    @Test("Ordinary text is unchanged, and a limit counts scalars")
    func visible() {
        let text = "GET /épisodes/{id} · 東京 עברית 50 %"
        expect(TerminalText.clean(text), equals: text)
        expect(
            TerminalText.clean("e" + String(repeating: "\u{301}", count: 1_000), limit: 3).unicodeScalars.count,
            equals: 3)
    }

    @Test("At most 20 routes are shown")
    func many() throws {
        let routes = (0..<300).map { Self.route("route-\($0)") }.joined(separator: ",")
        let text = try Self.screen(routes: routes).text()
        expect(text.contains("and 280 more"))
    }

    @Test("A document of another kind is rejected", arguments: ["", "[]", "{}", #"{"state":1}"#])
    func otherDocument(_ json: String) {
        expect(TopScreen.Status(json: Data(json.utf8)) == nil)
    }

    @Test("top --once prints one screen of a running gateway, without control characters")
    func once() async throws {
        try await GatewayProcess.running(GatewayYAML(upstream: "http://127.0.0.1:9")) { gateway in
            for response in [
                try await top(["--once", "--admin", gateway.admin]),
                try await top(["--once", "--admin", gateway.admin + "/"]),
                try await top(
                    ["--once"],
                    environment: ["CLOAKROOM_ADMIN_ADDRESS": String(gateway.admin.dropFirst("http://".count))]),
            ] {
                expect(response.ending, equals: ChildProgram.Ending(status: 0), "\(response.errors)")
                expect(response.output.hasPrefix("Serving traffic · Cloakroom "), "\(response.output)")
                expect(response.output.contains("http://127.0.0.1:9  api"), "\(response.output)")
                expect(!response.output.contains("\u{1B}"))
            }
        }
    }

    @Test("Without an address, that of the configuration file, by default cloakroom.yaml")
    func configurationFile() async throws {
        try await GatewayProcess.running(GatewayYAML(upstream: "http://127.0.0.1:9")) { gateway in
            let directory = try TemporaryDirectory()
            var configuration = GatewayYAML(upstream: "http://127.0.0.1:9")
            configuration.adminAddress = String(gateway.admin.dropFirst("http://".count))
            try directory.write(configuration.yaml, to: "cloakroom.yaml")
            try directory.write(configuration.yaml, to: "my.yaml")
            for arguments in [[], ["my.yaml"], ["-c", "my.yaml"]] {
                let response = try await cloakroom(["top", "--once"] + arguments, directory: directory.url)
                expect(response.ending, equals: ChildProgram.Ending(status: 0), "\(response.errors)")
                expect(response.output.contains(gateway.admin), "\(response.output)")
            }
        }
    }

    @Test("A gateway that does not respond, and a port of another service, end top with 1 and the reason")
    func unreachable() async throws {
        let gone = try await top(["--once", "--admin", "http://127.0.0.1:9"])
        expect(gone.ending, equals: ChildProgram.Ending(status: 1))
        let refused = """
            cloakroom: http://127.0.0.1:9 does not respond: no process listens on this address \
            (start the gateway, or write the address of admin.address)\n
            """
        expect(gone.errors, equals: refused)
        let other = try await MockAPI.withServer(.withTwoUsers) { mock in
            try await top(["--once", "--admin", mock.baseURL])
        }
        expect(other.ending, equals: ChildProgram.Ending(status: 1))
        expect(other.errors.contains("is not an admin listener"), "\(other.errors)")
    }

    @Test("An invalid option is rejected with a hint")
    func invalid() async throws {
        for (arguments, hint) in [
            (["--admin", "ftp://127.0.0.1"], "write --admin http://127.0.0.1:9464"),
            (["--admin", "http://user:secret@127.0.0.1:9464"], "write --admin http://127.0.0.1:9464"),
            (["--admin", "http://127.0.0.1:9464", "my.yaml"], "--admin conflicts with FILE"),
            (["--token-file", "/nonexistent/token"], "check its path and its permissions"),
        ] {
            let response = try await top(["--once"] + arguments)
            expect(response.ending, equals: ChildProgram.Ending(status: 64), "\(arguments)")
            expect(response.errors.contains(hint), "\(response.errors)")
        }
    }

    @Test("The admin token is sent without TLS only to this machine")
    func token() async throws {
        for address in ["http://admin.example.com:9464", "http://127.example.com:9464", "http://10.0.0.1:9464"] {
            let response = try await top(["--once", "--admin", address], environment: ["CLOAKROOM_ADMIN_TOKEN": "t"])
            expect(response.ending, equals: ChildProgram.Ending(status: 64), "\(address)")
            expect(response.errors.contains("is not sent to another machine without TLS"), "\(response.errors)")
        }
    }

    @Test("A listener that requires a token ends top with the reason, unless the token is given")
    func required() async throws {
        let token = "A-token-of-the-admin-listener-1234567"
        var yaml = GatewayYAML(upstream: "http://127.0.0.1:9")
        yaml.adminToken = token
        try await GatewayProcess.running(yaml) { gateway in
            let refused = try await top(["--once", "--admin", gateway.admin])
            expect(refused.ending, equals: ChildProgram.Ending(status: 1))
            expect(refused.errors.contains("set CLOAKROOM_ADMIN_TOKEN or --token-file"), "\(refused.errors)")
            let wrong = try await top(
                ["--once", "--admin", gateway.admin], environment: ["CLOAKROOM_ADMIN_TOKEN": token + "x"])
            expect(wrong.ending, equals: ChildProgram.Ending(status: 1))
            expect(wrong.errors.contains("rejects the admin token: check CLOAKROOM_ADMIN_TOKEN"), "\(wrong.errors)")
            let allowed = try await top(
                ["--once", "--admin", gateway.admin], environment: ["CLOAKROOM_ADMIN_TOKEN": token])
            expect(allowed.ending, equals: ChildProgram.Ending(status: 0), "\(allowed.errors)")
        }
    }

    @Test("A token with a line break is rejected and not printed")
    func tokenOfTwoLines() async throws {
        let response = try await top(
            ["--once", "--admin", "http://127.0.0.1:9"], environment: ["CLOAKROOM_ADMIN_TOKEN": "first-line\nsecond"])
        expect(response.ending, equals: ChildProgram.Ending(status: 64))
        expect(response.errors.contains("the admin token contains a line break"), "\(response.errors)")
        expect(!response.errors.contains("first-line"), "\(response.errors)")
    }

    @Test("A body that does not end ends top in time")
    func endlessBody() async throws {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"
        try await ScriptedServer.run([.bytes(head)]) { port, _ in
            let response = try await top(["--once", "--admin", "http://127.0.0.1:\(port)"])
            expect(response.ending, equals: ChildProgram.Ending(status: 1))
            expect(
                response.errors.contains("does not respond: no complete response within 5 s (check "),
                "\(response.errors)")
        }
    }
}
