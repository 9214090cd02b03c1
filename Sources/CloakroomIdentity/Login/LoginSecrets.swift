import CloakroomCore
import Crypto

/// The three values of one login that only this gateway and its provider may know, 32 random bytes each, never used for
/// a second login.
///
/// - `state` connects the callback with the browser that began the login (RFC 6749 §10.12).
/// - `nonce` connects the ID token with the login (OpenID Connect Core §3.1.2.1).
/// - `verifier` connects the code with the login: only its hash is in the authorization request (RFC 7636 §4.2).
///
/// Folder `Login/`: the way of a browser to a provider and back: the authorization request, the login cookie, the
/// callback, and where the browser continues.
package struct LoginSecrets: Sendable, Equatable, Unprintable {
    /// The number of bytes of each value.
    package static let byteCount = 32

    package let state: [UInt8]
    package let nonce: [UInt8]
    package let verifier: [UInt8]

    /// Generates the secrets of a new login.
    package init(using generator: inout some RandomNumberGenerator) {
        state = Self.random(&generator)
        nonce = Self.random(&generator)
        verifier = Self.random(&generator)
    }

    /// SHA-256 of the state: identifies the login and does not reveal the state.
    package var stateHash: [UInt8] { Self.hash(ofState: state) }

    /// The `code_challenge` of method S256 (RFC 7636 §4.2): SHA-256 of the characters of the verifier.
    package var challenge: String {
        Base64URL.encode(Array(SHA256.hash(data: Array(Base64URL.encode(verifier).utf8))))
    }

    package static func hash(ofState state: [UInt8]) -> [UInt8] { Array(SHA256.hash(data: state)) }

    private static func random(_ generator: inout some RandomNumberGenerator) -> [UInt8] {
        (0..<byteCount / 8).flatMap { _ in (generator.next() as UInt64).bigEndianBytes }
    }
}
