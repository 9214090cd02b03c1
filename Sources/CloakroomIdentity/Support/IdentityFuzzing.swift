package import CloakroomCore

/// Entry points for fuzzing the parsers of identity data that clients and upstreams send.
package enum IdentityWire {
    /// The fields of a form by name, with names compared byte by byte; `nil` if the form is invalid.
    package static func form(_ body: [UInt8]) -> [JSONMemberName: String]? {
        FormURLEncodedBody.read(body)
    }

    /// The name and the password of `Authorization: Basic`.
    /// - Returns: `nil` for another scheme; `.some(nil)` for a malformed value.
    package static func basic(_ authorization: [UInt8]) -> (name: String, password: [UInt8])?? {
        switch BasicAuthorization.read(Secret(bytes: authorization)) {
        case .otherScheme: nil
        case .malformed: .some(nil)
        case .pair(let name, let password): (name, password.bytes)
        }
    }

    /// The credentials in a sign-in request; `nil` if the request is rejected.
    package static func signIn(
        body: [UInt8], contentType: String, name: AccountsConfiguration.SignInName = .defaults, now: SessionTime
    ) -> Credentials? {
        try? SignInRequestParser.read(
            AccountRequest(endpoint: .signIn, contentType: contentType, body: Secret(bytes: body), now: now),
            name: name)
    }

    /// The body of a sign-in call to an upstream; `nil` if there is none.
    package static func signInBody(
        _ credentials: Credentials, configuration: IdentityEndpointConfiguration
    ) -> [UInt8]? {
        RequestCredentials.signIn(credentials, configuration: configuration)?.body?.content.bytes
    }

    /// The tokens in an upstream's response; `nil` if the response is invalid.
    package static func tokens(_ body: [UInt8], configuration: IdentityEndpointConfiguration, now: WallTime)
        -> TokenSet?
    {
        TokenResponse.read(body, configuration: configuration, now: now)
    }

    /// The user document that may be sent to a client; `nil` if there is none.
    package static func user(_ body: [UInt8], tokens: TokenSet) -> [UInt8]? {
        UserDocument.read(body, excluding: [tokens])
    }
}
