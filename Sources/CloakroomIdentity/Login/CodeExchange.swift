package import CloakroomCore

/// The token request that spends the code of a login (RFC 6749 §4.1.3, RFC 7636 §4.5).
///
/// A code is sent once. If the connection breaks, it is not sent again: a provider revokes the tokens of a code that it
/// sees twice (RFC 6749 §4.1.2).
package enum CodeExchange {
    /// The form, without the client's authentication.
    package static func form(code: Secret, login: PendingLogin, redirectURI: String) -> Secret {
        Secret(
            FormEncoding.encode([
                ("grant_type", "authorization_code"), ("code", String(decoding: code.bytes, as: UTF8.self)),
                ("redirect_uri", redirectURI),
                ("code_verifier", String(decoding: login.verifierText.bytes, as: UTF8.self)),
            ]))
    }
}

/// The claims of a client assertion (RFC 7523 §3, OpenID Connect Core §9).
///
/// A new one is made for every request, also if a request is sent again: providers reject an assertion that they have
/// seen.
package struct ClientAssertion: Sendable, Equatable {
    /// The lifetime. It covers one request.
    package static let lifetime = Duration.seconds(60)

    /// The JSON of the claims.
    package let claims: String

    /// - Parameters:
    ///   - audience: The issuer or the token endpoint; one value, never a list.
    package init(
        clientID: String, audience: String, now: Timestamp, using generator: inout some RandomNumberGenerator
    ) {
        let identifier = (0..<2).flatMap { _ in (generator.next() as UInt64).bigEndianBytes }
        let issuedAt = now.milliseconds / 1_000
        let client = JSONString.quoted(clientID)
        claims =
            "{\"iss\":\(client),\"sub\":\(client),\"aud\":\(JSONString.quoted(audience)),\"iat\":\(issuedAt),"
            + "\"exp\":\(issuedAt &+ Self.lifetime.components.seconds),\"jti\":\"\(Base64URL.encode(identifier))\"}"
    }
}
