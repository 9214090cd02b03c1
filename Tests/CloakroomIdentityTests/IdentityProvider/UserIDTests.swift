import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("The account by the upstream's user id")
struct UserIDTests {
    private func upstream(id: String = "id", source: String = "api", hasUser: Bool = true) -> UpstreamConfiguration {
        var configuration = Upstreams.configuration(port: 1)
        configuration.sessionSource = source
        configuration.user = hasUser ? IdentityEndpointConfiguration(method: "GET", path: "/user", userID: id) : nil
        return configuration
    }

    private func account(_ json: String, _ upstream: UpstreamConfiguration? = nil) -> AccountName? {
        UserIdentity.account(in: Array(json.utf8), upstream ?? self.upstream())
    }

    @Test(
        "Rule 35: is a string or an integer at the configured member",
        arguments: [
            (#"{"id":"17"}"#, "17"), (#"{"id":17}"#, "17"), (#"{"id":-3}"#, "-3"), (#"{"id":"u\u0031"}"#, "u1"),
            (#"{"id":9007199254740991}"#, "9007199254740991"), (#"{"id":" A "}"#, " A "),
        ])
    func found(json: String, id: String) {
        expect(account(json), equals: AccountName(userID: id, source: SessionSource(upstream: "api")))
    }

    @Test(
        "Rule 35: is missing if ids could not be compared exactly",
        arguments: [
            "{}", #"{"id":""}"#, #"{"id":null}"#, #"{"id":1.5}"#, #"{"id":true}"#, #"{"id":["a"]}"#, #"{"id":{"a":1}}"#,
            #"{"id":9007199254740993}"#, #"{"id":1e300}"#, #"{"id":1e-999}"#, #"{"ID":"17"}"#,
        ])
    func none(json: String) {
        expect(account(json), equals: nil)
        expect(account(#"{"id":"\#(String(repeating: "x", count: 256))"}"#), equals: nil)
        expect(account(#"{"id":"17"}"#, upstream(hasUser: false)), equals: nil)
    }

    @Test("Rule 35: is different for the same id at two upstreams")
    func sources() {
        let nested = upstream(id: "data.user.uid")
        expect(account(#"{"data":{"user":{"uid":"17"}}}"#, nested), equals: account(#"{"id":"17"}"#))
        expect(account(#"{"id":"17"}"#, upstream(source: "other")) != account(#"{"id":"17"}"#))
    }

    @Test(
        "Rule 35: is compared after a refresh: data of another user end the session, data without an id change nothing",
        arguments: [
            (#"{"id":1}"#, #"{"id":"1","name":"Jo"}"#, nil), (#"{"id":1}"#, #"{"id":2}"#, .rejected),
            (#"{"id":1}"#, #"{"name":"Jo"}"#, .invalidResponse), (nil, #"{"id":2}"#, nil),
            (nil, #"{"name":"Jo"}"#, nil),
        ] as [(String?, String, TokenClientError.Kind?)])
    func refresh(before: String?, after: String, kind: TokenClientError.Kind?) async throws {
        let tokens = TokenSet(authorization: Secret("Bearer canary-access-2"), obtainedAt: Upstreams.now)
        let name = AccountName(email: "jo@example.com")
        try await ScriptedServer.run([ScriptedServer.response("200 OK", after)]) { port, _ in
            let configuration = Upstreams.configuration(port: port)
            let document = before ?? "{}"
            // With the account of the id, and as stored by a release without ids.
            for account in [self.account(document, configuration) ?? name, name] {
                let session = Session(
                    key: SessionKey(1, 2, 3, 4),
                    user: UserProfile(json: Array(document.utf8), account: account, name: name), tokens: tokens,
                    createdAt: Upstreams.now.sessionTime, expiresAt: Upstreams.now.sessionTime + .seconds(60),
                    lastUsedAt: Upstreams.now.sessionTime)
                try await Upstreams.withClient(configuration) { client in
                    do throws(TokenClientError) {
                        let update = try await client.updatedUser(of: session, replacing: tokens, traceparent: nil)
                        expect(kind == nil && update?.userJSON == Array(after.utf8))
                    } catch {
                        expect(error, equals: kind.map { TokenClientError($0, in: .user) })
                    }
                }
            }
        }
    }

    @Test("Rule 35: is returned by a sign-in together with the typed name")
    func signIn() async throws {
        let tokens = ScriptedServer.response(
            "200 OK", #"{"accessToken":"canary-access-1","refreshToken":"canary-refresh-1"}"#)
        let user = ScriptedServer.response("200 OK", #"{"id":17,"email":"jo@example.com"}"#)
        try await Upstreams.withScript([tokens, user, tokens, user]) { client, _ in
            for email in ["jo@example.com", "j\u{f6}@example.com"] {
                let signedIn = try await client.signIn(
                    try Upstreams.credentials(email), traceparent: nil, now: Upstreams.now)
                expect(signedIn.user.account, equals: AccountName(userID: "17", source: SessionSource(upstream: "api")))
                expect(signedIn.user.name, equals: AccountName(email: email))
            }
        }
    }
}
