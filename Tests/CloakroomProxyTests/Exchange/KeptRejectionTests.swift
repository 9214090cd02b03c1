import CloakroomCore
import CloakroomTelemetry
import Foundation
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Rejected requests that why can explain")
struct KeptRejectionTests {
    /// What is kept of the request that got this problem document. It is kept shortly after the response.
    private static func kept(_ response: TestResponse, by gateway: RunningGateway) async throws -> String {
        let start = try require(response.text.firstRange(of: "\"request_id\":\"")?.upperBound)
        let id = try require(ID128(String(response.text[start...].prefix(32))))
        return try await eventually("the request is kept") {
            let text = document(id, of: gateway)
            return text.contains("\"found\"") ? text : nil
        }
    }

    private static func document(_ id: ID128, of gateway: RunningGateway) -> String {
        String(decoding: gateway.telemetry.rejectedRequests.document(of: id), as: UTF8.self)
    }

    @Test("Rule 22: has the decision, and neither the query nor a cookie nor a token")
    func unauthorized() async throws {
        let cookie = FakeSessions.strangeCookie
        try await GatewaySetup.serving.run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(
                Ask.get("/private/a?key=canary-query", cookie, "Authorization: Bearer canary-token"))
            expect(response.status, equals: 401)
            let text = try await Self.kept(response, by: gateway)
            for part in [
                #""path":"/private/a","#, #""route":"private""#, #""decision":"unauthenticated""#,
                #""unauthorized_reason":"no_session""#, #""host":"gateway.test""#, #""listener":"127.0.0.1:0""#,
                #""credentials":"cookie and authorization""#, #""code":"unauthorized""#, #""attempts":"""#,
            ] { expect(text.contains(part), "\(part): \(text)") }
            for secret in ["canary", String(cookie.dropFirst("Cookie: __Host-cloakroom=".count))] {
                expect(!text.contains(secret))
            }
        }
    }

    @Test("Requests that are forwarded are not kept, whatever the upstream's status")
    func forwarded() async throws {
        let setup = GatewaySetup.replying("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")
        try await setup.run { gateway in
            let client = try await gateway.client()
            try await expect(client.exchange(Ask.get("/public/a")).status, equals: 500)
            try await expect(client.exchange(Ask.get("/private/a", Ask.cookie)).status, equals: 500)
            let response = try await client.exchange(Ask.get("/none"))
            expect(response.problem, equals: "404 not_found")
            // The requests before on the connection have ended.
            try await expect(Self.kept(response, by: gateway).hasPrefix("{\"held\":1,"))
        }
    }

    @Test("A failed sign-in at a provider has its step and its reason")
    func login() async throws {
        let endpoints = FakeEndpoints { _ in
            var response = AccountResponse(Problem(.loginFailed))
            response.loginFailure = "code: wrong_nonce"
            return response
        }
        try await GatewaySetup.serving.with(\.endpoints, endpoints).run { gateway in
            let client = try await gateway.client()
            let response = try await client.exchange(Ask.get("/auth"))
            expect(response.problem, equals: "502 login_failed")
            let text = try await Self.kept(response, by: gateway)
            expect(text.contains(#""code":"login_failed","login":"code: wrong_nonce""#), "\(text)")
        }
    }

    @Test("A failed request has its attempts, and one that is malformed has no path")
    func failures() async throws {
        try await GatewaySetup([.request, .send("nonsense\r\n\r\n"), .close]).run { gateway in
            let client = try await gateway.client()
            let failed = try await client.exchange(Ask.get("/public/a"))
            expect(failed.problem, equals: "502 failed_request")
            let text = try await Self.kept(failed, by: gateway)
            expect(text.contains(#""error":"upstream_invalid_response""#), "\(text)")
            expect(text.contains(#": upstream invalid response""#), "\(text)")
            let malformed = try await gateway.client().exchange("GET /\u{1} HTTP/1.1\r\nHost: gateway.test\r\n\r\n")
            expect(malformed.status, equals: 400)
            let other = try await Self.kept(malformed, by: gateway)
            expect(other.contains(#""code":"bad_request""#), "\(other)")
        }
    }
}
