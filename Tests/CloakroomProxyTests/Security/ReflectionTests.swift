import CloakroomCore
import Foundation
import NIOCore
import NIOHPACK
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Responses that reflect injected values", .serialized)
struct ReflectionTests {
    private static let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>; token=\(Canary.apiToken)\r\n\r\n"
    private static let response =
        "HTTP/1.1 200 Fine \(Canary.accessToken)\r\nX-Debug: got \(Canary.accessToken).\r\n"
        + "X_API_TOKEN: something\r\nAuthorization: Bearer other\r\nLocation: /?key=\(Canary.apiToken)\r\n"
        + "Set-Cookie: a=\(Canary.accessToken); Path=/\r\nClear-Site-Data: \"cache\", \"cookies\"\r\nX-Kept: yes\r\n"
        + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Trace: \(Canary.apiToken)\r\nX-Sum: 1\r\n\r\n"

    private static func metrics(_ gateway: RunningGateway) async throws {
        for (reason, count) in [("injected_value", 6), ("injected_name", 2), ("clear_site_data", 1)] {
            try await gateway.metric(
                "cloakroom_response_fields_removed_total{reason=\"\(reason)\",upstream=\"api\"} \(count)")
        }
    }

    @Test("Rules 44 and 45: no head, hint or trailer contains injected values or clears cookies; removals are counted")
    func http1() async throws {
        let sessions = FakeSessions()
        let cookie = sessions.add()
        try await GatewaySetup([.request, .send(hintsAndResponse)]).with(\.sessions, sessions).run { gateway in
            let client = try await RawPeer.connect(port: gateway.port)
            client.send(Ask.get("/private/a", cookie, "TE: trailers", "Connection: TE, close"))
            let text = String(buffer: try await client.rest())
            #expect(!text.contains("canary"))
            #expect(text.contains("HTTP/1.1 103 Early Hints\r\n\r\n"))
            #expect(text.contains("HTTP/1.1 200 \r\nX-Kept: yes\r\n"))
            #expect(!text.lowercased().contains("clear-site-data"))
            #expect(text.hasSuffix("2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n"))
            try await Self.metrics(gateway)
        }
    }

    private var hintsAndResponse: String { Self.hints + Self.response }

    @Test("Rules 44 and 45: injected values are removed over HTTP/2 too")
    func http2() async throws {
        let sessions = FakeSessions()
        let cookie = String(sessions.add().dropFirst("Cookie: ".count))
        try await GatewaySetup([.request, .send(hintsAndResponse)]).with(\.sessions, sessions).http2().run { gateway in
            let client = try await gateway.http2()
            var fields = HTTP2Fields.get("/private/a")
            fields.lines += HTTP2Fields([("cookie", cookie)]).lines
            let response = try await client.exchange(1, fields)
            #expect(response.status == 200)
            #expect(response.text == "ok")
            #expect(response["x-kept"] == "yes")
            #expect(!"\(response.sections)".contains("canary"))
            #expect(response.head?["clear-site-data"] == [])
            #expect(response.head?["authorization"] == [])
            #expect(response.trailers?["x-sum"] == ["1"])
            try await Self.metrics(gateway)
        }
    }

    @Test("Rules 29, 44 and 45: the same holds for an upstream with HTTP/2, in hints, head and trailers")
    func http2Upstream() async throws {
        let sessions = FakeSessions()
        let cookie = sessions.add()
        let script: FrameServer.Script = { link, event in
            guard case .headers(let id, _, ends: true) = event else { return }
            let own = ("set-cookie", "__Host-cloakroom=forged; Path=/")
            let hints = HTTP2Fields([(":status", "103"), ("link", "</a>; token=\(Canary.apiToken)"), own])
            let head = HTTP2Fields([
                (":status", "200"), ("x-debug", "got \(Canary.accessToken)."), ("x_api_token", "something"),
                ("authorization", "Bearer other"), ("location", "/?key=\(Canary.apiToken)"),
                ("set-cookie", "a=\(Canary.accessToken); Path=/"), own, ("set-cookie", "theme=dark"),
                ("clear-site-data", "\"cache\", \"cookies\""), ("x-kept", "yes"),
            ])
            let trailers = HTTP2Fields([("x-trace", Canary.apiToken), own, ("x-sum", "1")])
            link.send(
                .headers(id, hints, ends: false), .headers(id, head, ends: false), .data(id, "ok"),
                .headers(id, trailers))
        }
        try await FrameServer.run(script: script) { port, server in
            try await GatewaySetup().http2Upstream(port).with(\.sessions, sessions).run { gateway in
                let client = try await RawPeer.connect(port: gateway.port)
                client.send(Ask.get("/private/a", cookie, "TE: trailers", "Connection: TE, close"))
                let text = String(buffer: try await client.rest())
                // The values were sent, so they could be reflected.
                #expect(server.requests.first?.head["authorization"] == ["Bearer \(Canary.accessToken)"])
                #expect(!text.contains("canary") && !text.contains("forged"))
                let lines = text.lowercased().split(separator: "\r\n")
                for name in [
                    "link", "x-debug", "x_api_token", "authorization", "location", "clear-site-data", "x-trace",
                ] {
                    #expect(!lines.contains { $0.hasPrefix("\(name):") }, "\(name)")
                }
                #expect(lines.filter { $0.hasPrefix("set-cookie:") } == ["set-cookie: theme=dark"])
                #expect(lines.contains("x-kept: yes"))
                #expect(text.lowercased().hasSuffix("2\r\nok\r\n0\r\nx-sum: 1\r\n\r\n"))
                for (reason, count) in [("injected_value", 5), ("injected_name", 2), ("clear_site_data", 1)] {
                    try await gateway.metric(
                        "cloakroom_response_fields_removed_total{reason=\"\(reason)\",upstream=\"api\"} \(count)")
                }
            }
        }
    }

    @Test("Rule 44: the upstream's API token is also removed on routes that do not inject it")
    func notInjected() async throws {
        let response = "HTTP/1.1 200 OK\r\nX-Debug: \(Canary.apiToken)\r\nContent-Length: 2\r\n\r\nok"
        try await GatewaySetup([.request, .send(response)]).run { gateway in
            let response = try await gateway.client().exchange(Ask.get())
            #expect(response.text == "ok")
            #expect(response.values("X-Debug").isEmpty)
        }
    }

    /// A route that uses a session but does not require one.
    private static func optional(_ responses: [String]) -> GatewaySetup {
        GatewaySetup(responses.flatMap { [.request, .send($0)] }).configuration {
            $0.routes[2].requiresAuthorization = false
        }
    }

    @Test(
        "Rule 30: on a route with an optional session, responses without a session also vary by the cookie",
        arguments: [
            ("", ["Cookie"]), ("Vary: Accept-Encoding\r\n", ["Accept-Encoding", "Cookie"]),
            ("Vary: accept, COOKIE\r\n", ["accept, COOKIE"]), ("Vary: *\r\n", ["*"]),
            ("Cache-Control: public\r\n", ["Cookie"]),
        ] as [(String, [String])])
    func vary(fields: String, expected: [String]) async throws {
        let response = "HTTP/1.1 200 OK\r\n\(fields)Content-Length: 2\r\n\r\nok"
        let sessions = FakeSessions()
        let cookie = sessions.add()
        try await Self.optional([response, response]).with(\.sessions, sessions).run { gateway in
            let client = try await gateway.client()
            let anonymous = try await client.exchange(Ask.get("/private/a"))
            #expect(anonymous.values("Vary") == expected)
            #expect(anonymous.values("Cache-Control") == (fields.contains("public") ? ["public"] : []))
            let signedIn = try await client.exchange(Ask.get("/private/a", cookie))
            #expect(signedIn.values("Vary") == expected)
            #expect(signedIn.values("Cache-Control") == [fields.contains("public") ? "public" : "private"])
        }
    }

    @Test("Rule 30: a response on a route that requires a session but injects no token is private as well")
    func gated() async throws {
        let sessions = FakeSessions()
        let cookie = sessions.add()
        try await GatewaySetup([.request, .send(Reply.ok)]).with(\.sessions, sessions)
            .configuration { $0.routes[2].inject = [] }
            .run { gateway in
                let response = try await gateway.client().exchange(Ask.get("/private/a", cookie))
                #expect(response.values("Cache-Control") == ["private"])
                #expect(response.values("Vary") == ["Cookie"])
            }
    }

    @Test("Date is the time of the response, not that of the request (RFC 9110 §6.6.1)")
    func date() async throws {
        let gate = Gate()
        let before = Int64(Date().timeIntervalSince1970) + 25
        try await GatewaySetup([.request, .wait(gate), .send(Reply.ok)]).steppedTime().run { gateway in
            // The time of the gateway began with it, and advances only here.
            let after = Int64(Date().timeIntervalSince1970) + 25
            let client = try await gateway.client()
            client.send(Ask.get())
            _ = try await gateway.upstream.request()
            try await gateway.advance(.seconds(25))
            gate.open()
            let response = try await client.response()
            let dates = (before...after).map { String(decoding: HTTPDate.render(secondsSinceEpoch: $0), as: UTF8.self) }
            #expect(dates.contains(response["Date"] ?? ""))
        }
    }
}
