public import CloakroomCore
import Crypto

/// Signs assertions about users under a key of the newest of the gateway's secrets (ES256, RFC 7518 §3.4).
///
/// Every replica derives the same keys. The keys of all secrets are published, so that assertions stay valid while secrets
/// are rotated.
public struct AssertionSigner: AssertionSigning, Unprintable {
    private let key: P256.Signing.PrivateKey
    private let header: String
    /// The public keys, the newest first: a key set (RFC 7517 §5).
    public let keySet: [UInt8]

    /// Creates a signer from the configured secrets, the newest first.
    /// - Returns: `nil` if there is none.
    public init?(_ secrets: [Secret]) {
        guard let keys = SealingKeyring(secrets)?.assertionKeys, let newest = keys.first else { return nil }
        key = newest
        header = #"{"alg":"ES256","typ":"identity+jwt","kid":"\#(Self.keyID(newest))"}"#
        let published = keys.map {
            #"{\#(Self.members($0)),"kid":"\#(Self.keyID($0))","use":"sig","alg":"ES256"}"#
        }
        keySet = Array(#"{"keys":[\#(published.joined(separator: ","))]}"#.utf8)
    }

    /// The key of a session is known to no upstream, so the name reveals nothing about it.
    public func name(of session: SessionKey, for audience: String) -> String {
        let code = HMAC<SHA256>.authenticationCode(
            for: Array(audience.utf8), using: SymmetricKey(data: session.bytes))
        return Base64URL.encode(Array(code).prefix(16))
    }

    /// Signs claims.
    public func sign(_ claims: String) -> String? {
        let signed = Base64URL.encode(Array(header.utf8)) + "." + Base64URL.encode(Array(claims.utf8))
        // Both coordinates in a row, not DER.
        guard let signature = try? key.signature(for: Array(signed.utf8)).rawRepresentation else { return nil }
        return signed + "." + Base64URL.encode(Array(signature))
    }

    /// The required members of a public key, in the order of their names.
    private static func members(_ key: P256.Signing.PrivateKey) -> String {
        let point = Array(key.publicKey.rawRepresentation)
        let (x, y) = (Base64URL.encode(point.prefix(32)), Base64URL.encode(point.dropFirst(32)))
        return #""crv":"P-256","kty":"EC","x":"\#(x)","y":"\#(y)""#
    }

    /// The thumbprint of a key (RFC 7638).
    private static func keyID(_ key: P256.Signing.PrivateKey) -> String {
        Base64URL.encode(Array(SHA256.hash(data: Array("{\(members(key))}".utf8))))
    }
}
