import CloakroomCore
import Crypto
import CryptoExtras
import Foundation

@testable import CloakroomIdentity

/// A key pair of a scripted provider, which signs whatever a test wants.
struct ScriptedKey: Sendable {
    let id: String?
    let algorithm: SignatureAlgorithm
    private let pair: Pair

    private enum Pair: Sendable {
        case rsa(_RSA.Signing.PrivateKey)
        case p256(P256.Signing.PrivateKey)
        case p384(P384.Signing.PrivateKey)
        case p521(P521.Signing.PrivateKey)
        case ed25519(Curve25519.Signing.PrivateKey)
    }

    /// Two RSA pairs for all tests, because their generation takes long.
    private static let firstRSA = Result { try _RSA.Signing.PrivateKey(keySize: .bits2048) }
    private static let secondRSA = Result { try _RSA.Signing.PrivateKey(keySize: .bits2048) }

    init(_ algorithm: SignatureAlgorithm, id: String? = "key-1", second: Bool = false) throws {
        self.id = id
        self.algorithm = algorithm
        switch algorithm.keyType {
        case .rsa: pair = .rsa(try (second ? Self.secondRSA : Self.firstRSA).get())
        case .curve(.p256): pair = .p256(P256.Signing.PrivateKey())
        case .curve(.p384): pair = .p384(P384.Signing.PrivateKey())
        case .curve(.p521): pair = .p521(P521.Signing.PrivateKey())
        case .ed25519: pair = .ed25519(Curve25519.Signing.PrivateKey())
        }
    }

    /// An ES256 key whose x coordinate begins with a zero byte.
    init(shortCoordinate: Void, id: String) {
        var key = P256.Signing.PrivateKey()
        while key.publicKey.rawRepresentation.first != 0 { key = P256.Signing.PrivateKey() }
        self.id = id
        algorithm = .es256
        pair = .p256(key)
    }

    /// The same pair with another `kid` and another algorithm of its type.
    init(_ other: ScriptedKey, algorithm: SignatureAlgorithm, id: String?) {
        self.id = id
        self.algorithm = algorithm
        pair = other.pair
    }

    // MARK: - Key set

    /// The public key as a JSON Web Key.
    /// - Parameters:
    ///   - more: Further members, each with a comma before it.
    ///   - stripsZeros: Whether leading zeros of coordinates are omitted.
    func jwk(more: String = #","use":"sig""#, hasAlgorithm: Bool = true, stripsZeros: Bool = false) throws -> String {
        func coordinates(_ raw: Data) -> String {
            let half = raw.count / 2
            let parts = [raw.prefix(half), raw.suffix(half)].map { part in
                Base64URL.encode(stripsZeros ? Array(part.drop { $0 == 0 }) : Array(part))
            }
            return #","x":"\#(parts[0])","y":"\#(parts[1])""#
        }
        let numbers =
            switch pair {
            case .rsa(let key): try Self.rsaNumbers(key.publicKey)
            case .p256(let key): #""kty":"EC","crv":"P-256""# + coordinates(key.publicKey.rawRepresentation)
            case .p384(let key): #""kty":"EC","crv":"P-384""# + coordinates(key.publicKey.rawRepresentation)
            case .p521(let key): #""kty":"EC","crv":"P-521""# + coordinates(key.publicKey.rawRepresentation)
            case .ed25519(let key):
                #""kty":"OKP","crv":"Ed25519","x":"\#(Base64URL.encode(Array(key.publicKey.rawRepresentation)))""#
            }
        let name = id.map { #","kid":"\#($0)""# } ?? ""
        return "{" + numbers + name + (hasAlgorithm ? #","alg":"\#(algorithm.rawValue)""# : "") + more + "}"
    }

    private static func rsaNumbers(_ key: _RSA.Signing.PublicKey) throws -> String {
        let numbers = try key.getKeyPrimitives()
        return #""kty":"RSA","n":"\#(Base64URL.encode(Array(numbers.modulus)))","#
            + #""e":"\#(Base64URL.encode(Array(numbers.publicExponent)))""#
    }

    // MARK: - Tokens

    /// A signed token.
    /// - Parameters:
    ///   - header: The header; `nil` for one with `alg` and `kid`.
    ///   - payload: The payload, usually JSON.
    func token(_ payload: String, header: String? = nil) throws -> [UInt8] {
        let name = id.map { #","kid":"\#($0)""# } ?? ""
        let header = header ?? #"{"alg":"\#(algorithm.rawValue)"\#(name)}"#
        let signed = Base64URL.encode(Array(header.utf8)) + "." + Base64URL.encode(Array(payload.utf8))
        return Array((signed + "." + Base64URL.encode(try sign(Array(signed.utf8)))).utf8)
    }

    private func sign(_ bytes: [UInt8]) throws -> [UInt8] {
        switch pair {
        case .rsa(let key):
            let padding: _RSA.Signing.Padding = algorithm.rawValue.hasPrefix("PS") ? .PSS : .insecurePKCS1v1_5
            let signature =
                switch algorithm {
                case .rs384, .ps384: try key.signature(for: SHA384.hash(data: bytes), padding: padding)
                case .rs512, .ps512: try key.signature(for: SHA512.hash(data: bytes), padding: padding)
                default: try key.signature(for: SHA256.hash(data: bytes), padding: padding)
                }
            return Array(signature.rawRepresentation)
        case .p256(let key): return Array(try key.signature(for: bytes).rawRepresentation)
        case .p384(let key): return Array(try key.signature(for: bytes).rawRepresentation)
        case .p521(let key): return Array(try key.signature(for: bytes).rawRepresentation)
        case .ed25519(let key): return Array(try key.signature(for: bytes))
        }
    }
}

/// A key set document with these keys.
func keySetDocument(_ keys: [String]) -> [UInt8] {
    Array(#"{"keys":[\#(keys.joined(separator: ","))]}"#.utf8)
}

/// The rejection of a call; `nil` if it succeeds or fails otherwise.
func rejection<Value>(_ call: @autoclosure () throws -> Value) -> TokenRejection? {
    do {
        _ = try call()
        return nil
    } catch {
        return error as? TokenRejection
    }
}
