import CloakroomCore
import CloakroomWire
import TestSupport
import Testing

@Suite("The challenge for another authentication")
struct StepUpChallengeTests {
    private func isPresent(_ lines: String...) throws -> Bool {
        StepUpChallenge.isPresent(in: try ResponseHead.with(lines.joined(separator: "\r\n")))
    }

    @Test(
        "RFC 9470 §3: the error code is recognized in each form of a parameter",
        arguments: [
            #"Bearer error="insufficient_user_authentication""#,
            #"Bearer error="insufficient_user_authentication", error_description="x", acr_values="myACR""#,
            "Bearer realm=a, error=insufficient_user_authentication",
            #"Bearer realm="a \" b",ERROR = "insufficient_user_authentication""#,
            #"Basic realm="x", DPoP algs="ES256", error="insufficient_user_authentication""#,
            #"Negotiate abc==, Bearer max_age="5", error="insufficient_user_authentication""#,
        ])
    func recognized(value: String) throws {
        try expect(isPresent("A: b", "www-Authenticate: \(value)"))
        try expect(isPresent("WWW-Authenticate: Basic", "WWW-Authenticate: \(value)"))
    }

    @Test(
        "Another error, another parameter and a quotation are not that challenge",
        arguments: [
            "Bearer", "", "Bearer error", "Bearer error=", #"Bearer error=""#, #"Bearer error="invalid_token""#,
            #"Bearer error_description="insufficient_user_authentication""#,
            #"Bearer error="Insufficient_User_Authentication""#,
            #"Bearer realm="error=\"insufficient_user_authentication\"""#,
            #"Bearer realm="error=insufficient_user_authentication""#,
            #"Bearer error="insufficient_user_authentication_x""#, #"Bearer error="insufficient_user_authentication"#,
            #"Bearer error="insufficient_user_authentication\"#,
        ])
    func notRecognized(value: String) throws {
        try expect(!isPresent("WWW-Authenticate: \(value)"))
        try expect(!isPresent(#"X-Authenticate: Bearer error="insufficient_user_authentication""#))
    }
}
