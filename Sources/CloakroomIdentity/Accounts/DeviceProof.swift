package import CloakroomCore
import Crypto

/// A challenge that a client has signed with the key of its device: a JWS with ES256 of the type `dbsc+jwt` (Device Bound
/// Session Credentials, §9). Of the payload only `jti` is read: the challenge is for one session here, and has its time.
package struct DeviceProof: Sendable {
    /// `jti`. Not verified.
    package let challenge: String
    /// `jwk`, a public key on P-256: both coordinates; `nil` for none.
    package let key: [UInt8]?
    private let signedBytes: ArraySlice<UInt8>
    private let signature: [UInt8]

    /// Parses a proof in time linear in its length, and verifies nothing.
    /// - Throws: ``DeviceRejection``: `malformed` or `invalidKey`.
    package init(parsing text: [UInt8]) throws(DeviceRejection) {
        guard text.count <= DeviceFields.maxProof,
            let token = try? UnverifiedToken(parsing: text, algorithms: [.es256]), token.type == .device,
            token.signature.count == 64, case .object(let claims)? = JSONValue(document: token.payload),
            let challenge = claims["jti"]?.string
        else { throw .malformed }
        self.challenge = challenge
        key = try token.statedKey.map(Self.coordinates)
        (signedBytes, signature) = (token.signedBytes, token.signature)
    }

    /// Whether the signature is of the private key of a public one.
    package func isSigned(by key: [UInt8]) -> Bool {
        guard let key = try? P256.Signing.PublicKey(rawRepresentation: key),
            let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature)
        else { return false }
        return key.isValidSignature(signature, for: signedBytes)
    }

    /// A private key, one of another type, and a point that is not on the curve are none.
    private static func coordinates(_ value: JSONValue) throws(DeviceRejection) -> [UInt8] {
        guard let key = try? JSONWebKey(value), key.fits(.es256), case .curve(.p256, let x, let y) = key.material,
            (try? P256.Signing.PublicKey(rawRepresentation: x + y)) != nil
        else { throw .invalidKey }
        return x + y
    }
}
