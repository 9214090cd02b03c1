import CloakroomCore
import Testing

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
            #expect(kind(status, body, rejected: []) == expected, "\(status)")
            #expect(kind(status, body, rejected: [status]) == .rejected, "\(status)")
            #expect(kind(status, body, rejected: Set(400...499).subtracting([status])) == expected, "\(status)")
        }
    }

    @Test("Rule 36: rejects the credential with the OAuth code invalid_grant and any 4xx status")
    func invalidGrant() {
        for status in [400, 401, 403, 404, 422] {
            #expect(kind(status, #"{"error":"invalid_grant","error_description":"x"}"#, rejected: []) == .rejected)
            #expect(kind(status, #"{"error":"invalid\u005fgrant"}"#, rejected: []) == .rejected)
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
            #expect(kind(status, body, rejected: Set(400...499)) == .misconfigured(reason))
        }
    }

    @Test(
        "has codes of its own that no body can select", arguments: ["not_found", "forbidden", "request_refused"])
    func ownReasons(code: String) {
        #expect(kind(401, #"{"error":"\#(code)"}"#, rejected: [401]) == .rejected)
    }

    @Test("is an upstream failure with 5xx, and invalid with any other status")
    func otherClasses() {
        for status in [500, 502, 503, 599] {
            #expect(kind(status, #"{"error":"invalid_grant"}"#, rejected: RejectedCall.signInStatuses) == .unreachable)
        }
        for status in [100, 301, 302, 399] {
            #expect(kind(status, rejected: RejectedCall.signInStatuses) == .invalidResponse)
        }
    }

    @Test("rejects a password by default with 400, 401, 403 and 422, and a refresh token with 401")
    func defaults() {
        #expect(RejectedCall.signInStatuses == [400, 401, 403, 422])
        #expect(RejectedCall.refreshStatuses == [401])
    }
}
