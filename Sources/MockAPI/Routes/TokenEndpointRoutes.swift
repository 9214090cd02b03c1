import NIOCore
import NIOHTTP1

/// Two more dialects of the same accounts and tokens.
///
/// - `/oauth/token` and `/oauth/revoke`: forms with the parameters of OAuth 2.0, for the grants `password` and
///   `refresh_token` (RFC 6749 §4.3, §6; RFC 7009). The client authenticates in the body or with `Authorization: Basic`.
/// - `/login` and `/login/again`: forms with the members `username`, `secret`, `realm=main` and `token`. Every response
///   is 200, with `{"ok": false, "code": …}` for an error.
struct TokenEndpointRoutes {
    let issuer: TokenIssuer
    let client: MockClient
    let lifetime: Duration

    var routes: RouteTable {
        [
            "POST /oauth/token": { try token(try await TokenForm($0), $0) },
            "POST /oauth/revoke": { revoke(try await TokenForm($0), $0) },
            "POST /login": { try login(try await TokenForm($0)) },
            "POST /login/again": { try loginAgain(try await TokenForm($0)) },
        ]
    }

    // MARK: - OAuth

    private func token(_ form: TokenForm?, _ request: MockRequest) throws -> MockResponse {
        guard let form else { return Self.oauthError("invalid_request") }
        guard client.isAuthenticated(request.fields, form) else { return Self.unknownClient }
        switch form["grant_type"] {
        case "password":
            guard let name = form["username"], let password = form["password"] else { break }
            return try oauthTokens(issuer.signIn(BasicCredentials(email: name, password: password)))
        case "refresh_token":
            guard let presented = form["refresh_token"] else { break }
            return try oauthTokens(issuer.refresh(presented))
        case nil: break
        default: return Self.oauthError("unsupported_grant_type")
        }
        return Self.oauthError("invalid_request")
    }

    /// An unknown token is no error (RFC 7009 §2.2).
    private func revoke(_ form: TokenForm?, _ request: MockRequest) -> MockResponse {
        guard let form, let token = form["token"] else { return Self.oauthError("invalid_request") }
        guard client.isAuthenticated(request.fields, form) else { return Self.unknownClient }
        _ = issuer.revoke(token)
        return MockResponse(.ok)
    }

    private func oauthTokens(_ tokens: TokenPair?) throws -> MockResponse {
        guard let tokens else { return Self.oauthError("invalid_grant") }
        return try .noStore(
            OAuthTokens(
                access_token: tokens.accessToken, token_type: "bearer",
                expires_in: Int(lifetime.components.seconds), refresh_token: tokens.refreshToken))
    }

    private static func oauthError(_ code: StaticString, _ status: HTTPResponseStatus = .badRequest) -> MockResponse {
        var response = MockResponse.error(status, code)
        response.fields.add(name: "Cache-Control", value: "no-store")
        return response
    }

    private static var unknownClient: MockResponse {
        var response = oauthError("invalid_client", .unauthorized)
        response.fields.add(name: "WWW-Authenticate", value: MockResponse.Challenge.basic.rawValue)
        return response
    }

    // MARK: - Responses with their own success member

    private func login(_ form: TokenForm?) throws -> MockResponse {
        guard let form, form["realm"] == "main", let name = form["username"], let password = form["secret"] else {
            return try .noStore(OwnError(code: "bad_request"))
        }
        return try ownTokens(issuer.signIn(BasicCredentials(email: name, password: password)), "wrong_password")
    }

    private func loginAgain(_ form: TokenForm?) throws -> MockResponse {
        guard let presented = form?["token"] else { return try .noStore(OwnError(code: "bad_request")) }
        return try ownTokens(issuer.refresh(presented), "token_expired")
    }

    private func ownTokens(_ tokens: TokenPair?, _ error: String) throws -> MockResponse {
        guard let tokens else { return try .noStore(OwnError(code: error)) }
        return try .noStore(OwnTokens(session: OwnTokens.Session(key: tokens.accessToken, again: tokens.refreshToken)))
    }
}

/// The client of ``TokenEndpointRoutes``.
struct MockClient: Sendable {
    private let id: SecretFingerprint
    private let secret: SecretFingerprint

    init(id: String, secret: String) {
        self.id = SecretFingerprint(of: id)
        self.secret = SecretFingerprint(of: secret)
    }

    /// Whether the client has authenticated in exactly one of the two ways (RFC 6749 §2.3).
    func isAuthenticated(_ fields: HTTPHeaders, _ form: TokenForm) -> Bool {
        if fields.contains(name: "Authorization") {
            guard form["client_secret"] == nil, let pair = BasicCredentials(fields),
                let id = TokenForm.decode(pair.email[...]), let secret = TokenForm.decode(pair.password[...])
            else { return false }
            return matches(id, secret)
        }
        guard let id = form["client_id"], let secret = form["client_secret"] else { return false }
        return matches(id, secret)
    }

    private func matches(_ id: String, _ secret: String) -> Bool {
        let (isID, isSecret) = (SecretFingerprint(of: id) == self.id, SecretFingerprint(of: secret) == self.secret)
        return isID && isSecret
    }
}

/// The parameters of a form of at most 8 KiB.
struct TokenForm: Redacted {
    /// The values by name.
    private(set) var parameters: [String: String] = [:]

    /// - Returns: `nil` for another media type, an invalid escape, or a parameter that occurs twice (RFC 6749 §3.2).
    init?(_ request: MockRequest) async throws {
        guard request.fields["Content-Type"] == ["application/x-www-form-urlencoded"],
            let body = try await request.body.collect(upTo: 8_192)
        else { return nil }
        self.init(text: String(buffer: body))
    }

    /// - Returns: `nil` for an invalid escape, or a parameter that occurs twice.
    init?(text: String) {
        for pair in text.split(separator: "&") {
            let halves = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard halves.count == 2, let name = Self.decode(halves[0]), let value = Self.decode(halves[1]),
                parameters.updateValue(value, forKey: name) == nil
            else { return nil }
        }
    }

    subscript(name: String) -> String? { parameters[name] }

    /// The decoded text; `nil` for an invalid escape or invalid UTF-8.
    static func decode(_ text: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+"): bytes.append(0x20)
            case UInt8(ascii: "%"):
                guard let high = rest.popFirst(), let low = rest.popFirst(),
                    let value = UInt8(String(decoding: [high, low], as: UTF8.self), radix: 16)
                else { return nil }
                bytes.append(value)
            default: bytes.append(byte)
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }
}

/// The response of `/oauth/token` (RFC 6749 §5.1).
private struct OAuthTokens: Encodable, Redacted {
    let access_token: String
    let token_type: String
    let expires_in: Int
    let refresh_token: String
}

/// The response of `/login`.
private struct OwnTokens: Encodable, Redacted {
    struct Session: Encodable {
        let key: String
        let again: String
    }

    let ok = true
    let session: Session
}

/// An error of `/login`.
private struct OwnError: Encodable {
    let ok = false
    let code: String
}
