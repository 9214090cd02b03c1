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
        try await ScriptedServer.run(script) { port, upstream in
            var configuration = Upstreams.configuration(port: port)
            change(&configuration)
            let error = try await Upstreams.withClient(configuration, timeout: timeout) { client in
                await failure(of: client)
            }
            return (error, upstream.requests)
        }
    }

    private func failure(of client: UpstreamTokenClient) async -> TokenClientError? {
        do {
            _ = try await client.signIn(try Upstreams.credentials(), traceparent: nil, now: Upstreams.now)
            return nil
        } catch {
            return error as? TokenClientError
        }
    }

    @Test("reports a port that refuses connections as unreachable")
    func rejected() async throws {
        let port = try await ScriptedServer.rejectingPort()
        let error = try await Upstreams.withClient(Upstreams.configuration(port: port)) { await failure(of: $0) }
        #expect(error == TokenClientError(.unreachable, in: .signIn, isUnjudged: true))
    }

    @Test("tries the next target if one refuses connections")
    func nextTarget() async throws {
        let rejecting = try await ScriptedServer.rejectingPort()
        let script = [ScriptedServer.response("200 OK", Self.tokens), ScriptedServer.response("200 OK", "{}")]
        let result = try await signIn(script) { configuration in
            configuration.targets.insert(
                UpstreamTargetConfiguration(HostAndPort(host: "127.0.0.1", port: rejecting)), at: 0)
        }
        #expect(result.error == nil)
        #expect(result.requests.count == 2)
    }

    @Test("reports unreachable for a connection reset or closed without a response, after a second attempt")
    func brokenOff() async throws {
        for act in [ScriptedServer.Act.reset, .close] {
            let result = try await signIn([act])
            #expect(result.error == TokenClientError(.unreachable, in: .signIn))
            #expect(result.requests.count == 2)
        }
    }

    @Test("recovers from a pooled connection that the upstream has just closed")
    func staleConnection() async throws {
        let result = try await signIn([
            .close, ScriptedServer.response("200 OK", Self.tokens), .close, ScriptedServer.response("200 OK", "{}"),
        ])
        #expect(result.error == nil)
    }

    @Test("times out if no response arrives, if the head stalls, and if the body stalls")
    func timeouts() async throws {
        let acts: [ScriptedServer.Act] = [
            .silence, .bytes("HTTP/1.1 200 OK\r\nContent-Le"),
            .bytes("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"accessToken\":"),
        ]
        for act in acts {
            let result = try await signIn([act], timeout: .milliseconds(200))
            #expect(result.error == TokenClientError(.timedOut, in: .signIn))
        }
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
        #expect(result.error == TokenClientError(.invalidResponse, in: .signIn))
        #expect(result.requests.count == 1)
    }

    @Test(
        "treats a user that is no object, is too large, or contains a token as invalid",
        arguments: [
            "", "[]", "null", #""jo""#, "{", #"{"n":"\#(String(repeating: "a", count: 17_000))"}"#,
            #"{"session":"canary-access-0123456789"}"#,
        ])
    func nonsenseUser(document: String) async throws {
        let tokens = #"{"accessToken":"canary-access-0123456789"}"#
        let result = try await signIn([
            ScriptedServer.response("200 OK", tokens), ScriptedServer.response("200 OK", document),
        ])
        #expect(result.error == TokenClientError(.invalidResponse, in: .user))
    }

    @Test(
        "Rule 32: treats configured statuses and invalid_grant as a wrong password, other OAuth codes as a mistake",
        arguments: [
            ("400 Bad", "", .rejected), ("401 No", "", .rejected), ("403 No", "", .rejected), ("422 No", "", .rejected),
            ("400 Bad", #"{"error":"invalid_grant"}"#, .rejected),
            ("400 Bad", #"{"error":"invalid_client"}"#, .misconfigured(.invalidClient)),
            ("401 No", #"{"error":"invalid_client"}"#, .misconfigured(.invalidClient)),
            ("400 Bad", #"{"error":"invalid_scope"}"#, .misconfigured(.invalidScope)),
            ("404 Not Found", "", .misconfigured(.notFound)), ("405 No", "", .misconfigured(.requestRejected)),
            ("429 Slow down", "", .busy), ("503 Away", "", .unreachable),
        ] as [(String, String, TokenClientError.Kind)])
    func rejections(status: String, body: String, kind: TokenClientError.Kind) async throws {
        let result = try await signIn([ScriptedServer.response(status, body)])
        #expect(result.error == TokenClientError(kind, in: .signIn, isUnjudged: status.hasPrefix("5")))
    }

    @Test("Rule 32: treats other statuses as a wrong password if the configuration lists them")
    func listedStatuses() async throws {
        for (status, kind) in [("404 Unknown", .rejected), ("403 No", .misconfigured(.forbidden))]
            as [(String, TokenClientError.Kind)]
        {
            let result = try await signIn([ScriptedServer.response(status, "")]) {
                $0.signIn?.rejectedStatuses = [401, 404]
            }
            #expect(result.error == TokenClientError(kind, in: .signIn))
        }
    }

    @Test("sends credentials as JSON if configured")
    func jsonCredentials() async throws {
        let script = [ScriptedServer.response("200 OK", Self.tokens), ScriptedServer.response("200 OK", "{}")]
        let result = try await signIn(script) {
            $0.signIn = IdentityEndpointConfiguration(path: "/login", credentials: .json)
        }
        let request = try #require(result.requests.first)
        #expect(request.hasPrefix("POST /login HTTP/1.1\r\n"))
        #expect(request.contains("Content-Type: application/json\r\n"))
        #expect(!request.contains("Authorization"))
        #expect(request.contains(#""email":"jo@example.com""#) && request.contains(#""password":"canary-password""#))
    }

    @Test("sends a refresh token as JSON if configured, and limits the wait")
    func jsonRevoke() async throws {
        try await ScriptedServer.run([.silence]) { port, upstream in
            var configuration = Upstreams.configuration(port: port)
            configuration.revoke = IdentityEndpointConfiguration(path: "/revoke", credentials: .json)
            try await Upstreams.withClient(configuration, timeout: .milliseconds(200)) { client in
                let tokens = TokenSet(
                    authorization: Secret("Bearer a"), refreshToken: Secret("canary-refresh"),
                    obtainedAt: Upstreams.now)
                await #expect(throws: TokenClientError(.timedOut, in: .revoke)) {
                    try await client.revoke(tokens, traceparent: nil)
                }
            }
            let request = try #require(upstream.requests.first)
            #expect(request.hasSuffix("\r\n\r\n" + #"{"refreshToken":"canary-refresh"}"#))
        }
    }

    @Test("fails without hanging or crashing after its shutdown")
    func afterShutdown() async throws {
        try await ScriptedServer.run([.silence]) { port, _ in
            let client = try await Upstreams.withClient(Upstreams.configuration(port: port)) { $0 }
            #expect(await failure(of: client) == TokenClientError(.unreachable, in: .signIn))
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
            let error = try #require(try await signIn([act]).error)
            var dumped = ""
            dump(error, to: &dumped)
            for text in ["\(error)", String(reflecting: error), error.localizedText, dumped] {
                #expect(!text.contains("canary"))
                #expect(!text.contains("Y2FuYXJ5"))
            }
        }
    }
}

extension TokenClientError {
    /// The output of a generic error handler.
    fileprivate var localizedText: String { String(describing: self as any Error) }
}
