import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import TestSupport
import Testing

@testable import MockAPI

@Suite struct TokenEndpointRoutesTests {
    private let form = [("Content-Type", "application/x-www-form-urlencoded")]
    private let password = "grant_type=password&username=jo%40example.com&password=secret"
    private let client = "&client_id=mock-client&client_secret=mock-client-secret"

    private struct Tokens: Decodable {
        let access_token: String
        let token_type: String
        let expires_in: Int
        let refresh_token: String
    }

    private func post(
        _ mock: RunningMockAPI, _ path: String, _ body: String, authorization: String? = nil
    ) async throws -> TestResponse {
        try await mock.send(
            .POST, path, authorization: authorization, headers: form, body: .bytes(ByteBuffer(string: body)))
    }

    @Test("the token endpoint issues tokens for a password, rotates them, and detects reuse")
    func grants() async throws {
        try await MockAPI.withServer { mock in
            let first = try await post(mock, "/oauth/token", password + client).decode(Tokens.self)
            expect(first.token_type == "bearer" && first.expires_in == 300)
            try await expect(
                mock.send(.GET, "/user", authorization: "Bearer \(first.access_token)").status, equals: 200)
            let refresh = "grant_type=refresh_token&refresh_token=\(first.refresh_token)" + client
            try await expect(post(mock, "/oauth/token", refresh).status, equals: 200)
            let reuse = try await post(mock, "/oauth/token", refresh)
            expect(reuse.status, equals: 400)
            expect(String(buffer: reuse.body), equals: #"{"error":"invalid_grant"}"#)
            expect(mock.observations.snapshot().refreshes, equals: 1)
            expect(mock.observations.snapshot().reuseDetections, equals: 1)
        }
    }

    @Test("the token endpoint names each error with the code of RFC 6749")
    func errors() async throws {
        try await MockAPI.withServer { mock in
            let basic = String.basic("mock-client", "mock-client-secret")
            for (body, authorization, status, code) in [
                (password, nil, 401, "invalid_client"),
                (password + "&client_id=mock-client&client_secret=x", nil, 401, "invalid_client"),
                (password, .basic("mock-client", "x"), 401, "invalid_client"),
                (password + client, basic, 401, "invalid_client"),
                (password.replacing("secret", with: "x"), basic, 400, "invalid_grant"),
                ("grant_type=refresh_token&refresh_token=x", basic, 400, "invalid_grant"),
                ("grant_type=other", basic, 400, "unsupported_grant_type"),
                ("grant_type=password&username=jo", basic, 400, "invalid_request"),
                (password + "&grant_type=password", basic, 400, "invalid_request"),
                ("", basic, 400, "invalid_request"),
            ] as [(String, String?, Int, String)] {
                let response = try await post(mock, "/oauth/token", body, authorization: authorization)
                expect(response.status, equals: status, "\(body)")
                expect(String(buffer: response.body), equals: #"{"error":"\#(code)"}"#, "\(body)")
            }
            try await expect(post(mock, "/oauth/revoke", "token=x", authorization: basic).status, equals: 200)
            try await expect(post(mock, "/oauth/revoke", "token=x").status, equals: 401)
        }
    }

    @Test("the form with a success member is 200 for every outcome")
    func login() async throws {
        try await MockAPI.withServer { mock in
            let good = try await post(mock, "/login", "username=jo%40example.com&secret=secret&realm=main")
            expect(good.status == 200 && String(buffer: good.body).contains(#""ok":true"#))
            for (path, body, code) in [
                ("/login", "username=jo%40example.com&secret=x&realm=main", "wrong_password"),
                ("/login", "username=jo%40example.com&secret=secret", "bad_request"),
                ("/login/again", "token=x", "token_expired"), ("/login/again", "", "bad_request"),
            ] {
                let response = try await post(mock, path, body)
                expect(response.status, equals: 200)
                expect(String(buffer: response.body), equals: #"{"code":"\#(code)","ok":false}"#)
            }
        }
    }
}
