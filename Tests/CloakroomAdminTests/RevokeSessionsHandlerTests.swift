import AsyncHTTPClient
import CloakroomCore
import CloakroomTelemetry
import Foundation
import NIOHTTP1
import TestSupport
import Testing

@testable import CloakroomAdmin

@Suite("POST /sessions/revoke")
struct RevokeSessionsHandlerTests {
    private static let token = "canary-admin-token-0123456789abcdef"
    private static let now = SessionTime(seconds: 1_700_000_000)
    private static let json = ("Content-Type", "application/json")
    private static let authorization = ("Authorization", "Bearer \(token)")
    private static let user = #"{"user":"Jo@example.com"}"#

    /// Runs a server with a token, and sends one request.
    private func ask(
        _ body: String? = user, _ fields: [(String, String)] = [authorization, json], method: HTTPMethod = .POST,
        result: Result<Int, SessionStoreError> = .success(2), lines: RecordedLog = RecordedLog()
    ) async throws -> (status: Int, headers: HTTPHeaders, body: String, calls: [ScriptedRevoking.Call]) {
        let revoking = ScriptedRevoking(result)
        let revocation = RevokeSessionsHandler(token: Secret(Self.token), sessions: revoking, now: { Self.now })
        let received = Response()
        try await RunningAdminServer.run(revocation: revocation, logger: lines.logger) { address in
            let (response, body) = try await RunningAdminServer.send(
                method, address + "/sessions/revoke", fields, body: body)
            await received.keep(Int(response.status.code), response.headers, String(decoding: body, as: UTF8.self))
        }
        return (await received.status, await received.headers, await received.body, revoking.calls)
    }

    private actor Response {
        var status = 0
        var headers = HTTPHeaders()
        var body = ""

        func keep(_ status: Int, _ headers: HTTPHeaders, _ body: String) {
            (self.status, self.headers, self.body) = (status, headers, body)
        }
    }

    @Test("ends the sessions of a user and returns their number")
    func revokesUser() async throws {
        let received = try await ask()
        expect(received.status, equals: 200)
        expect(received.body, equals: #"{"ended":2}"#)
        expect(received.headers.first(name: "content-type"), equals: "application/json")
        expect(received.headers.first(name: "cache-control"), equals: "no-store")
        let account = AccountName(email: "jo@example.com")
        expect(received.calls, equals: [ScriptedRevoking.Call(account: account, peer: "127.0.0.1", now: Self.now)])
    }

    @Test("Rule 35: accepts the upstream's user id as well; an address is used both as id and as address")
    func revokesUserID() async throws {
        let revoking = ScriptedRevoking(.success(2))
        let revocation = RevokeSessionsHandler(token: Secret(Self.token), sessions: revoking, now: { Self.now })
        try await RunningAdminServer.run(revocation: revocation, logger: RecordedLog().logger) { address in
            for user in ["17", "Jo@example.com"] {
                let (_, _) = try await RunningAdminServer.send(
                    .POST, address + "/sessions/revoke", [Self.authorization, Self.json],
                    body: #"{"user":"\#(user)"}"#)
            }
        }
        expect(revoking.userIDs, equals: ["17", "Jo@example.com"])
        expect(revoking.calls.map(\.account), equals: [AccountName(email: "jo@example.com")])
    }

    @Test("ends the sessions of a user at an OpenID Provider, by issuer and subject, neither of which is folded")
    func revokesSubject() async throws {
        let received = try await ask(#"{"subject":"Jo@Example.com","issuer":"https://id.example.com"}"#)
        expect(received.status, equals: 200)
        expect(received.body, equals: #"{"ended":2}"#)
        let account = AccountName(issuer: "https://id.example.com", subject: "Jo@Example.com")
        expect(received.calls, equals: [ScriptedRevoking.Call(account: account, peer: "127.0.0.1", now: Self.now)])
    }

    @Test("ends one session by the name that logs show; an unknown name is no error")
    func revokesSession() async throws {
        let received = try await ask(
            #" { "session" : "0123456789abcdef" } "#,
            [("authorization", "bearer  \(Self.token)"), ("content-type", "Application/JSON; charset=utf-8")],
            result: .success(0))
        expect(received.status, equals: 200)
        expect(received.body, equals: #"{"ended":0}"#)
        let id = SessionID(0x0123_4567_89ab_cdef)
        expect(received.calls, equals: [ScriptedRevoking.Call(session: id, peer: "127.0.0.1", now: Self.now)])
    }

    @Test(
        "without the exact token requests are rejected, and a log line reports this without the token",
        arguments: [
            nil, "", "Bearer", "Bearer ", "Bearer x", "canary-admin-token-0123456789abcdef",
            "Basic canary-admin-token-0123456789abcdef", "Bearer canary-admin-token-0123456789abcdeF",
            "Bearer canary-admin-token-0123456789abcdef0", "Bearer canary-admin-token-0123456789abcde",
            "Bearer canary-admin-token-0123456789abcdef canary",
        ] as [String?])
    func unauthorized(authorization: String?) async throws {
        let lines = RecordedLog()
        let fields = [Self.json] + (authorization.map { [("Authorization", $0)] } ?? [])
        let received = try await ask(Self.user, fields, lines: lines)
        expect(received.status, equals: 401)
        expect(received.headers.first(name: "www-authenticate"), equals: "Bearer")
        expect(received.headers.first(name: "content-type"), equals: "application/problem+json")
        expect(empty: received.calls)
        expect(lines.texts.contains { $0.hasPrefix("warning admin request rejected") && $0.contains("127.0.0.1") })
        expect(!(lines.texts.joined() + received.body).contains("canary"))
    }

    @Test("Rule 49: after five wrong tokens a further one is 429 with Retry-After, the right one is served")
    func throttled() async throws {
        let revoking = ScriptedRevoking(.success(1))
        let revocation = RevokeSessionsHandler(token: Secret(Self.token), sessions: revoking, now: { Self.now })
        let lines = RecordedLog()
        try await RunningAdminServer.run(revocation: revocation, logger: lines.logger) { address in
            for status in [401, 401, 401, 401, 401, 429, 429] {
                let (response, body) = try await RunningAdminServer.send(
                    .POST, address + "/sessions/revoke", [Self.json, ("Authorization", "Bearer canary-wrong")],
                    body: Self.user)
                expect(Int(response.status.code), equals: status)
                expect(response.headers.first(name: "retry-after"), equals: (status == 429 ? "1" : nil))
                expect(response.headers.first(name: "content-type"), equals: "application/problem+json")
                expect(String(decoding: body, as: UTF8.self).contains(#""status":\#(status)"#))
            }
            expect(empty: revoking.calls)
            let (response, _) = try await RunningAdminServer.send(
                .POST, address + "/sessions/revoke", [Self.json, Self.authorization], body: Self.user)
            expect(response.status, equals: .ok)
        }
        let events = lines.texts.filter { $0.contains("admin_refused") }
        expect(events.count, equals: 2, "one line per outcome per 10 s")
        expect(events.contains { $0.contains("wrong_token") } && events.contains { $0.contains("throttled") })
        expect(!lines.texts.joined().contains("canary"))
    }

    @Test("Two Authorization fields count as no authorization")
    func twoTokens() async throws {
        let received = try await ask(Self.user, [Self.authorization, Self.authorization, Self.json])
        expect(received.status, equals: 401)
        expect(empty: received.calls)
    }

    @Test(
        "A request from a page in a browser is rejected, with or without the token",
        arguments: [
            ("Origin", "https://evil.example"), ("Origin", "null"), ("Origin", "http://127.0.0.1:9464"),
            ("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Site", "same-site"),
        ])
    func pages(name: String, value: String) async throws {
        let received = try await ask(Self.user, [Self.authorization, Self.json, (name, value)])
        expect(received.status, equals: 403)
        expect(empty: received.calls)
    }

    @Test(
        "Malformed requests are reported as problems, and end no session",
        arguments: [
            ("", 400), ("{", 400), ("user=jo@example.com", 400), ("{}", 422), ("[]", 422), ("null", 422), ("1", 422),
            (#"{"user":1}"#, 422), (#"{"user":null}"#, 422), (#"{"user":""}"#, 422),
            (#"{"user":"\#(String(repeating: "x", count: 256))"}"#, 422),
            (#"{"users":"jo@example.com"}"#, 422), (#"{"user":"jo@example.com","session":"0123456789abcdef"}"#, 422),
            (#"{"user":"jo@example.com","dry":"run"}"#, 422), (#"{"session":"0123456789ABCDEF"}"#, 422),
            (#"{"user":"jo@example.com","user":"jo@example.org"}"#, 400),
            (#"{"session":"0123456789abcdef","session":"fedcba9876543210"}"#, 400),
            (#"{"user":1,"user":"jo@example.com"}"#, 400), (#"{"session":"0123"}"#, 422),
            (#"{"session":["0123456789abcdef"]}"#, 422), (#"{"issuer":"https://a"}"#, 422),
            (#"{"subject":"jo@example.com"}"#, 422), (#"{"issuer":"https://a","subject":1}"#, 422),
            (#"{"issuer":"","subject":"jo@example.com"}"#, 422), (#"{"issuer":"https://a","subject":""}"#, 422),
            (#"{"issuer":"https://a","subject":"\#(String(repeating: "x", count: 256))"}"#, 422),
            (#"{"issuer":"https://a","user":"jo@example.com"}"#, 422),
            (#"{"issuer":"https://a","subject":"x","user":"jo@example.com"}"#, 422),
            (#"{"issuer":"https://a","subject":"x","subject":"jo@example.com"}"#, 400),
        ])
    func valueErrors(body: String, status: Int) async throws {
        let received = try await ask(body)
        expect(received.status, equals: status)
        expect(received.headers.first(name: "content-type"), equals: "application/problem+json")
        expect(received.body.contains(#""status":\#(status)"#))
        expect(!received.body.contains("jo@example.com"))
        expect(empty: received.calls)
    }

    @Test("A body of more than 1 KiB is 413")
    func tooLarge() async throws {
        let padding = String(repeating: " ", count: 1_024 - Self.user.utf8.count)
        try await expect(ask(Self.user + padding).status, equals: 200)
        let received = try await ask(Self.user + padding + " ")
        expect(received.status, equals: 413)
        expect(empty: received.calls)
    }

    @Test(
        "A body of another type is 415",
        arguments: ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""])
    func otherType(type: String) async throws {
        let received = try await ask(Self.user, [Self.authorization, ("Content-Type", type)])
        expect(received.status, equals: 415)
        expect(empty: received.calls)
    }

    @Test("An unavailable store leads to 503 with Retry-After")
    func storeDown() async throws {
        let received = try await ask(result: .failure(SessionStoreError(.unavailable)))
        expect(received.status, equals: 503)
        expect(received.headers.first(name: "retry-after"), equals: "5")
    }

    @Test("Rule 19: it is the only page that changes state, by POST alone, and does not exist without a token")
    func surface() async throws {
        for method in [HTTPMethod.GET, .HEAD, .PUT, .DELETE, .OPTIONS] {
            let received = try await ask(nil, [Self.authorization], method: method)
            expect(received.status, equals: 405, "\(method)")
            expect(received.headers.first(name: "allow"), equals: "POST")
            expect(empty: received.calls)
        }
        let revoking = ScriptedRevoking(.success(1))
        let revocation = RevokeSessionsHandler(token: Secret(Self.token), sessions: revoking, now: { Self.now })
        let fields = [Self.authorization, Self.json]
        for (revocation, paths) in [
            (nil, ["/sessions/revoke"]),
            (revocation, ["/sessions", "/sessions/", "/sessions/revoke/", "/sessions/revoke/x", "/Sessions/Revoke"]),
        ] as [(RevokeSessionsHandler?, [String])] {
            try await RunningAdminServer.run(revocation: revocation) { address in
                for path in paths {
                    let (response, _) = try await RunningAdminServer.send(
                        .POST, address + path, fields, body: Self.user)
                    expect(response.status, equals: .notFound, "\(path)")
                }
                for path in ["/live", "/ready", "/metrics"] {
                    for method in [HTTPMethod.POST, .PUT, .DELETE, .PATCH] {
                        let (response, _) = try await RunningAdminServer.send(
                            method, address + path, fields, body: Self.user)
                        expect(response.status, equals: .methodNotAllowed, "\(method) \(path)")
                    }
                }
            }
        }
        expect(empty: revoking.calls)
    }

    @Test("With an empty token every request is rejected")
    func emptyToken() async throws {
        let revoking = ScriptedRevoking(.success(1))
        let revocation = RevokeSessionsHandler(token: Secret(""), sessions: revoking, now: { Self.now })
        try await RunningAdminServer.run(revocation: revocation) { address in
            for value in ["Bearer", "Bearer ", "Bearer x"] {
                let (response, _) = try await RunningAdminServer.send(
                    .POST, address + "/sessions/revoke", [Self.json, ("Authorization", value)], body: Self.user)
                expect(response.status, equals: .unauthorized)
            }
        }
        expect(empty: revoking.calls)
    }
}
