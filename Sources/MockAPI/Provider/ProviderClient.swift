import Crypto
import CryptoExtras
import FoundationEssentials
import Hummingbird

/// How a client authenticates at the token endpoint (OpenID Connect Core §9).
public enum ClientAuthentication: String, Sendable, Codable {
    case basic = "client_secret_basic"
    case post = "client_secret_post"
    case privateKeyJWT = "private_key_jwt"
}

/// The client of a provider.
struct ProviderClient: Sendable {
    private let id: String
    private let secrets: MockClient
    private let key: VerificationKey?

    init(_ settings: MockProviderSettings) throws {
        id = settings.clientID
        secrets = MockClient(id: settings.clientID, secret: settings.clientSecret)
        key = try settings.clientKey.map { try VerificationKey(pem: $0) }
    }

    /// The supported ways, for the discovery document.
    var methods: [ClientAuthentication] { [.basic, .post] + (key == nil ? [] : [.privateKeyJWT]) }

    /// How the client has authenticated; `nil` if it has not, or in two ways (RFC 6749 §2.3).
    func authentication(_ request: Request, _ form: TokenForm, _ state: ProviderState) -> ClientAuthentication? {
        if let assertion = form["client_assertion"] {
            guard request.headers[.authorization] == nil, form["client_secret"] == nil,
                form["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
                form["client_id"] ?? id == id, isValid(assertion, state)
            else { return nil }
            return .privateKeyJWT
        }
        guard secrets.isAuthenticated(request.headers, form) else { return nil }
        return request.headers[.authorization] == nil ? .post : .basic
    }

    /// RFC 7523 §3: signature, issuer, subject, one audience, expiry, and an id that was never used.
    private func isValid(_ assertion: String, _ state: ProviderState) -> Bool {
        let parts = assertion.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let key, let signature = Base64URL.decode(parts[2]),
            let header: Header = Self.decode(parts[0]), let claims: Claims = Self.decode(parts[1]),
            key.verify(signature, of: Array("\(parts[0]).\(parts[1])".utf8), algorithm: header.alg)
        else { return false }
        let now = state.now.timeIntervalSince1970
        let audiences =
            switch state.script.assertionAudience {
            case "issuer": [state.issuer]
            case "token_endpoint": [state.issuer + ProviderPath.token]
            default: [state.issuer, state.issuer + ProviderPath.token]
            }
        return claims.iss == id && claims.sub == id && audiences.contains(claims.aud) && claims.exp > now
            && claims.exp < now + 3_600 && state.isFirst(assertionID: claims.jti)
    }

    private static func decode<Value: Decodable>(_ part: Substring) -> Value? {
        Base64URL.decode(part).flatMap { try? JSONDecoder().decode(Value.self, from: Data($0)) }
    }

    private struct Header: Decodable {
        let alg: String
    }

    private struct Claims: Decodable {
        let iss: String
        let sub: String
        let aud: String
        let exp: Double
        let jti: String
    }
}

/// A public key of a client.
private enum VerificationKey: Sendable {
    case rsa(_RSA.Signing.PublicKey)
    case p256(P256.Signing.PublicKey)
    case ed25519(Curve25519.Signing.PublicKey)

    struct Unsupported: Error {}

    init(pem: String) throws {
        if let key = try? P256.Signing.PublicKey(pemRepresentation: pem) {
            self = .p256(key)
        } else if let key = try? _RSA.Signing.PublicKey(pemRepresentation: pem) {
            self = .rsa(key)
        } else {
            let lines = pem.split(separator: "\n").filter { !$0.hasPrefix("-") }
            // RFC 8410 §4: 12 bytes for the algorithm, then the key.
            guard let der = Data(base64Encoded: lines.joined()), der.count == 44 else { throw Unsupported() }
            self = .ed25519(try Curve25519.Signing.PublicKey(rawRepresentation: der.suffix(32)))
        }
    }

    func verify(_ signature: [UInt8], of bytes: [UInt8], algorithm: String) -> Bool {
        switch (self, algorithm) {
        case (.rsa(let key), "RS256"), (.rsa(let key), "PS256"):
            key.isValidSignature(
                _RSA.Signing.RSASignature(rawRepresentation: signature), for: SHA256.hash(data: bytes),
                padding: algorithm == "PS256" ? .PSS : .insecurePKCS1v1_5)
        case (.p256(let key), "ES256"):
            (try? P256.Signing.ECDSASignature(rawRepresentation: signature)).map {
                key.isValidSignature($0, for: bytes)
            } ?? false
        case (.ed25519(let key), "EdDSA"): key.isValidSignature(signature, for: bytes)
        default: false
        }
    }
}
