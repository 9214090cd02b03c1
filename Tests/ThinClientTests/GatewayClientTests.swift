import Foundation
import TestSupport
import Testing
import ThinClient

@Suite("The client library")
struct GatewayClientTests {
    private struct User: Codable, Equatable {
        let id: Int
        let joinedAt: Date?
    }

    private let transport = ScriptedTransport()

    private func client(_ url: String = "https://app.example.com", accounts: String = "/auth") throws -> GatewayClient {
        GatewayClient(gateway: try require(URL(string: url)), accounts: accounts, transport: transport)
    }

    private func failure<R>(of call: () async throws -> R) async -> ClientError? {
        do {
            _ = try await call()
            return nil
        } catch {
            return error as? ClientError
        }
    }

    @Test("signs in with JSON, and decodes the user and the times of the session")
    func signIn() async throws {
        transport.respond(
            200,
            """
            {"user":{"id":1,"joinedAt":"2026-01-01T00:00:00Z"},"session":{"createdAt":"2026-11-21T11:20:42Z",\
            "expiresAt":"2026-11-21T19:20:42Z","idleTimeoutSeconds":900}}
            """)
        let signedIn = try await client().signIn(name: "jo@example.com", password: "p\"w", as: User.self)
        expect(signedIn.user, equals: User(id: 1, joinedAt: Date(timeIntervalSince1970: 1_767_225_600)))
        expect(signedIn.session.expiresAt.timeIntervalSince(signedIn.session.createdAt), equals: 8 * 3_600)
        expect(signedIn.session.idleTimeout, equals: .seconds(900))
        let sent = try require(transport.sent.first)
        expect(sent.method, equals: "POST")
        expect(sent.url, equals: "https://app.example.com/auth")
        expect(sent.fields["content-type"], equals: "application/json")
        let body = try JSONDecoder().decode([String: String].self, from: Data((sent.body ?? "").utf8))
        expect(body, equals: ["email": "jo@example.com", "password": "p\"w"])
    }

    @Test("asks to stay signed in with a boolean, and uses the configured member, prefix and fields")
    func options() async throws {
        let client = GatewayClient(
            gateway: try require(URL(string: "https://app.example.com/base")), accounts: "/account",
            nameMember: "username", fields: ["X-CSRF": "1"], transport: transport)
        _ = await failure {
            try await client.signIn(name: "Jo", password: "x", staysSignedIn: true, as: User.self)
        }
        let sent = try require(transport.sent.first)
        expect(sent.url, equals: "https://app.example.com/base/account")
        expect(sent.fields["x-csrf"], equals: "1")
        let body = try require(
            JSONSerialization.jsonObject(with: Data((sent.body ?? "").utf8)) as? [String: Any])
        expect(body["username"] as? String, equals: "Jo")
        expect(body["persistent"] as? Bool, equals: true)
    }

    @Test("begins a sign-in in a browser with the members that are given, and completes it with the code")
    func signInWithBrowser() async throws {
        let page = "https://app.example.com/auth/login?app=T"
        transport.respond(200, #"{"url":"\#(page)","expiresAt":"2026-11-21T11:30:42Z"}"#)
        transport.respond(200, #"{"url":"\#(page)","expiresAt":"2026-11-21T11:30:42Z"}"#)
        let client = try client()
        try await expect(client.beginSignIn(app: "shop").absoluteString, equals: page)
        _ = try await client.beginSignIn(
            app: "shop", identity: "company", for: "invoice", staysSignedIn: true, port: 49_152,
            parameters: ["login_hint": "jo"])
        let bodies = try transport.sent.map {
            try require(JSONSerialization.jsonObject(with: Data(($0.body ?? "").utf8)) as? [String: Any])
        }
        expect(Set(bodies[0].keys), equals: ["app", "persistent"])
        expect(bodies.map { $0["persistent"] as? Bool }, equals: [false, true])
        expect(bodies[1]["for"] as? String == "invoice" && bodies[1]["identity"] as? String == "company")
        expect(bodies[1]["port"] as? Int, equals: 49_152)
        expect(bodies[1]["parameters"] as? [String: String], equals: ["login_hint": "jo"])

        transport.respond(
            200,
            """
            {"user":{"id":1,"joinedAt":null},"session":{"createdAt":"2026-11-21T11:20:42Z",\
            "expiresAt":"2026-11-21T19:20:42Z","idleTimeoutSeconds":900}}
            """)
        let callback = try require(URL(string: "com.example.shop:/signed-in?code=C-_1"))
        try await expect(client.completeSignIn(callback, as: User.self).user.id, equals: 1)
        expect(
            transport.sent.map(\.url),
            equals: ["/app", "/app", "/app/code"].map { "https://app.example.com/auth\($0)" })
        expect(transport.sent.last?.body, equals: #"{"code":"C-_1"}"#)
    }

    @Test(
        "reports why a sign-in failed in the browser, without a request",
        arguments: [
            ("?error=login_refused", ClientError.Code.loginRefused), ("", .invalidResponse), ("?a=1", .invalidResponse),
        ])
    func failedSignInWithBrowser(query: String, code: ClientError.Code) async throws {
        let callback = try require(URL(string: "com.example.shop:/signed-in\(query)"))
        let client = try client()
        await expect(failure { try await client.completeSignIn(callback, as: User.self) }?.code, equals: code)
        expect(empty: transport.sent)
    }

    @Test("sends paths and queries percent-encoded, and bodies as JSON with dates in ISO 8601")
    func request() async throws {
        transport.respond(200, "[1,2]")
        transport.respond(201, #"{"id":7,"joinedAt":null}"#)
        let client = try client()
        let numbers = try await client.request(
            "GET", "/a b/ü", query: [URLQueryItem(name: "q", value: "x&y=z")], as: [Int].self)
        expect(numbers, equals: [1, 2])
        let made = try await client.request(
            "POST", "/users", body: User(id: 7, joinedAt: Date(timeIntervalSince1970: 0)), as: User.self)
        expect(made.id, equals: 7)
        expect(
            transport.sent.map(\.url),
            equals: [
                "https://app.example.com/a%20b/%C3%BC?q=x%26y%3Dz", "https://app.example.com/users",
            ])
        expect(transport.sent.map { $0.fields["accept"] }, equals: ["application/json", "application/json"])
        expect(transport.sent.last?.body?.contains("1970-01-01T00:00:00Z"), equals: true)
        expect(transport.sent.first?.fields["content-type"], equals: nil)
    }

    @Test("signs out, and returns where to continue at a provider")
    func signOut() async throws {
        transport.respond(204)
        transport.respond(200, #"{"next":"https://id.example.com/end?id_token_hint=x"}"#)
        try await expect(client().signOut(), equals: nil)
        try await expect(client().signOut()?.host(), equals: "id.example.com")
        expect(transport.sent.map(\.method), equals: ["DELETE", "DELETE"])
    }

    @Test("lists and ends sessions")
    func sessions() async throws {
        transport.respond(
            200,
            """
            {"sessions":[{"id":"a1b9","createdAt":"2026-11-21T11:20:42Z","lastUsedAt":"2026-11-21T11:20:43Z",\
            "expiresAt":"2026-11-21T19:20:42Z","address":"127.0.0.1","userAgent":"curl","current":true}]}
            """)
        transport.respond(204)
        transport.respond(200, #"{"ended":3}"#)
        let client = try client()
        let session = try await require(client.sessions().first)
        expect(session.isCurrent)
        expect(session.address, equals: "127.0.0.1")
        try await client.endSession(id: session.id)
        try await expect(client.endOtherSessions(), equals: 3)
        expect(
            transport.sent.map { "\($0.method ?? "") \($0.url ?? "")" },
            equals: [
                "GET https://app.example.com/auth/sessions", "DELETE https://app.example.com/auth/sessions/a1b9",
                "DELETE https://app.example.com/auth/sessions",
            ])
    }

    @Test("names the page to sign in with, and where it returns to")
    func signInPage() throws {
        let page = try client().signInPage(returningTo: "/videos/1?t=5")
        expect(page.path(), equals: "/auth/page")
        let query = URLComponents(url: page, resolvingAgainstBaseURL: false)?.queryItems
        expect(query, equals: [URLQueryItem(name: "returnTo", value: "/videos/1?t=5")])
    }

    // MARK: - Errors

    @Test("A problem of the gateway has its code, reason, sentence, wait and request id")
    func problem() async throws {
        transport.problem(429, #""code":"throttled""#, ["Retry-After": "7"])
        let throttled = await failure { try await client().data("GET", "/") }
        expect(throttled?.code, equals: .throttled)
        expect(throttled?.status, equals: 429)
        expect(throttled?.retryAfter, equals: .seconds(7))
        expect(throttled?.requestID, equals: "abc")
        expect(throttled?.userMessage, equals: "Sentence.")
        expect(throttled?.requiresSignIn, equals: false)
    }

    @Test(
        "An app shows its sign-in without a session, and not after wrong credentials",
        arguments: [("no_session", true), ("expired_idle", true), ("revoked", true), ("invalid_credentials", false)])
    func unauthorized(reason: String, requiresSignIn: Bool) async throws {
        transport.problem(401, "\"code\":\"unauthorized\",\"reason\":\"\(reason)\"")
        let error = await failure { try await client().data("GET", "/") }
        expect(error?.reason, equals: reason)
        expect(error?.requiresSignIn, equals: requiresSignIn)
    }

    @Test("A step-up has the place to authenticate at")
    func stepUp() async throws {
        transport.problem(401, #""code":"step_up","login":"/auth/login?for=invoice""#)
        let error = await failure { try await client().data("GET", "/") }
        expect(error?.code, equals: .stepUp)
        expect(error?.login, equals: "/auth/login?for=invoice")
        expect(error?.requiresSignIn, equals: false)
    }

    @Test("An error of the API, a body that is no problem, invalid JSON and no response are distinct errors")
    func kinds() async throws {
        let client = try client()
        transport.respond(500, #"{"code":"unauthorized","detail":"not of the gateway"}"#)
        transport.respond(401, "<html>", ["Content-Type": "application/problem+json"])
        transport.respond(200, "{")
        let errors = [
            await failure { try await client.data("GET", "/") },
            await failure { try await client.data("GET", "/") },
            await failure { try await client.request("GET", "/", as: [Int].self) },
            await failure { try await client.data("GET", "/") },
        ]
        expect(errors.map { $0?.code }, equals: [.failedRequest, .failedRequest, .invalidResponse, .network])
        expect(errors.map { $0?.status }, equals: [500, 401, nil, nil])
        expect(errors.first??.userMessage, equals: "Something went wrong. Try again.")
        expect(errors.last??.userMessage, equals: "You need a network connection.")
    }

    @Test("Only a status from 200 to 299 is a success", arguments: [199, 300, 302, 399])
    func noSuccess(status: Int) async throws {
        let client = try client()
        transport.respond(status, "{}")
        await expect(failure { try await client.data("GET", "/") }?.status, equals: status)
    }

    @Test("A call that its task cancels is no network failure")
    func cancelled() async throws {
        let client = try client()
        let call = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await failure { try await client.data("GET", "/") }
        }
        await expect(call.value?.code, equals: .cancelled)
    }
}
