import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("The authorization request")
struct AuthorizationRequestTests {
    private let secrets = LoginFixture.secrets(1)

    private func request(
        extra: [(name: String, value: String)] = [], stepUp: AuthorizationRequest.StepUp? = nil
    ) -> AuthorizationRequest {
        AuthorizationRequest(
            secrets, clientID: "cloak room", redirectURI: "https://app.example.com/auth/callback",
            scopes: ["openid", "email"], extra: extra, stepUp: stepUp)
    }

    private func fields(_ request: AuthorizationRequest) throws -> [JSONMemberName: String] {
        try require(FormURLEncodedBody.read(Array(FormEncoding.encode(request.parameters).utf8)))
    }

    @Test("Identity rule 1: always has a code challenge with S256, a state and a nonce, and never the verifier")
    func secretsAreSent() throws {
        let request = request()
        let fields = try fields(request)
        expect(fields["response_type"], equals: "code")
        expect(fields["client_id"], equals: "cloak room")
        expect(fields["scope"], equals: "openid email")
        expect(fields["redirect_uri"], equals: "https://app.example.com/auth/callback")
        expect(fields["code_challenge_method"], equals: "S256")
        expect(fields["code_challenge"], equals: secrets.challenge)
        expect(fields["state"], equals: Base64URL.encode(secrets.state))
        expect(fields["nonce"], equals: Base64URL.encode(secrets.nonce))
        expect(fields.count, equals: 8)
        expect(!FormEncoding.encode(request.parameters).contains(Base64URL.encode(secrets.verifier)))
    }

    @Test("Configured parameters are added and cannot replace one of the gateway")
    func extraParameters() throws {
        let own = IdentityConfiguration.Parameter.ownNames.sorted().map { (name: $0, value: "evil") }
        let fields = try fields(request(extra: [(name: "prompt", value: "consent")] + own))
        expect(fields["prompt"], equals: "consent")
        expect(!fields.values.contains("evil"))
    }

    @Test("Identity rule 24: a step-up asks for its contexts and age, and never for max_age=0")
    func stepUp() throws {
        let asked = try fields(request(stepUp: .init(acr: ["urn:a", "urn:b"], maxAge: .seconds(600))))
        expect(asked["acr_values"], equals: "urn:a urn:b")
        expect(asked["max_age"], equals: "600")
        expect(asked["prompt"], equals: nil)
        let consent: [(name: String, value: String)] = [(name: "prompt", value: "consent")]
        for age in [Duration.zero, .milliseconds(999)] {
            let fresh = try fields(request(extra: consent, stepUp: .init(maxAge: age)))
            expect(fresh["max_age"], equals: nil)
            expect(fresh["prompt"], equals: "login")
        }
    }

    @Test(
        "keeps the query of the endpoint",
        arguments: [
            ("https://id.example.com/authorize", "https://id.example.com/authorize?response_type=code&"),
            ("https://id.example.com/a?tenant=x", "https://id.example.com/a?tenant=x&response_type=code&"),
            ("https://id.example.com/a?", "https://id.example.com/a?response_type=code&"),
        ])
    func url(endpoint: String, start: String) throws {
        let url = request().url(at: try require(EndpointURL(endpoint)))
        expect(url.hasPrefix(start))
        expect(url.utf8.allSatisfy { (0x21...0x7e).contains($0) })
    }

    @Test("RFC 9126: a pushed request is named by its reference, and nothing else is in the URL")
    func pushed() throws {
        let endpoint = try require(EndpointURL("https://id.example.com/authorize"))
        let response = try require(
            PushedResponse(Array(#"{"request_uri":"urn:ietf:params:oauth:request_uri:a&b","expires_in":60}"#.utf8)))
        expect(
            request().url(at: endpoint, requestURI: response.requestURI),
            equals: "https://id.example.com/authorize?client_id=cloak+room"
                + "&request_uri=urn%3Aietf%3Aparams%3Aoauth%3Arequest_uri%3Aa%26b")
    }

    @Test(
        "A response to a pushed request without a valid reference is rejected",
        arguments: [
            "", "{}", "[]", #"{"request_uri":"","expires_in":1}"#, #"{"request_uri":"a b","expires_in":1}"#,
            #"{"request_uri":"a","expires_in":0}"#, #"{"request_uri":"a"}"#, #"{"request_uri":1,"expires_in":1}"#,
            #"{"request_uri":"a","request_uri":"b","expires_in":1}"#,
        ])
    func badPushedResponse(body: String) {
        expect(PushedResponse(Array(body.utf8)), equals: nil)
    }

    @Test("RFC 9700 §4.4.2.2: several identities have different redirect URIs")
    func redirectURIs() {
        func uri(_ name: String, isOnly: Bool) -> String {
            AuthorizationRequest.redirectURI(
                publicURL: "https://app.example.com", prefix: "/auth", identity: name, isOnly: isOnly)
        }
        expect(uri("a", isOnly: true), equals: "https://app.example.com/auth/callback")
        expect(uri("a", isOnly: false), equals: "https://app.example.com/auth/callback/a")
        expect(uri("a", isOnly: false) != uri("b", isOnly: false))
    }

    @Test("RFC 6749 §4.1.3, RFC 7636 §4.5: the code is sent with the same redirect URI and the verifier")
    func codeExchange() throws {
        let login = LoginFixture.login(secrets)
        let form = CodeExchange.form(
            code: Secret("a/b+c"), login: login, redirectURI: "https://app.example.com/auth/callback")
        let fields = try require(FormURLEncodedBody.read(Array(FormEncoding.encode(form).utf8)))
        expect(fields["grant_type"], equals: "authorization_code")
        expect(fields["code"], equals: "a/b+c")
        expect(fields["redirect_uri"], equals: "https://app.example.com/auth/callback")
        expect(fields["code_verifier"], equals: Base64URL.encode(secrets.verifier))
        expect(fields.count, equals: 4)
    }

    @Test("Identity rule 7: sending again makes a new assertion, with one audience and a life of 60 s")
    func resendMakesANewAssertion() throws {
        var generator = CountingGenerator(state: 1)
        func claims() throws -> JSONValue {
            let assertion = ClientAssertion(
                clientID: "cl\"oak", audience: "https://id.example.com", now: LoginFixture.now, using: &generator)
            return try require(JSONValue(document: Array(assertion.claims.utf8)))
        }
        let (first, second) = (try claims(), try claims())
        expect(first[path: "iss"], equals: .string("cl\"oak"))
        expect(first[path: "sub"], equals: first[path: "iss"])
        expect(first[path: "aud"], equals: .string("https://id.example.com"))
        expect(first[path: "iat"], equals: .number(1_800_000_000))
        expect(first[path: "exp"], equals: .number(1_800_000_060))
        expect(first[path: "jti"] != second[path: "jti"])
    }

    @Test("A form has one encoding for every text, and its decoding is the text")
    func formEncoding() throws {
        expect(FormEncoding.encode("a b&c=d+e/ä~*-._%"), equals: "a+b%26c%3Dd%2Be%2F%C3%A4%7E*-._%25")
        for text in ["", "a", " +%&=\r\n\u{0}ä🔑\"'<>"] {
            let body = Array(FormEncoding.encode([(name: "x", value: text)]).utf8)
            expect(FormURLEncodedBody.read(body), equals: ["x": text])
        }
    }
}
