package import CloakroomCore

/// What clients and upstreams send about identities, read for nothing but to see how it is read: for fuzzing.
package enum IdentityWire {
    /// The fields of a form by their names, which are compared by their bytes; `nil` if it is none.
    package static func form(_ body: [UInt8]) -> [JSONMemberName: String]? {
        FormURLEncodedBody.read(body)
    }

    /// The name and the password of `Authorization: Basic`.
    /// - Returns: `nil` for another scheme; `.some(nil)` for a value that cannot be read.
    package static func basic(_ authorization: [UInt8]) -> (name: String, password: [UInt8])?? {
        switch BasicAuthorization.read(Secret(bytes: authorization)) {
        case .otherScheme: nil
        case .malformed: .some(nil)
        case .pair(let name, let password): (name, password.bytes)
        }
    }

    /// The credentials in a request to sign in; `nil` if it is refused.
    package static func signIn(body: [UInt8], contentType: String, now: Timestamp) -> Credentials? {
        try? SignInRequestParser.read(
            AccountRequest(endpoint: .signIn, contentType: contentType, body: Secret(bytes: body), now: now))
    }

    /// The tokens in an upstream's answer; `nil` if it makes no sense.
    package static func tokens(_ body: [UInt8], configuration: IdentityEndpointConfiguration, now: Timestamp)
        -> TokenSet?
    {
        TokenResponse.read(body, configuration: configuration, now: now)
    }

    /// The document about a user that a client may have; `nil` if it may have none.
    package static func user(_ body: [UInt8], tokens: TokenSet) -> [UInt8]? {
        UserDocument.read(body, excluding: [tokens])
    }
}
