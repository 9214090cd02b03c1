import CloakroomCore
import CloakroomIdentity
import TestSupport
import Testing

@Suite("The refresh request", .timeLimit(.minutes(1)))
struct RefreshCallTests {
    private static let response = #"{"accessToken":"canary-access-2","refreshToken":"canary-refresh-2"}"#
    private let now = Upstreams.now
    private let tokens = TokenSet(
        authorization: Secret("Bearer canary-access-1"), refreshToken: Secret("canary-refresh-1"),
        obtainedAt: Upstreams.now - .seconds(300))

    private struct Call {
        var tokens: TokenSet?
        var error: TokenClientError?
        var requests: [String]
        var connectionCount: Int

        /// The error of a refresh.
        var kind: TokenClientError.Kind? { error.flatMap { $0.call == .refresh ? $0.kind : nil } }
    }

    private func refresh(
        _ script: [ScriptedServer.Act], tokens: TokenSet? = nil, timeout: Duration = .seconds(10),
        change: (inout UpstreamConfiguration) -> Void = { _ in }
    ) async throws -> Call {
        try await Upstreams.withScript(script, timeout: timeout, change: change) { client, upstream in
            var refreshed: TokenSet?
            let error = await thrown { () throws(TokenClientError) in
                refreshed = try await client.refresh(
                    tokens ?? self.tokens, traceparent: "00-a-b-01", now: Upstreams.now)
            }
            return Call(
                tokens: refreshed, error: error, requests: upstream.requests,
                connectionCount: upstream.connectionCount)
        }
    }

    @Test("returns new tokens for the refresh token")
    func success() async throws {
        let call = try await refresh([ScriptedServer.response("200 OK", Self.response)])
        expect(
            call.tokens,
            equals: TokenSet(
                authorization: Secret("Bearer canary-access-2"), refreshToken: Secret("canary-refresh-2"),
                obtainedAt: now))
        let request = try require(call.requests.first)
        expect(call.requests.count, equals: 1)
        expect(request.hasPrefix("POST /auth/refresh HTTP/1.1\r\n"))
        expect(request.contains("\r\nAuthorization: Bearer canary-refresh-1\r\n"))
        expect(request.contains("\r\nX-API-TOKEN: \(Upstreams.apiToken)\r\n"))
        expect(request.contains("\r\ntraceparent: 00-a-b-01\r\n"))
        expect(!request.contains("canary-access"))
    }

    @Test("keeps the refresh token if the response has none")
    func noRotation() async throws {
        let call = try await refresh([ScriptedServer.response("200 OK", #"{"accessToken":"a"}"#)])
        expect(call.tokens?.refreshToken, equals: Secret("canary-refresh-1"))
        expect(call.tokens?.authorization, equals: Secret("Bearer a"))
    }

    @Test("Rule 37: logs once that an upstream's lifetimes are invalid")
    func lifetimeLog() async throws {
        let response = ScriptedServer.response("200 OK", #"{"accessToken":"a","refreshToken":"r","expires_in":0}"#)
        try await ScriptedServer.run([response]) { [tokens] port, _ in
            var configuration = Upstreams.configuration(port: port)
            configuration.refresh?.expiresIn = "expires_in"
            configuration.signIn?.expiresIn = "expires_in"
            let journal = CallRecorder()
            try await Upstreams.withClient(configuration, onInvalidLifetime: { journal.note("invalid") }) { client in
                _ = try await client.signIn(try Upstreams.credentials(), traceparent: nil, now: Upstreams.now)
                for _ in 0..<3 { _ = try await client.refresh(tokens, traceparent: nil, now: Upstreams.now) }
            }
            expect(journal.all, equals: ["invalid"])
            try await Upstreams.withClient(
                Upstreams.configuration(port: port), onInvalidLifetime: { journal.note("none") }
            ) {
                _ = try await $0.refresh(tokens, traceparent: nil, now: Upstreams.now)
            }
            expect(journal.all, equals: ["invalid"])
        }
    }

    @Test(
        "Rule 36: is a rejection for 401 and for invalid_grant, and for nothing else",
        arguments: [
            ("401 Unauthorized", "", .rejected), ("401 Unauthorized", #"{"error":"Unauthorized"}"#, .rejected),
            ("400 Bad Request", #"{"error":"invalid_grant"}"#, .rejected),
            ("403 Forbidden", #"{"error":"invalid_grant"}"#, .rejected),
            ("400 Bad Request", "", .misconfigured(.requestRejected)),
            ("401 Unauthorized", #"{"error":"invalid_client"}"#, .misconfigured(.invalidClient)),
            ("403 Forbidden", "", .misconfigured(.forbidden)), ("404 Not Found", "", .misconfigured(.notFound)),
            ("302 Found\r\nLocation: /", #"{"error":"invalid_grant"}"#, .invalidResponse),
            ("429 Too Many Requests", "", .busy), ("500 Oops", #"{"error":"invalid_grant"}"#, .unreachable),
        ] as [(String, String, TokenClientError.Kind)])
    func statuses(status: String, body: String, kind: TokenClientError.Kind) async throws {
        let call = try await refresh([ScriptedServer.response(status, body)])
        expect(call.kind, equals: kind)
        expect(call.requests.count, equals: 1)
    }

    @Test("Rule 36: does not reject the session if the error body is too large, truncated or incomplete")
    func errorBodies() async throws {
        let start = #"{"error":"invalid_client","x":""#
        let long = start + String(repeating: "x", count: 10_000) + #""}"#
        for act in [
            ScriptedServer.response("401 Unauthorized", long),
            .bytes("HTTP/1.1 401 Unauthorized\r\nContent-Length: 100\r\n\r\n" + start),
            .bytesThenClose("HTTP/1.1 401 Unauthorized\r\nContent-Length: 100\r\n\r\n" + start),
            .bytes("HTTP/1.1 401 Unauthorized\r\nContent-Length: 100\r\n\r\n"),
            .bytesThenClose("HTTP/1.1 401 Unauthorized\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"err\r\n"),
        ] {
            try await expect(refresh([act], timeout: .seconds(2)).kind, equals: .invalidResponse)
            for credentials in [IdentityEndpointConfiguration.CredentialFormat.bearer, .oauth] {
                let call = try await refresh([act], timeout: .seconds(2)) {
                    $0.refresh = IdentityEndpointConfiguration(
                        path: "/auth/refresh", credentials: credentials, endsOn: ["any400"])
                }
                expect(call.kind, equals: .invalidResponse)
            }
        }
    }

    @Test(
        "treats a response without tokens or of excessive size as invalid, and does not reject the session",
        arguments: [
            ScriptedServer.response("200 OK", ""), ScriptedServer.response("200 OK", "{}"),
            ScriptedServer.response("200 OK", "<html>login</html>"), ScriptedServer.response("204 No Content", ""),
            ScriptedServer.response("200 OK", #"{"accessToken":"a\r\nb"}"#),
            ScriptedServer.response("200 OK", #"{"accessToken":"a","refreshToken":7}"#),
            ScriptedServer.response("200 OK", String(repeating: " ", count: 65_536) + response),
            .bytesThenClose("SSH-2.0-OpenSSH_9\r\n\r\n"),
        ])
    func nonsense(act: ScriptedServer.Act) async throws {
        let call = try await refresh([act])
        expect(call.kind, equals: .invalidResponse)
        expect(call.requests.count, equals: 1)
    }

    @Test("accepts a response of 64 KiB")
    func largestResponse() async throws {
        let padding = String(repeating: " ", count: 65_536 - Self.response.utf8.count)
        let call = try await refresh([ScriptedServer.response("200 OK", padding + Self.response)])
        expect(call.tokens?.refreshToken, equals: Secret("canary-refresh-2"))
    }

    @Test("uses the next target if one refuses connections")
    func nextTarget() async throws {
        let rejecting = try await ScriptedServer.rejectingPort()
        let call = try await refresh([ScriptedServer.response("200 OK", Self.response)]) {
            $0.targets.insert(UpstreamTargetConfiguration(HostAndPort(host: "127.0.0.1", port: rejecting)), at: 0)
        }
        expect(call.tokens != nil)
        expect(call.requests.count, equals: 1)
    }

    @Test("uses a new connection, so that it cannot be lost on a pooled one that was just closed")
    func ownConnection() async throws {
        try await Upstreams.withScript([ScriptedServer.response("200 OK", Self.response)]) { client, upstream in
            for _ in 0..<2 { _ = try await client.user(tokens, traceparent: nil) }
            expect(upstream.connectionCount, equals: 1)
            for _ in 0..<2 { _ = try await client.refresh(tokens, traceparent: nil, now: now) }
            expect(upstream.connectionCount, equals: 3)
        }
    }

    @Test("does not reject the session if there is no refresh token, and sends nothing")
    func nothingToRefreshWith() async throws {
        let lone = TokenSet(authorization: Secret("Bearer a"), obtainedAt: now)
        let without = try await refresh([.silence], tokens: lone)
        let unplanned = try await refresh([.silence]) { $0.refresh = nil }
        for call in [without, unplanned] {
            expect(call.kind, equals: .invalidResponse)
            expect(call.connectionCount, equals: 0)
        }
        var configuration = Upstreams.configuration(port: 1)
        try await expect(Upstreams.withClient(configuration) { $0.supportsRefresh })
        configuration.refresh = nil
        try await expect(!Upstreams.withClient(configuration) { $0.supportsRefresh })
    }
}

@Suite("The request for a user's data", .timeLimit(.minutes(1)))
struct UserCallTests {
    private struct Call {
        var document: [UInt8]?
        var error: TokenClientError?
        var requests: [String]
    }

    private func user(
        _ act: ScriptedServer.Act, replacing previous: TokenSet? = nil,
        change: (inout UpstreamConfiguration) -> Void = { _ in }
    ) async throws -> Call {
        let tokens = TokenSet(authorization: Secret("Bearer canary-access-0123456789"), obtainedAt: Upstreams.now)
        return try await Upstreams.withScript([act], change: change) { client, upstream in
            var document: [UInt8]?
            let error = await thrown { () throws(TokenClientError) in
                document = try await client.user(tokens, replacing: previous, traceparent: "00-a-b-01")
            }
            return Call(document: document, error: error, requests: upstream.requests)
        }
    }

    @Test("returns the document, compact")
    func success() async throws {
        let call = try await user(ScriptedServer.response("200 OK", #"{ "name": "Jo" }"#))
        expect(call.document, equals: Array(#"{"name":"Jo"}"#.utf8))
        let request = try require(call.requests.first)
        expect(request.hasPrefix("GET /user HTTP/1.1\r\n"))
        expect(request.contains("\r\nAuthorization: Bearer canary-access-0123456789\r\n"))
        expect(request.contains("\r\ntraceparent: 00-a-b-01\r\n"))
    }

    @Test("returns nothing if the upstream has no user endpoint")
    func noCall() async throws {
        let call = try await user(.silence) { $0.user = nil }
        expect(call.document == nil && call.error == nil && call.requests.isEmpty)
    }

    @Test(
        "reports the kind of each invalid response",
        arguments: [
            ("400 Bad", "", .misconfigured(.requestRejected)), ("401 Unauthorized", "{}", .invalidResponse),
            ("403 No", "", .misconfigured(.forbidden)), ("404 Not Found", "", .misconfigured(.notFound)),
            ("422 No", "", .misconfigured(.requestRejected)), ("429 Slow down", "", .busy),
            ("500 Oops", "{}", .unreachable), ("503 Away", "", .unreachable), ("200 OK", "[]", .invalidResponse),
            ("200 OK", #"{"t":"canary-access-0123456789"}"#, .invalidResponse),
        ] as [(String, String, TokenClientError.Kind)])
    func failures(status: String, body: String, kind: TokenClientError.Kind) async throws {
        let call = try await user(ScriptedServer.response(status, body))
        expect(call.error, equals: TokenClientError(kind, in: .user, isUnjudged: status.hasPrefix("5")))
    }

    @Test(
        "Rule 39: rejects a document that contains the replaced tokens in any spelling",
        arguments: [#"{"t":"canary\u002daccess-before"}"#, #"{"canary-refresh-before":1}"#])
    func previousTokens(text: String) async throws {
        let previous = TokenSet(
            authorization: Secret("Bearer canary-access-before"), refreshToken: Secret("canary-refresh-before"),
            obtainedAt: Upstreams.now)
        let act = ScriptedServer.response("200 OK", text)
        try await expect(user(act, replacing: previous).error, equals: TokenClientError(.invalidResponse, in: .user))
        try await expect(user(act).document, equals: Array(text.utf8))
    }
}
