import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

@Suite("A response that rejects an identity request")
struct RejectedCallTests {
    private func kind(_ status: Int, _ body: String = "", rejected: Set<Int>) -> TokenClientError.Kind {
        RejectedCall.kind(status: status, body: Array(body.utf8), rules: RejectedCall.Rules(statuses: rejected))
    }

    @Test(
        "is classified by its status if it has no OAuth error code",
        arguments: [
            "", "{}", "[]", "<html>", #"{"error":7}"#, #"{"error":"Wrong password"}"#,
            #"{"error":{"code":"invalid_grant"}}"#,
            #"{"errors":["invalid_client"]}"#, #"{"error":"invalid_grant","error":"invalid_client"}"#,
            #"{"error":"\#(String(repeating: "invalid_client", count: 100))"}"#, String(repeating: "[", count: 8_000),
        ])
    func byStatus(body: String) {
        for status in 400...499 {
            let expected: TokenClientError.Kind =
                switch status {
                case 403: .misconfigured(.forbidden)
                case 404: .misconfigured(.notFound)
                case 408, 425, 429: .busy
                default: .misconfigured(.requestRejected)
                }
            expect(kind(status, body, rejected: []), equals: expected, "\(status)")
            expect(kind(status, body, rejected: [status]), equals: .rejected, "\(status)")
            expect(kind(status, body, rejected: Set(400...499).subtracting([status])), equals: expected, "\(status)")
        }
    }

    @Test("Rule 36: rejects the credential with the OAuth code invalid_grant and any 4xx status")
    func invalidGrant() {
        for status in [400, 401, 403, 404, 422] {
            expect(kind(status, #"{"error":"invalid_grant","error_description":"x"}"#, rejected: []), equals: .rejected)
            expect(kind(status, #"{"error":"invalid\u005fgrant"}"#, rejected: []), equals: .rejected)
        }
    }

    @Test(
        "Rule 36: never rejects the credential with an OAuth code about the gateway, with any status",
        arguments: [
            ("invalid_client", .invalidClient), ("unauthorized_client", .unauthorizedClient),
            ("unsupported_grant_type", .unsupportedGrantType), ("invalid_scope", .invalidScope),
            ("invalid_request", .invalidRequest),
        ] as [(String, IdentityMisconfiguration)])
    func misconfigured(code: String, reason: IdentityMisconfiguration) {
        for status in [400, 401, 403, 404, 422, 429] {
            let body = #"{"error":"\#(code)"}"#
            expect(kind(status, body, rejected: Set(400...499)), equals: .misconfigured(reason))
        }
    }

    @Test(
        "has codes of its own that no body can select", arguments: ["not_found", "forbidden", "request_refused"])
    func ownReasons(code: String) {
        expect(kind(401, #"{"error":"\#(code)"}"#, rejected: [401]), equals: .rejected)
    }

    @Test("is an upstream failure with 5xx, and invalid with any other status")
    func otherClasses() {
        for status in [500, 502, 503, 599] {
            expect(
                kind(status, #"{"error":"invalid_grant"}"#, rejected: RejectedCall.signInStatuses), equals: .unreachable
            )
        }
        for status in [100, 301, 302, 399] {
            expect(kind(status, rejected: RejectedCall.signInStatuses), equals: .invalidResponse)
        }
    }

    @Test("rejects a password by default with 400, 401, 403 and 422, and a refresh token with 401")
    func defaults() {
        expect(RejectedCall.signInStatuses, equals: [400, 401, 403, 422])
        expect(RejectedCall.refreshStatuses, equals: [401])
    }

    // MARK: - Calls with other rules

    private func kind(
        _ status: Int, _ body: String = "", of call: TokenClientError.Operation = .refresh, isWhole: Bool = true,
        _ configuration: IdentityEndpointConfiguration
    ) -> TokenClientError.Kind {
        RejectedCall.kind(
            status: status, body: Array(body.utf8), isWhole: isWhole,
            rules: RejectedCall.Rules(configuration, of: call))
    }

    private static let oauth = IdentityEndpointConfiguration(path: "/token", credentials: .oauth)

    @Test("Rule 36: with OAuth a wrong client secret ends nothing, with any status and any list of codes")
    func wrongClientSecretEndsNothing() {
        for endsOn in [nil, ["invalid_grant"], ["invalid_grant", "any400"], ["any400"]] as [Set<String>?] {
            var configuration = Self.oauth
            configuration.endsOn = endsOn
            for code in ["invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_scope"] {
                for status in [400, 401, 403] {
                    expect(
                        kind(status, #"{"error":"\#(code)"}"#, configuration),
                        equals: .misconfigured(IdentityMisconfiguration(oauthCode: code) ?? .notFound))
                }
            }
        }
    }

    @Test(
        "Rule 36: with OAuth no response without a listed code ends a session",
        arguments: [
            "", "{}", "<html>", #"{"error":7}"#, #"{"error":"slow_down"}"#, #"{"error":["invalid_grant"]}"#,
            #"{"error":"invalid_grant","error":"invalid_grant"}"#, #"{"Error":"invalid_grant"}"#,
            #"{"error":"INVALID_GRANT"}"#, #"{"error":"any400"}"#, #"{"error":"invalid_grant""#,
        ])
    func oauthWithoutCode(body: String) {
        for status in 400...499 {
            let kind = kind(status, body, Self.oauth)
            expect(kind != .rejected, "\(status)")
        }
        expect(kind(400, body, Self.oauth), equals: .misconfigured(.requestRejected))
        expect(kind(401, body, Self.oauth), equals: .misconfigured(.requestRejected))
    }

    @Test("with OAuth a listed code ends a session with 400 and 401 only")
    func oauthCode() {
        for status in 400...499 {
            let isEnd = kind(status, #"{"error":"invalid_grant"}"#, Self.oauth) == .rejected
            expect(isEnd, equals: [400, 401].contains(status), "\(status)")
        }
        var configuration = Self.oauth
        configuration.endsOn = ["invalid_request", "token_expired"]
        expect(kind(400, #"{"error":"invalid_request"}"#, configuration), equals: .rejected)
        expect(kind(401, #"{"error":"token_expired"}"#, configuration), equals: .rejected)
        expect(kind(400, #"{"error":"invalid_grant"}"#, configuration), equals: .misconfigured(.requestRejected))
        expect(kind(503, #"{"error":"token_expired"}"#, configuration), equals: .unreachable)
        expect(kind(302, #"{"error":"token_expired"}"#, configuration), equals: .invalidResponse)
    }

    @Test("any400 ends a session with a complete 400 or 401 that names no fault of the gateway")
    func any400() {
        var configuration = Self.oauth
        configuration.endsOn = ["any400"]
        for status in [400, 401] {
            expect(kind(status, "", configuration), equals: .rejected)
            expect(kind(status, #"{"error":"whatever"}"#, configuration), equals: .rejected)
            expect(kind(status, "", isWhole: false, configuration), equals: .invalidResponse)
        }
        expect(kind(403, "", configuration), equals: .misconfigured(.forbidden))
        expect(kind(403, #"{"error":"any400"}"#, configuration), equals: .misconfigured(.forbidden))
        expect(kind(429, "", configuration), equals: .busy)
    }

    @Test("an incomplete error of a token endpoint rejects nothing")
    func incomplete() {
        for call in [TokenClientError.Operation.signIn, .refresh] {
            expect(kind(400, "", of: call, isWhole: false, Self.oauth), equals: .invalidResponse)
        }
        expect(
            kind(401, "", of: .refresh, isWhole: false, IdentityEndpointConfiguration(path: "/")),
            equals: .invalidResponse)
    }

    @Test("with OAuth a sign-in is rejected by invalid_grant, and by a status only if it is listed")
    func oauthSignIn() {
        expect(kind(400, #"{"error":"invalid_grant"}"#, of: .signIn, Self.oauth), equals: .rejected)
        expect(kind(403, #"{"error":"invalid_grant"}"#, of: .signIn, Self.oauth), equals: .rejected)
        expect(
            kind(401, #"{"error":"invalid_client"}"#, of: .signIn, Self.oauth), equals: .misconfigured(.invalidClient))
        expect(kind(403, "", of: .signIn, Self.oauth), equals: .misconfigured(.forbidden))
        var configuration = Self.oauth
        configuration.rejectedStatuses = [403]
        expect(kind(403, "", of: .signIn, configuration), equals: .rejected)
    }

    @Test("an error code is read at its configured path")
    func codePath() {
        let configuration = IdentityEndpointConfiguration(
            path: "/", errorCode: "status.code", rejectedStatuses: [499], endsOn: ["expired"])
        expect(kind(418, #"{"status":{"code":"expired"}}"#, configuration), equals: .rejected)
        expect(kind(418, #"{"error":"expired"}"#, configuration), equals: .misconfigured(.requestRejected))
    }

    @Test("a 2xx response without its sign of success rejects a password, but ends a session by its code only")
    func unsuccessful() {
        let configuration = IdentityEndpointConfiguration(
            path: "/", success: .init(path: "ok"), errorCode: "code", endsOn: ["expired"])
        func kind(_ body: String, _ call: TokenClientError.Operation) -> TokenClientError.Kind {
            RejectedCall.kind(
                unsuccessful: Array(body.utf8), rules: RejectedCall.Rules(configuration, of: call))
        }
        expect(kind(#"{"ok":false,"code":"wrong"}"#, .signIn), equals: .rejected)
        expect(kind(#"{"ok":false,"code":"invalid_client"}"#, .signIn), equals: .misconfigured(.invalidClient))
        expect(kind(#"{"ok":false,"code":"expired"}"#, .refresh), equals: .rejected)
        expect(kind(#"{"ok":false,"code":"invalid_client"}"#, .refresh), equals: .misconfigured(.invalidClient))
        for body in ["", "<html>", "{}", #"{"ok":false,"code":"other"}"#, #"{"ok":false}"#] {
            expect(kind(body, .refresh), equals: .misconfigured(.requestRejected))
        }
        for page in ["<!doctype html>", "\r\n <html>"] { expect(kind(page, .signIn), equals: .invalidResponse) }
        for body in ["", "{}", "wrong"] { expect(kind(body, .signIn), equals: .rejected) }
        // A code in the user's data ends no session either.
        expect(kind(#"{"ok":false,"code":"invalid_grant"}"#, .user), equals: .misconfigured(.requestRejected))
    }

    @Test("the sign of success is a text, a Boolean or a number at its path")
    func success() {
        func accepts(_ body: String, _ path: String, _ value: String) -> Bool {
            IdentityEndpointConfiguration.SuccessMember(path: path, value: value).accepts(body: Array(body.utf8))
        }
        expect(accepts(#"{"ok":true}"#, "ok", "true"))
        expect(accepts(#"{"ok":"true"}"#, "ok", "true"))
        expect(accepts(#"{"a":{"status":"success"}}"#, "a.status", "success"))
        expect(accepts(#"{"code":0}"#, "code", "0"))
        for body in [
            "", "{}", "[]", #"{"ok":false}"#, #"{"ok":null}"#, #"{"ok":[true]}"#, #"{"ok":1}"#, #"{"OK":true}"#,
        ] {
            expect(!accepts(body, "ok", "true"), "\(body)")
        }
    }
}
