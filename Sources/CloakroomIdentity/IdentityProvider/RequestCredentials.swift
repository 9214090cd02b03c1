import CloakroomCore
import FoundationEssentials

/// The parts of an identity call that carry credentials: the value of ``field``, and the body.
struct RequestCredentials: Sendable {
    enum MediaType: String, Sendable {
        case json = "application/json"
        case form = "application/x-www-form-urlencoded"
    }

    /// The whole value of ``field``; `nil` sends no such field.
    var authorization: Secret?
    /// The body; `nil` sends none.
    var body: (type: MediaType, content: Secret)?
    /// Adds parameters to the form that are new each time the call is sent; `nil` adds none.
    var assertion: ClientAssertionSigner?
    /// The field of ``authorization``.
    var field = "Authorization"

    /// A call with the access token.
    static func accessToken(_ tokens: TokenSet, in field: BearerField = BearerField()) -> Self {
        bearer(tokens.authorization.bytes.dropFirst(TokenResponse.bearerPrefix.count), field)
    }

    /// A sign-in call. A sign-in has no token yet, so `bearer` means `basic`.
    /// - Returns: `nil` if the format cannot transmit the name: in Basic credentials a colon ends it (RFC 7617 §2), so
    ///   the upstream would check another name with another password.
    static func signIn(_ credentials: Credentials, configuration: IdentityEndpointConfiguration) -> Self? {
        let password = String(decoding: credentials.password.bytes, as: UTF8.self)
        switch configuration.credentials {
        case .basic, .bearer:
            guard !credentials.name.utf8.contains(UInt8(ascii: ":")) else { return nil }
            let pair = Array(credentials.name.utf8) + [UInt8(ascii: ":")] + credentials.password.bytes
            return Self(authorization: basic(pair))
        case .json, .form:
            let names = configuration.members
            return members([(names.name, credentials.name), (names.password, password)], configuration)
        case .oauth:
            // RFC 6749 §4.3.2.
            return members(
                [("grant_type", "password"), ("username", credentials.name), ("password", password)], configuration)
        }
    }

    /// A refresh call. There is no user name, so `basic` means `bearer`.
    static func refresh(_ refreshToken: Secret, configuration: IdentityEndpointConfiguration) -> Self? {
        let token = String(decoding: refreshToken.bytes, as: UTF8.self)
        switch configuration.credentials {
        case .basic, .bearer: return bearer(refreshToken.bytes[...], configuration.bearer)
        case .json, .form: return members([(configuration.members.refreshToken, token)], configuration)
        // RFC 6749 §6.
        case .oauth: return members([("grant_type", "refresh_token"), ("refresh_token", token)], configuration)
        }
    }

    /// A revocation of a refresh token. `basic` means `bearer`.
    static func revocation(_ refreshToken: Secret, configuration: IdentityEndpointConfiguration) -> Self? {
        guard configuration.credentials == .oauth else { return refresh(refreshToken, configuration: configuration) }
        let token = String(decoding: refreshToken.bytes, as: UTF8.self)
        // RFC 7009 §2.1.
        return members([("token", token), ("token_type_hint", "refresh_token")], configuration)
    }

    private static func bearer(_ token: ArraySlice<UInt8>, _ field: BearerField) -> Self {
        Self(authorization: Secret(bytes: Array(field.prefix.utf8) + token), field: field.header)
    }

    /// The credentials of a client (RFC 6749 §2.3.1). Both are form-encoded before they are joined, so a colon in the id
    /// ends nothing.
    static func basic(clientID: String, secret: Secret) -> Secret {
        let password = FormEncoding.encode(String(decoding: secret.bytes, as: UTF8.self))
        return basic(Array((FormEncoding.encode(clientID) + ":" + password).utf8))
    }

    private static func basic(_ pair: [UInt8]) -> Secret {
        Secret("Basic " + Data(pair).base64EncodedString())
    }

    /// A body with the given members, those of the configuration, and the client's own credentials.
    private static func members(
        _ own: [(name: String, value: String)], _ configuration: IdentityEndpointConfiguration
    ) -> Self {
        var members = own + configuration.fixedMembers.map { (name: $0.name, value: $0.value) }
        var authorization: Secret?
        if let client = configuration.client {
            let secret = String(decoding: client.secret.bytes, as: UTF8.self)
            switch client.authentication {
            case .basic:
                authorization = basic(clientID: client.id, secret: client.secret)
            case .post:
                members += [("client_id", client.id), ("client_secret", secret)]
            }
        }
        guard configuration.credentials == .json else {
            let form = FormEncoding.encode(members)
            return Self(authorization: authorization, body: (.form, Secret(form)))
        }
        return Self(authorization: authorization, body: (.json, json(members)))
    }

    /// A JSON object with the members in their order.
    private static func json(_ members: [(name: String, value: String)]) -> Secret {
        let texts = members.map { JSONString.quoted($0.name) + ":" + JSONString.quoted($0.value) }
        return Secret("{" + texts.joined(separator: ",") + "}")
    }
}
