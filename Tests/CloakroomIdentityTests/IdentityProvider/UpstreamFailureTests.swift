import CloakroomCore
import CloakroomIdentity
import TestSupport
import Testing

@Suite("The token client with a misbehaving upstream", .timeLimit(.minutes(3)))
struct UpstreamFailureTests {
    private static let tokens = #"{"accessToken":"canary-access","refreshToken":"canary-refresh"}"#

    /// Signs in against a script, and returns the error and the requests of the upstream.
    private func signIn(
        _ script: [ScriptedServer.Act], timeout: Duration = .seconds(10),
        change: (inout UpstreamConfiguration) -> Void = { _ in }
    ) async throws -> (error: TokenClientError?, requests: [String]) {
        try await Upstreams.withScript(script, timeout: timeout, change: change) { client, upstream in
            (try await failure(of: client), upstream.requests)
        }
    }

    private func failure(of client: UpstreamTokenClient) async throws -> TokenClientError? {
        let credentials = try Upstreams.credentials()
        return await thrown { () throws(TokenClientError) in
            try await client.signIn(credentials, traceparent: nil, now: Upstreams.now)
        }
    }

    @Test("reports a port that refuses connections as unreachable")
    func rejected() async throws {
        let port = try await ScriptedServer.rejectingPort()
        let error = try await Upstreams.withClient(Upstreams.configuration(port: port)) { try await failure(of: $0) }
        expect(error, equals: TokenClientError(.unreachable, in: .signIn, isUnjudged: true))
    }

    @Test(
        "reports unreachable for a connection reset or closed without a response, after a second attempt",
        arguments: [ScriptedServer.Act.reset, .close])
    func brokenOff(act: ScriptedServer.Act) async throws {
        let result = try await signIn([act])
        expect(result.error, equals: TokenClientError(.unreachable, in: .signIn))
        expect(result.requests.count, equals: 2)
    }

    @Test(
        "uses a connection again after an error with a short body, and not after one with a body that is not read",
        arguments: [
            ("503 Service Unavailable", 0, 1), ("503 Service Unavailable", 8_192, 1), ("302 Found", 10, 1),
            ("503 Service Unavailable", 8_193, 3),
        ])
    func errorBodies(status: String, length: Int, connections: Int) async throws {
        let response = ScriptedServer.response(status, String(repeating: "a", count: length))
        try await Upstreams.withScript([response]) { client, upstream in
            for _ in 0..<3 {
                let error = try await failure(of: client)
                expect(error != nil)
            }
            expect(upstream.requests.count, equals: 3)
            expect(upstream.connectionCount, equals: connections)
        }
    }

    @Test("recovers from a pooled connection that the upstream has just closed")
    func staleConnection() async throws {
        let result = try await signIn([
            .close, ScriptedServer.response("200 OK", Self.tokens), .close, ScriptedServer.response("200 OK", "{}"),
        ])
        expect(result.error, equals: nil)
    }

    @Test(
        "times out if no response arrives, if the head stalls, and if the body stalls",
        arguments: [
            ScriptedServer.Act.silence, .bytes("HTTP/1.1 200 OK\r\nContent-Le"),
            .bytes("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"accessToken\":"),
        ])
    func timeouts(act: ScriptedServer.Act) async throws {
        let start = ContinuousClock.now
        let result = try await signIn([act], timeout: .milliseconds(200))
        expect(result.error, equals: TokenClientError(.timedOut, in: .signIn))
        #expect(ContinuousClock.now - start < .seconds(10))
    }

    @Test(
        "treats an unexpected response as invalid",
        arguments: [
            ScriptedServer.response("200 OK", ""), ScriptedServer.response("200 OK", "<html>login</html>"),
            ScriptedServer.response("200 OK", "{}"),
            ScriptedServer.response("200 OK", #"{"accessToken":"a\r\nb"}"#),
            ScriptedServer.response("204 No Content", ""),
            ScriptedServer.response("302 Found\r\nLocation: http://127.0.0.1:1/", ""),
            .bytesThenClose("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"),
            .bytesThenClose("SSH-2.0-OpenSSH_9\r\n\r\n"),
            ScriptedServer.response("200 OK", String(repeating: " ", count: 65_536) + tokens),
        ])
    func nonsense(act: ScriptedServer.Act) async throws {
        let result = try await signIn([act])
        expect(result.error, equals: TokenClientError(.invalidResponse, in: .signIn))
        expect(result.requests.count, equals: 1)
    }

    @Test("sends a refresh token as JSON if configured, and limits the wait")
    func jsonRevoke() async throws {
        try await Upstreams.withScript([.silence], timeout: .milliseconds(200)) {
            $0.revoke = IdentityEndpointConfiguration(path: "/revoke", credentials: .json)
        } body: { client, upstream in
            let tokens = TokenSet(
                authorization: Secret("Bearer a"), refreshToken: Secret("canary-refresh"), obtainedAt: Upstreams.now)
            await #expect(throws: TokenClientError(.timedOut, in: .revoke)) {
                try await client.revoke(tokens, traceparent: nil)
            }
            let request = try require(upstream.requests.first)
            expect(request.hasSuffix("\r\n\r\n" + #"{"refreshToken":"canary-refresh"}"#))
        }
    }

    @Test("fails without hanging or crashing after its shutdown")
    func afterShutdown() async throws {
        try await ScriptedServer.run([.silence]) { port, _ in
            let client = try await Upstreams.withClient(Upstreams.configuration(port: port)) { $0 }
            try await expect(failure(of: client), equals: TokenClientError(.unreachable, in: .signIn))
        }
    }

    @Test("Rule 22: puts no password, token or API key into an error, whatever fails")
    func canaries() async throws {
        let acts: [ScriptedServer.Act] = [
            .close, .reset, ScriptedServer.response("401 Unauthorized", "canary"),
            ScriptedServer.response("500 Oops", "canary"),
            ScriptedServer.response("200 OK", #"{"accessToken":"canary\n"}"#),
            .bytesThenClose("canary\r\n\r\n"),
        ]
        for act in acts {
            let error = try await require(signIn([act]).error)
            var dumped = ""
            dump(error, to: &dumped)
            for text in ["\(error)", String(reflecting: error), error.localizedText, dumped] {
                expect(!text.contains("canary"))
                expect(!text.contains("Y2FuYXJ5"))
            }
        }
    }
}

extension TokenClientError {
    /// The output of a generic error handler.
    fileprivate var localizedText: String { String(describing: self as any Error) }
}
