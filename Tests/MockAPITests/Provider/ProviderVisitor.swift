import AsyncHTTPClient
import Crypto
import CryptoExtras
import Foundation
import MockAPI
import NIOCore
import NIOHTTP1

/// A browser and a client at a provider in one, step by step.
struct ProviderVisitor {
    let provider: MockProvider
    let verifier = "a-verifier-of-43-characters-and-more-0123456789"
    let redirectURI = "http://127.0.0.1:1/auth/callback"

    /// A client that does not follow redirects.
    static let http = HTTPClient(
        eventLoopGroupProvider: .singleton, configuration: HTTPClient.Configuration(redirectConfiguration: .disallow))

    var basic: String { .basic(provider.settings.clientID, provider.settings.clientSecret) }

    func send(
        _ method: HTTPMethod, _ path: String, _ fields: [(String, String)] = [], body: String? = nil,
        timeout: TimeAmount = .seconds(30)
    ) async throws -> TestResponse {
        var request = HTTPClientRequest(url: path.hasPrefix("http") ? path : provider.issuer + path)
        request.method = method
        request.headers = HTTPHeaders(fields)
        if let body { request.body = .bytes(ByteBuffer(string: body)) }
        let response = try await Self.http.execute(request, timeout: timeout)
        return TestResponse(
            status: Int(response.status.code), headers: response.headers,
            body: try await response.body.collect(upTo: 1 << 22))
    }

    /// Sends a form with the authentication of the client.
    func post(
        _ path: String, _ form: [String: String], authorization: String?? = .none
    ) async throws -> TestResponse {
        var fields = [("Content-Type", "application/x-www-form-urlencoded")]
        if let value = authorization ?? basic { fields.append(("Authorization", value)) }
        let body = form.map { "\($0.key)=\(Self.encode($0.value))" }.joined(separator: "&")
        return try await send(.POST, path, fields, body: body)
    }

    var parameters: [String: String] {
        [
            "response_type": "code", "client_id": provider.settings.clientID, "redirect_uri": redirectURI,
            "scope": "openid profile", "state": "s1", "nonce": "n1", "code_challenge_method": "S256",
            "code_challenge": Base64Text.encode(SHA256.hash(data: Array(verifier.utf8))),
        ]
    }

    /// Requests authorization.
    /// - Returns: The parameters of the callback.
    func authorize(_ changes: [String: String?] = [:]) async throws -> [String: String] {
        var parameters = parameters
        for (name, value) in changes { parameters[name] = value }
        let query = parameters.map { "\($0.key)=\(Self.encode($0.value))" }.joined(separator: "&")
        let response = try await send(.GET, "/authorize?" + query)
        guard response.status == 303, let location = response.headers.first(name: "Location") else {
            throw Unexpected(status: response.status)
        }
        return Self.query(of: location)
    }

    func redeem(_ code: String) async throws -> TestResponse {
        try await post(
            "/token",
            ["grant_type": "authorization_code", "code": code, "redirect_uri": redirectURI, "code_verifier": verifier])
    }

    func signIn(_ changes: [String: String?] = [:]) async throws -> ProviderTokens {
        try await redeem(try await authorize(changes)["code"] ?? "").decode()
    }

    func refresh(_ token: String) async throws -> TestResponse {
        try await post("/token", ["grant_type": "refresh_token", "refresh_token": token])
    }

    func keys() async throws -> [[String: String]] {
        struct KeySet: Decodable {
            let keys: [[String: String]]
        }
        return try await send(.GET, "/jwks").decode(KeySet.self).keys
    }

    /// Whether a published key verifies the token: the one with its `kid`, or any if the token or the key has none.
    func isSigned(_ token: String) async throws -> Bool {
        let token = try DecodedToken(token)
        return try await keys().contains { key in
            let isNamed = token.header["kid"].map { $0 == key["kid"] ?? $0 } ?? true
            return isNamed && token.isSigned(with: key)
        }
    }

    static func query(of url: String) -> [String: String] {
        let items = URLComponents(string: url)?.queryItems ?? []
        return Dictionary(items.map { ($0.name, $0.value ?? "") }) { first, _ in first }
    }

    static func encode(_ text: String) -> String {
        text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
    }

    struct Unexpected: Error {
        let status: Int
    }
}

struct ProviderTokens: Decodable {
    let access_token: String
    let token_type: String
    let expires_in: Int
    let refresh_token: String
    let id_token: String?
}

/// The parts of a signed token, read independently of the provider's code.
struct DecodedToken {
    let header: [String: String]
    /// The claims as JSON text.
    let payload: String
    private let signed: Data
    private let signature: Data

    struct Malformed: Error {}

    init(_ token: String) throws {
        let parts = token.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Base64Text.decode(parts[0]), let payload = Base64Text.decode(parts[1]),
            let signature = Base64Text.decode(parts[2])
        else { throw Malformed() }
        self.header = try JSONDecoder().decode([String: String].self, from: header)
        self.payload = String(decoding: payload, as: UTF8.self)
        self.signature = signature
        signed = Data("\(parts[0]).\(parts[1])".utf8)
    }

    func claim<Value: Decodable>(_ name: String, as type: Value.Type = Value.self) -> Value? {
        let reader = try? JSONDecoder().decode(ClaimReader.self, from: Data(payload.utf8))
        return try? reader?.container.decode(Value.self, forKey: Claim(stringValue: name))
    }

    func isSigned(with key: [String: String]) -> Bool {
        func number(_ name: String, padded count: Int = 0) -> Data {
            let bytes = key[name].flatMap { Base64Text.decode($0[...]) } ?? Data()
            return Data(count: max(0, count - bytes.count)) + bytes
        }
        switch (header["alg"], key["kty"]) {
        case ("ES256", "EC"):
            let point = number("x", padded: 32) + number("y", padded: 32)
            guard let key = try? P256.Signing.PublicKey(rawRepresentation: point),
                let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature)
            else { return false }
            return key.isValidSignature(signature, for: signed)
        case ("ES384", "EC"):
            let point = number("x", padded: 48) + number("y", padded: 48)
            guard let key = try? P384.Signing.PublicKey(rawRepresentation: point),
                let signature = try? P384.Signing.ECDSASignature(rawRepresentation: signature)
            else { return false }
            return key.isValidSignature(signature, for: signed)
        case ("EdDSA", "OKP"):
            let key = try? Curve25519.Signing.PublicKey(rawRepresentation: number("x"))
            return key?.isValidSignature(signature, for: signed) ?? false
        case ("RS256", "RSA"), ("PS256", "RSA"):
            // Shorter keys are rejected here.
            guard let key = try? _RSA.Signing.PublicKey(n: number("n"), e: number("e")) else { return false }
            return key.isValidSignature(
                _RSA.Signing.RSASignature(rawRepresentation: signature), for: SHA256.hash(data: signed),
                padding: header["alg"] == "PS256" ? .PSS : .insecurePKCS1v1_5)
        default: return false
        }
    }

    /// Whether the signature is an HMAC with this secret.
    func isAuthenticated(with secret: String) -> Bool {
        HMAC<SHA256>.isValidAuthenticationCode(
            signature, authenticating: signed, using: SymmetricKey(data: Data(secret.utf8)))
    }
}

/// A claim of any name.
private struct Claim: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }

    init(stringValue: String) { self.stringValue = stringValue }

    init?(intValue: Int) { nil }
}

private struct ClaimReader: Decodable {
    let container: KeyedDecodingContainer<Claim>

    init(from decoder: any Decoder) throws { container = try decoder.container(keyedBy: Claim.self) }
}

/// Base64url, independent of the provider's.
enum Base64Text {
    static func encode(_ bytes: some Sequence<UInt8>) -> String {
        Data(bytes).base64EncodedString().replacingOccurrences(of: "+", with: "-")
            .replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
    }

    static func decode(_ text: Substring) -> Data? {
        let text = text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        return Data(base64Encoded: text + String(repeating: "=", count: (4 - text.utf8.count % 4) % 4))
    }
}
