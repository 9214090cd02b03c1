import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("An upstream's response to a sign-in")
struct TokenResponseTests {
    private let now = Upstreams.now
    private let configuration = IdentityEndpointConfiguration(path: "/auth")

    private func read(_ text: String, _ configuration: IdentityEndpointConfiguration? = nil) -> TokenSet? {
        TokenResponse.read(Array(text.utf8), configuration: configuration ?? self.configuration, now: now)
    }

    @Test("returns the tokens")
    func tokens() {
        let tokens = read(#"{"accessToken":"abc.def","refreshToken":"r-1"}"#)
        expect(
            tokens,
            equals: TokenSet(
                authorization: Secret("Bearer abc.def"), refreshToken: Secret("r-1"), obtainedAt: now))
    }

    @Test("of the older dialect has no refresh token", arguments: ["", #","refreshToken":null"#])
    func olderDialect(rest: String) {
        let tokens = read(#"{"accessToken":"abc"\#(rest)}"#)
        expect(tokens, equals: TokenSet(authorization: Secret("Bearer abc"), obtainedAt: now))
    }

    @Test("of a token endpoint has OAuth's members, and Bearer as its type in any case: RFC 6749 §5.1")
    func oauth() {
        let configuration = IdentityEndpointConfiguration(path: "/token", credentials: .oauth)
        for type in ["Bearer", "bearer", "BEARER"] {
            let tokens = read(
                #"{"access_token":"a","token_type":"\#(type)","expires_in":300,"refresh_token":"r"}"#, configuration)
            expect(
                tokens,
                equals: TokenSet(
                    authorization: Secret("Bearer a"), refreshToken: Secret("r"),
                    accessTokenExpiresAt: now + .seconds(300), obtainedAt: now))
        }
        for type in [
            "", #","token_type":"DPoP""#, #","token_type":"mac""#, #","token_type":7"#, #","token_type":null"#,
            #","token_type":"bearer ""#, #","token_type":"\u0042\u0045ARE""#,
        ] {
            expect(read(#"{"access_token":"a"\#(type)}"#, configuration), equals: nil, "\(type)")
        }
        expect(read(#"{"accessToken":"a","token_type":"bearer"}"#, configuration), equals: nil)
    }

    @Test("returns the tokens from their configured members")
    func dottedPaths() {
        let configuration = IdentityEndpointConfiguration(
            path: "/token", accessToken: "data.tokens.access", refreshToken: "data.tokens.refresh",
            expiresIn: "data.expires_in")
        let tokens = read(#"{"data":{"tokens":{"access":"a","refresh":"r"},"expires_in":300}}"#, configuration)
        expect(
            tokens,
            equals: TokenSet(
                authorization: Secret("Bearer a"), refreshToken: Secret("r"),
                accessTokenExpiresAt: now + .seconds(300),
                obtainedAt: now))
    }

    @Test(
        "is invalid without an access token that is a string",
        arguments: [
            "", "ok", "[]", "{}", #"{"accessToken":""}"#, #"{"accessToken":7}"#, #"{"accessToken":null}"#,
            #"{"accessToken":["a"]}"#, #"{"access_token":"a"}"#, #"{"accessToken":"a","refreshToken":7}"#,
            #"{"accessToken":"a","refreshToken":""}"#,
        ])
    func nonsense(text: String) {
        expect(read(text), equals: nil)
    }

    @Test(
        "Rule 26: is invalid if a token contains line breaks, NUL, spaces or other than ASCII",
        arguments: [
            #"a\r\nX-Admin: 1"#, #"a\nb"#, #"a\u0000b"#, "a b", " a", #"a\tb"#, "é", #"a\u007f"#, #"\u2028"#,
        ])
    func injection(token: String) {
        expect(read(#"{"accessToken":"\#(token)"}"#), equals: nil)
        expect(read(#"{"accessToken":"a","refreshToken":"\#(token)"}"#), equals: nil)
    }

    @Test("is invalid with a token that is longer than 16 KiB")
    func length() {
        expect(read(#"{"accessToken":"\#(String(repeating: "a", count: 16_384))"}"#) != nil)
        expect(read(#"{"accessToken":"\#(String(repeating: "a", count: 16_385))"}"#), equals: nil)
    }

    @Test("uses the token's exp if the configured lifetime is missing")
    func missingLifetime() {
        let configuration = IdentityEndpointConfiguration(path: "/token", expiresIn: "expiresIn")
        // {"alg":"none"} . {"exp":1700000060}
        let tokens = read(#"{"accessToken":"eyJhbGciOiJub25lIn0.eyJleHAiOjE3MDAwMDAwNjB9."}"#, configuration)
        expect(tokens?.accessTokenExpiresAt, equals: now + .seconds(60))
    }
}
