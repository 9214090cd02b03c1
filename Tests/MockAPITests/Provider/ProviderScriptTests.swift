import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import TestSupport
import Testing

@testable import MockAPI

/// The scripted behaviour of endpoints, and the control over HTTP.
@Suite struct ProviderScriptTests {
    private func running(
        _ settings: MockProviderSettings = MockProviderSettings(),
        _ body: (ProviderVisitor, MockProvider) async throws -> Void
    ) async throws {
        try await MockProvider.withServer(settings) { provider in
            try await body(ProviderVisitor(provider: provider), provider)
        }
    }

    @Test("the callback can lack iss, have another one, contain a parameter twice, or be an error")
    func callback() async throws {
        try await running { visitor, provider in
            provider.script { $0.callback.without = ["iss"] }
            try await expect(visitor.authorize()["iss"], equals: nil)
            provider.script { $0.callback = MemberEdit(set: ["iss": "https://other.example"], extra: "code=second") }
            let callback = try await visitor.authorize()
            expect(callback["iss"], equals: "https://other.example")
            let location = provider.observations.snapshot()
            expect(location.count("GET", "/authorize"), equals: 2)
            provider.script {
                $0.callback = MemberEdit()
                $0.denial = "access_denied"
            }
            let denied = try await visitor.authorize()
            expect(denied["error"] == "access_denied" && denied["code"] == nil && denied["state"] == "s1")
        }
    }

    @Test("a page with a link is between the request and the callback")
    func page() async throws {
        try await running { visitor, provider in
            provider.script { $0.asksUser = true }
            let query = visitor.parameters.map { "\($0.key)=\(ProviderVisitor.encode($0.value))" }
            let response = try await visitor.send(.GET, "/authorize?" + query.joined(separator: "&"))
            expect(response.status, equals: 200)
            expect(String(buffer: response.body).contains(#"<a id="continue" href="\#(visitor.redirectURI)?code="#))
        }
    }

    @Test("the user can change")
    func user() async throws {
        try await running { visitor, provider in
            provider.script {
                $0.subject = "mia"
                $0.claims = ["groups": "[]"]
            }
            let token = try DecodedToken(try await visitor.signIn().id_token ?? "")
            expect(token.claim("sub") == "mia" && token.claim("groups") == [String]())
            expect(token.claim("email", as: String.self), equals: nil)
        }
    }

    @Test("documents and token responses can have other members")
    func members() async throws {
        try await running { visitor, provider in
            provider.script {
                $0.discovery.set["issuer"] = #""https://other.example""#
                $0.tokenResponse = MemberEdit(set: ["token_type": #""mac""#], without: ["id_token"])
            }
            let document = try await visitor.send(.GET, "/.well-known/openid-configuration")
            expect(String(buffer: document.body).contains(#""issuer":"https://other.example""#))
            let tokens = try await visitor.signIn()
            expect(tokens.token_type == "mac" && tokens.id_token == nil)
        }
    }

    @Test("a fault applies to its endpoint, as often as configured, and takes no effect")
    func faults() async throws {
        try await running { visitor, provider in
            provider.script {
                $0.faults[.code] = [.error("server_error", status: 500, count: 1), .response(400, count: 1)]
            }
            let code = try await visitor.authorize()["code"] ?? ""
            let first = try await visitor.redeem(code)
            expect(first.status == 500 && String(buffer: first.body).contains("server_error"))
            let second = try await visitor.redeem(code)
            expect(second.status == 400 && second.body.readableBytes == 0)
            let tokens: ProviderTokens = try await visitor.redeem(code).decode()
            provider.script {
                $0.faults = [.all: [.response(503)], .refresh: [.error("invalid_grant")]]
            }
            try await expect(visitor.refresh(tokens.refresh_token).status, equals: 400)
            try await expect(visitor.send(.GET, "/jwks").status, equals: 503)
            provider.script { $0.faults = [:] }
            try await expect(visitor.refresh(tokens.refresh_token).status, equals: 200)
        }
    }

    @Test("a lost response to a code spends it; a closed connection before does not")
    func lostResponse() async throws {
        try await running { visitor, provider in
            provider.script { $0.faults[.code] = [.closed()] }
            let code = try await visitor.authorize()["code"] ?? ""
            await #expect(throws: (any Error).self) { try await visitor.redeem(code) }
            provider.script { $0.faults = [:] }
            try await expect(visitor.redeem(code).status, equals: 200)
            let other = try await visitor.authorize()["code"] ?? ""
            provider.script { $0.faults[.code] = [.closed(takesEffect: true)] }
            await #expect(throws: (any Error).self) { try await visitor.redeem(other) }
            provider.script { $0.faults = [:] }
            try await expect(visitor.redeem(other).status, equals: 400)
        }
    }

    @Test("an endpoint can be slow, and frozen")
    func slow() async throws {
        try await running { visitor, provider in
            var fault = EndpointFault.slow(seconds: 0.1, count: 1)
            fault.body = "0123456789"
            fault.fields = ["Cache-Control": "max-age=5"]
            provider.script { $0.faults[.keys] = [fault] }
            let time = try await ContinuousClock().measure {
                let response = try await visitor.send(.GET, "/jwks")
                expect(String(buffer: response.body), equals: "0123456789")
                expect(response.headers["Cache-Control"], equals: ["max-age=5"])
            }
            #expect(time >= .milliseconds(100))
            provider.script { $0.faults[.keys] = [.frozen()] }
            await #expect(throws: HTTPClientError.deadlineExceeded) {
                try await visitor.send(.GET, "/jwks", timeout: .milliseconds(300))
            }
            try await expect(visitor.send(.GET, "/.well-known/openid-configuration").status, equals: 200)
        }
    }

    @Test("a script from another process: omitted members have their defaults, and what follows uses it")
    func control() async throws {
        var settings = MockProviderSettings()
        settings.exposesControl = true
        try await running(settings) { visitor, provider in
            let script =
                #"{"subject":"mia","idToken":{"signature":"none"},"faults":{"keys":[{"status":503,"count":1}]}}"#
            let response = try await visitor.send(.PUT, "/__mock/script", body: script)
            expect(response.status, equals: 200)
            var expected = ProviderScript()
            expected.subject = "mia"
            expected.idToken.signature = .none
            expected.faults[.keys] = [.response(503, count: 1)]
            expected.faults[.keys]?[0].body = nil
            try expect(response.decode(ProviderScript.self), equals: expected)
            try await expect(visitor.send(.GET, "/jwks").status, equals: 503)
            let token = try DecodedToken(try await visitor.signIn().id_token ?? "")
            expect(token.header["alg"] == "none" && token.claim("sub") == "mia")
            let logins = try await visitor.send(.GET, "/__mock/logins").decode([[String: String]].self)
            expect(logins.map { $0["sub"] }, equals: ["mia"])
            try await expect(visitor.send(.POST, "/__mock/rotate?keep=false").status, equals: 204)
            try await expect(visitor.keys().map { $0["kid"] }, equals: ["key-2"])
            try await expect(visitor.send(.POST, "/__mock/rotate").status, equals: 204)
            try await expect(visitor.keys().map { $0["kid"] }, equals: ["key-3", "key-2"])
            try await expect(visitor.send(.PUT, "/__mock/script", body: "{").status, equals: 400)
        }
    }

    @Test("an access token can be that of another client; its signature stays valid")
    func otherClient() async throws {
        var settings = MockProviderSettings()
        settings.exposesControl = true
        try await running(settings) { visitor, _ async throws in
            let script = #"{"accessToken":{"claims":{"set":{"client_id":"\"other\""}}}}"#
            try await expect(visitor.send(.PUT, "/__mock/script", body: script).status, equals: 200)
            let text = try await visitor.signIn().access_token
            let token = try DecodedToken(text)
            expect(token.claim("client_id") == "other" && token.claim("sub") == "jo")
            try await expect(visitor.isSigned(text))
        }
    }

    @Test("without its setting there is no control")
    func noControl() async throws {
        try await running { visitor, _ async throws in
            for path in ["/__mock/script", "/__mock/logins", "/__mock/requests"] {
                try await expect(visitor.send(.GET, path).status, equals: 404)
            }
            try await expect(visitor.send(.PUT, "/__mock/script", body: "{}").status, equals: 404)
        }
    }
}
