import CloakroomConfig
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Limits of WebSockets and event streams")
struct StreamRulesTests {
    /// The valid configuration with keys of its second route, `GET /videos/{id}`; their first line is 23.
    private static func video(_ keys: String...) -> String {
        ConfigFixture.good.replacing(
            "    path: /videos/{id}\n", with: "    path: /videos/{id}\n" + keys.map { "    \($0)\n" }.joined())
    }

    private static let origins = "stream: { origins: [\"https://app.example.com\"] }"

    private static let wrong = [
        (
            video("stream: { lifetime: 31d }"),
            "23:25: routes.1.stream.lifetime: must be in the allowed range, not 31d (write 0s to 30d)"
        ),
        (
            video("stream: { idle: 0s }"),
            "23:21: routes.1.stream.idle: must be in the allowed range, not 0s (write 1ms to 1d)"
        ),
        (
            video("websocket: true", "stream: { message: 2GiB }"),
            "24:24: routes.1.stream.message: must be in the allowed range, not 2GiB (write 0 to 1GiB)"
        ),
        (
            video("websocket: true", "stream: { origins: [\"http://app.example.com\"] }"),
            "24:25: routes.1.stream.origins.0: must be an https origin: its pages can be replaced on the network"
                + " (write one such as https://app.example.com)"
        ),
        (
            video("stream: { message: 1KiB }"),
            "23:24: routes.1.stream.message: requires websocket: true (write it, or leave this out)"
        ),
        (video(origins), "23:24: routes.1.stream.origins: requires websocket: true (write it, or leave this out)"),
        (
            video("grpc: true", "methods: [POST]", "stream: { lifetime: 1h }").replacing(
                "    methods: [GET]\n    path: /videos", with: "    path: /videos"
            ).replacing("  other:\n", with: "    protocol: h2c\n  other:\n"),
            "25:25: routes.1.stream.lifetime: conflicts with grpc: a call is not limited as a stream (write deadline)"
        ),
        (
            video("redirect: { to: /a }", "stream: { idle: 1s }").replacing(
                "    upstream: api\n    requiresAuthorization: true\n    inject: [apiToken, bearer]\n", with: ""),
            "24:21: routes.1.stream.idle: conflicts with redirect: nothing is forwarded (remove one of the two)"
        ),
    ]

    @Test("A wrong value is one line with its place and a remedy", arguments: wrong)
    func diagnostics(_ yaml: String, _ line: String) throws {
        try expect(ConfigFixture(yaml).valueErrors(), equals: ["cloakroom.yaml:" + line])
    }

    @Test("All limits are read, and explain shows them")
    func all() throws {
        let yaml = Self.video(
            "websocket: true",
            "stream: { lifetime: 1h, idle: 1m, message: 1MiB, origins: [\"https://app.example.com\"] }")
        let stream = try ConfigFixture(yaml).load().configuration.routes[1].stream
        expect(
            stream,
            equals: StreamLimits(
                lifetime: .seconds(3_600), idle: .seconds(60), message: 1_048_576,
                origins: ["https://app.example.com"]))
        let report = try ConfigFixture(yaml).report { CommandReport.explain($0, method: "GET", target: "/videos/1") }
        expect(
            report.text.contains(
                "at most 1h ± 10 %; at most 1m without data; messages of at most 1MiB;"
                    + " WebSockets of https://app.example.com only"))
        try expect(ConfigFixture().load().configuration.routes[1].stream, equals: StreamLimits())
    }

    @Test("A deadline of a route with WebSockets is a note, unless they have a lifetime")
    func deadline() throws {
        func notes(_ keys: String) throws -> [String] {
            try ConfigFixture(Self.video("websocket: true", "deadline: 1m", keys)).load().notes.map(\.description)
        }
        try expect(
            notes("timed: true").contains { $0.contains("24:15: note: routes.1.deadline: ends when a WebSocket") })
        try expect(!notes("stream: { lifetime: 1h }").contains { $0.contains("deadline") })
    }

    private static func difference(_ old: String, _ new: String) throws -> (text: String, exitCode: Int32) {
        let report = try ConfigFixture(new).changes(since: ConfigFixture(old))
        return (report.rows.map { $0 + "\n" }.joined(), report.exitCode)
    }

    @Test("routes --diff shows that further origins may open WebSockets, with exit code 0")
    func widened() throws {
        let (none, one) = (Self.video("websocket: true"), Self.video("websocket: true", Self.origins))
        let two = one.replacing("app.example.com\"", with: "app.example.com\", \"https://b.example.com\"")
        try expect(Self.difference(one, none) == ("origins widened GET /videos/{id} video, to all\n", 0))
        try expect(
            Self.difference(one, two) == ("origins widened GET /videos/{id} video, to https://b.example.com\n", 0)
        )
        try expect(Self.difference(two, one) == ("no change\n", 0))
        try expect(Self.difference(none, one) == ("no change\n", 0))
        let open = one.replacing(
            "    requiresAuthorization: true\n    inject: [apiToken, bearer]",
            with: "    requiresAuthorization: false\n    inject: [apiToken]")
        let both = "became protected GET /videos/{id} video\norigins widened GET /videos/{id} video, to all\n"
        try expect(Self.difference(open, none) == (both, 0))
    }

    @Test("Rule 34: routes --diff shows that an upstream gets tokens of another one, with exit code 3")
    func tokens() throws {
        let other = ConfigFixture.good.replacing(
            "    upstream: api\n    requiresAuthorization: true\n    inject: [apiToken, bearer]",
            with: "    upstream: other\n    requiresAuthorization: true")
        let bearer =
            other.replacing("signIn: { path: /auth }", with: "signIn: { path: /auth }\n    tokensFor: [other]")
            + "    inject: [bearer]\n"
        let change = "sends tokens GET /videos/{id} video, tokens of api to other\n"
        try expect(Self.difference(other, bearer) == (change, 3))
        try expect(Self.difference(ConfigFixture.good, bearer) == (change, 3))
        try expect(Self.difference(bearer, bearer) == ("no change\n", 0))
        let open = other.replacing(
            "    upstream: other\n    requiresAuthorization: true",
            with: "    upstream: other\n    requiresAuthorization: false")
        let both = change + "became protected GET /videos/{id} video\n"
        try expect(Self.difference(open, bearer) == (both, 3))
        let report = try ConfigFixture(bearer).report { CommandReport.explain($0, method: "GET", target: "/videos/1") }
        expect(report.text.contains("of upstream api (its own token)"))
    }
}
