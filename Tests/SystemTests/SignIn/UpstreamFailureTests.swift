import Foundation
import MockAPI
import TestSupport
import Testing

/// Sign-ins and sessions while the API fails.
@Suite("An API that fails", .serialized, .timeLimit(.minutes(3)))
struct UpstreamFailureTests {
    /// A loopback address that no other process is given while the API is down: the system assigns ports of 127.0.0.1.
    private static var ownAddress: String {
        let id = ProcessInfo.processInfo.processIdentifier
        return "127.\(64 + (id >> 16) & 63).\((id >> 8) & 255).\(max(id & 255, 1))"
    }

    @Test("An outage of the API ends no session")
    func apiIsDown() async throws {
        var settings = MockAPISettings.withTwoUsers
        settings.host = Self.ownAddress
        settings.port = 9_000
        let mock = MockAPI(settings: settings)
        /// Runs the API while `body` runs; its tokens outlive it.
        func whileUp(_ body: () async throws -> Void) async throws {
            try await mock.whileServing { _ in try await body() }
        }
        try await GatewayProcess.running(GatewayYAML(upstream: "http://\(settings.host):\(settings.port)")) { gateway in
            let client = gateway.client
            let statuses = Statuses()
            try await whileUp {
                statuses.append(try await client.signIn().status)
                statuses.append(try await client.get("/videos/1").status)
            }
            #expect(statuses.all == [200, 200])

            let other = client.other()
            let signIn = try await other.signIn()
            #expect(signIn.status == 502)
            #expect(signIn.problem?.code == "unreachable")
            #expect(other.cookie == nil)
            let video = try await client.get("/videos/1")
            #expect(video.status == 502)
            #expect(video.problem?.code == "unreachable")
            #expect(video.values(of: "Set-Cookie") == [])
            let whoAmI = try await client.get("/auth")
            #expect(whoAmI.status == 200)

            try await whileUp {
                statuses.append(try await client.get("/videos/1").status)
                statuses.append(try await other.signIn().status)
            }
            #expect(statuses.all == [200, 200, 200, 200])
            #expect(mock.observations.snapshot().count("POST", "/auth/revoke") == 0)
        }
    }

    @Test("A sign-in with an invalid response of the API is invalid_response, and no part of it reaches the client")
    func nonsense() async throws {
        let tokens = #"{"accessToken":"canary-access","refreshToken":"canary-refresh"}"#
        let signIns = [
            "not JSON": ScriptedServer.json("<p>canary</p>"),
            "an empty object": ScriptedServer.json("{}"),
            "no object": ScriptedServer.json(#"["canary"]"#),
            "a number for a token": ScriptedServer.json(#"{"accessToken":1}"#),
            "an empty token": ScriptedServer.json(#"{"accessToken":"","refreshToken":"canary"}"#),
            "a line break in a token": ScriptedServer.json(#"{"accessToken":"canary\r\nSet-Cookie: a=b"}"#),
            "a NUL in a token": ScriptedServer.json(#"{"accessToken":"canary\u0000"}"#),
            "too much": ScriptedServer.json(#"{"accessToken":"\#(String(repeating: "x", count: 70_000))"}"#),
            "not HTTP": "SSH-2.0-canary\r\n\r\n",
        ]
        let users = [
            "not JSON": ScriptedServer.json("canary"),
            "no object": ScriptedServer.json(#"["canary"]"#),
            "the token in it": ScriptedServer.json(#"{"id":1,"note":"canary-access-that-is-long"}"#),
            "unauthorized": ScriptedServer.json("{}", status: "401 Unauthorized"),
        ]
        try await ScriptedServer.run { port, upstream in
            // Each of them counts as an attempt.
            let file = GatewayYAML(upstream: "http://127.0.0.1:\(port)")
            try await GatewayProcess.running(file, set: ["accounts.throttle=false"]) { gateway in
                func expectInvalidResponse(_ what: String) async throws {
                    let response = try await gateway.client.signIn()
                    #expect(response.status == 502, "\(what)")
                    #expect(response.problem?.code == "invalid_response", "\(what)")
                    #expect(response.values(of: "Set-Cookie") == [], "\(what)")
                    #expect(!response.textWithoutTicket.contains("canary"), "\(what)")
                }
                for (what, bytes) in signIns {
                    upstream.respond(to: "POST /auth", with: bytes)
                    try await expectInvalidResponse("sign-in: \(what)")
                }
                let long = tokens.replacingOccurrences(of: "canary-access", with: "canary-access-that-is-long")
                upstream.respond(to: "POST /auth", with: ScriptedServer.json(long))
                for (what, bytes) in users {
                    upstream.respond(to: "GET /user", with: bytes)
                    try await expectInvalidResponse("user: \(what)")
                }
                upstream.respond(to: "GET /user", with: ScriptedServer.json(#"{"email":"jo@example.com","name":"Jo"}"#))
                let response = try await gateway.client.signIn()
                #expect(response.status == 200)
                #expect(!response.textWithoutTicket.contains("canary"))
            }
        }
    }

    @Test("A sign-in that the API fails with 500 is unreachable, and can be retried")
    func internalError() async throws {
        try await GatewayProcess.running { gateway, mock in
            for path in [("POST", "/auth"), ("GET", "/user")] {
                mock.faults.failNext(path.0, path.1, statuses: [500])
                let client = gateway.client
                let failed = try await client.signIn()
                #expect(failed.status == 502)
                #expect(failed.problem?.code == "unreachable")
                #expect(client.cookie == nil)
                let again = try await client.signIn()
                #expect(again.status == 200)
            }
        }
    }

    @Test("A response of the API on a forwarded route is forwarded unchanged")
    func untouched() async throws {
        try await GatewayProcess.running { gateway, mock in
            let client = gateway.client
            _ = try await client.signIn()
            for status in [400, 403, 404, 500, 503] {
                mock.faults.failNext("GET", "/videos/1", statuses: [status])
                let response = try await client.get("/videos/1")
                #expect(response.status == status)
                #expect(response.body == #"{"error":"This failure was injected by the mock."}"#)
                #expect(response.values(of: "Set-Cookie") == [])
            }
            let missing = try await client.get("/videos/4711")
            #expect(missing.status == 404)
            #expect(missing.problem == nil)
        }
    }
}

/// Statuses in the order they are returned.
private final class Statuses {
    private(set) var all: [Int] = []

    func append(_ status: Int) {
        all.append(status)
    }
}
