import Foundation

@testable import MockAPI

/// A deviation of a provider, and the response of the gateway to the callback that follows.
struct LoginForgery: Sendable {
    let name: String
    /// The code of the problem; `nil` if the login succeeds.
    let code: String?
    let change: @Sendable (inout ProviderScript) -> Void

    init(_ name: String, code: String? = "login_failed", _ change: @escaping @Sendable (inout ProviderScript) -> Void) {
        self.name = name
        self.code = code
        self.change = change
    }

    /// The status of the problems of logins.
    var status: Int {
        switch code {
        case "bad_request", "login_expired": 400
        case "login_refused": 403
        case "identity_unavailable": 503
        case "login_failed", "identity_misconfigured": 502
        default: 200
        }
    }

    /// A change of one claim of the ID token.
    private static func claim(_ name: String, _ value: String, code: String? = "login_failed") -> LoginForgery {
        LoginForgery("\(name) is \(value.prefix(40))", code: code) { $0.idToken.claims.set[name] = value }
    }

    private static func without(_ name: String, code: String? = "login_failed") -> LoginForgery {
        LoginForgery("\(name) is missing", code: code) { $0.idToken.claims.without = [name] }
    }

    private static func time(_ name: String, _ offset: Double, code: String? = "login_failed") -> LoginForgery {
        LoginForgery("\(name) is \(offset) s from now", code: code) { $0.idToken.times[name] = offset }
    }

    private static func header(_ name: String, _ value: String, code: String? = "login_failed") -> LoginForgery {
        LoginForgery("header \(name) is \(value)", code: code) { $0.idToken.header.set[name] = value }
    }

    private static func response(_ name: String, code: String, _ fault: EndpointFault) -> LoginForgery {
        LoginForgery("token endpoint: \(name)", code: code) { $0.faults[.code] = [fault] }
    }

    private static func callback(_ name: String, code: String, _ edit: MemberEdit) -> LoginForgery {
        LoginForgery("callback: \(name)", code: code) { $0.callback = edit }
    }

    // MARK: - Tables

    /// Signatures and forms of the ID token.
    static let signatures: [LoginForgery] =
        TokenForgery.Signature.allCases.filter { $0 != .valid && $0 != .retiredKey }.map { signature in
            LoginForgery("signature: \(signature.rawValue)") {
                $0.idToken.signature = signature
                $0.keySet.hasWeakKey = true
            }
        } + [
            header("alg", #""RS256""#), header("alg", #""none""#), header("alg", #""HS256""#), header("alg", "1"),
            header("kid", "1"), header("crit", #"["exp"]"#), header("b64", "false"), header("zip", #""DEF""#),
            header("typ", #""at+jwt""#), header("typ", #""logout+jwt""#),
            LoginForgery("header: alg twice") { $0.idToken.header.extra = #""alg":"ES256""# },
            LoginForgery("header: not JSON") { $0.idToken.header.extra = "x" },
            LoginForgery("claims: sub twice") { $0.idToken.claims.extra = #""sub":"mia""# },
            LoginForgery("claims: not JSON") { $0.idToken.claims.extra = "x" },
            LoginForgery("17 KiB") { $0.idToken.minimumLength = 17_408 },
            LoginForgery("empty") { $0.idToken.replacement = "" },
            LoginForgery("no token") { $0.idToken.replacement = "eyJ.eyJ.x" },
            LoginForgery("padding in the encoding") { $0.idToken.replacement = "e30=.e30=.AA==" },
        ]

    /// Claims of the ID token.
    static let claims: [LoginForgery] = [
        claim("iss", #""https://other.example""#), claim("iss", "1"), without("iss"),
        claim("aud", #""other""#), claim("aud", "[]"), claim("aud", #"["cloakroom","other"]"#), without("aud"),
        claim("azp", #""other""#), claim("azp", "[]"),
        claim("nonce", #""other""#), claim("nonce", "null"), without("nonce"),
        time("exp", -3_600), claim("exp", #""tomorrow""#), claim("exp", "1e400"), claim("exp", "-1"), without("exp"),
        time("iat", 3_600), time("iat", -3_600), claim("iat", #""now""#), without("iat"), time("nbf", 3_600),
        claim("at_hash", #""AAAAAAAAAAAAAAAAAAAAAA""#), claim("at_hash", "[]"),
        claim("sub", #""""#), claim("sub", "1"), claim("sub", #""a b""#), claim("sub", #""\u00e9""#),
        claim("sub", "\"\(String(repeating: "s", count: 256))\""), without("sub"),
        claim("auth_time", #""yesterday""#), time("auth_time", 3_600), claim("acr", "[]"), claim("sid", "1"),
        claim("sid", "\"\(String(repeating: "s", count: 1_025))\""),
        claim("events", #"{"http://schemas.openid.net/event/backchannel-logout":{}}"#),
        claim("groups", "\"\(String(repeating: "g", count: 5_000))\""),
    ]

    /// Responses of the token endpoint.
    static let responses: [LoginForgery] = [
        LoginForgery("no ID token") { $0.tokenResponse.without = ["id_token"] },
        LoginForgery("no access token") { $0.tokenResponse.without = ["access_token"] },
        LoginForgery("token_type is mac") { $0.tokenResponse.set["token_type"] = #""mac""# },
        LoginForgery("the ID token is a number") { $0.tokenResponse.set["id_token"] = "1" },
        LoginForgery("the access token twice") { $0.tokenResponse.extra = #""access_token":"other""# },
        response("not JSON", code: "login_failed", .response(200, "<html>description of the provider</html>")),
        response("empty", code: "login_failed", .response(200)),
        response("an array", code: "login_failed", .response(200, "[]")),
        response("1 MiB", code: "login_failed", .response(200, #"{"x":"\#(String(repeating: "x", count: 1 << 20))"}"#)),
        response("a redirect", code: "login_failed", redirect),
        response("invalid_grant", code: "login_failed", .error("invalid_grant")),
        response("invalid_client", code: "identity_misconfigured", .error("invalid_client", status: 401)),
        response("unauthorized_client", code: "identity_misconfigured", .error("unauthorized_client")),
        response("empty 400", code: "identity_misconfigured", .response(400)),
        response("500", code: "identity_unavailable", .error("server_error", status: 500)),
        response("a closed connection", code: "identity_unavailable", .closed()),
        response("a lost response", code: "identity_unavailable", .closed(takesEffect: true)),
        response("no response", code: "identity_unavailable", .frozen()),
    ]

    /// Callbacks, which any page can forge too.
    static let callbacks: [LoginForgery] = [
        callback("no iss", code: "login_failed", MemberEdit(without: ["iss"])),
        callback("iss of another provider", code: "login_failed", MemberEdit(set: ["iss": "https://other.example"])),
        callback("the code twice", code: "bad_request", MemberEdit(extra: "code=other")),
        callback("code and error", code: "bad_request", MemberEdit(set: ["error": "access_denied"])),
        callback("neither code nor error", code: "bad_request", MemberEdit(without: ["code"])),
        callback(
            "a code of 3 KiB", code: "bad_request", MemberEdit(set: ["code": String(repeating: "c", count: 3_072)])),
        callback("a code with a line break", code: "bad_request", MemberEdit(set: ["code": "a\nb"])),
        callback("no state", code: "bad_request", MemberEdit(without: ["state"])),
        callback(
            "an unknown state", code: "login_expired", MemberEdit(set: ["state": String(repeating: "A", count: 43)])),
        callback("a guessed code", code: "login_failed", MemberEdit(set: ["code": "guessed"])),
        LoginForgery("denied", code: "login_refused") { $0.denial = "access_denied" },
        LoginForgery("login_required", code: "login_refused") { $0.denial = "login_required" },
        LoginForgery("server_error", code: "identity_unavailable") { $0.denial = "server_error" },
        LoginForgery("an unknown error", code: "login_failed") { $0.denial = "sentence of the provider" },
    ]

    /// What real providers do, and what is valid.
    static let permitted: [LoginForgery] = [
        LoginForgery("nothing", code: nil) { _ in },
        claim("aud", #"["cloakroom"]"#, code: nil), claim("azp", #""cloakroom""#, code: nil),
        LoginForgery("two audiences, authorized party", code: nil) {
            $0.idToken.claims.set = ["aud": #"["cloakroom","other"]"#, "azp": #""cloakroom""#]
        },
        claim("auth_time", "0", code: nil), time("auth_time", -0.5, code: nil), without("auth_time", code: nil),
        without("at_hash", code: nil), without("sid", code: nil), without("email", code: nil),
        time("nbf", -5, code: nil),
        header("typ", #""jwt""#, code: nil), header("jku", #""https://other.example""#, code: nil),
        LoginForgery("header without typ and kid", code: nil) { $0.idToken.header.without = ["typ", "kid"] },
        LoginForgery("token_type is bearer", code: nil) { $0.tokenResponse.set["token_type"] = #""bearer""# },
        LoginForgery("no refresh token", code: nil) { $0.tokenResponse.without = ["refresh_token"] },
        LoginForgery("further members", code: nil) { $0.tokenResponse.set["x"] = #"{"y":[null]}"# },
        callback("further parameters", code: "", MemberEdit(set: ["session_state": "x", "client_id": "y"])).succeeding,
        response("late", code: "", .slow(seconds: 0.2)).succeeding,
    ]

    private var succeeding: LoginForgery { LoginForgery(name, code: nil, change) }

    private static var redirect: EndpointFault {
        var fault = EndpointFault.response(307)
        fault.fields = ["Location": "https://other.example/token"]
        return fault
    }
}
