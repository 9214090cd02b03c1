package import CloakroomCore

/// The metadata of a provider (OpenID Connect Discovery 1.0 §3, RFC 8414 §2), reduced to what the gateway uses. Every
/// endpoint in it was checked.
package struct ProviderMetadata: Sendable, Equatable {
    /// The maximum size of a document in bytes.
    package static let maxSize = 65_536

    /// Why a document was rejected, for the log.
    package enum ParseError: Error, Sendable, Equatable {
        /// Not a JSON object, or longer than ``maxSize``.
        case malformed
        /// The document is of another issuer (Discovery §4.3), this one.
        case issuer(String)
        /// A required member is missing or not a string.
        case missing(String)
        /// A member is not an `https` URL in its one valid spelling. `http` URLs of this machine are valid only for an
        /// issuer that is one: another provider could otherwise make the gateway call services of this machine.
        case url(String)
        /// An endpoint for calls of the gateway is at neither the issuer nor ``ProviderEndpoints/base``.
        case origin(String)
        /// A member is not a list of strings, or not a Boolean.
        case type(String)
    }

    package let authorizationEndpoint: EndpointURL
    package let tokenEndpoint: EndpointURL
    package let keys: EndpointURL
    package let userInfoEndpoint: EndpointURL?
    package let revocationEndpoint: EndpointURL?
    package let introspectionEndpoint: EndpointURL?
    package let endSessionEndpoint: EndpointURL?
    package let pushedRequestEndpoint: EndpointURL?
    /// Whether the provider accepts pushed requests only (RFC 9126 §5).
    package let requiresPushedRequests: Bool
    /// Whether authorization responses have `iss` (RFC 9207 §3).
    package let announcesIssuer: Bool
    /// The lists that ``findings(for:)`` compares; `nil` if absent.
    private let responseTypes, challengeMethods, algorithms, authenticationMethods, grantTypes: [String]?

    /// Parses a discovery document.
    /// - Parameters:
    ///   - issuer: The configured issuer. Compared by bytes: a provider that writes its name otherwise cannot be
    ///     distinguished from another tenant of the same host.
    ///   - endpoints: Where the provider is reached. A provider that is asked there may name its endpoints by that
    ///     address; here they have their public names.
    package init(
        _ document: [UInt8], issuer: String, endpoints: ProviderEndpoints = ProviderEndpoints()
    ) throws(ParseError) {
        guard document.count <= Self.maxSize, let json = JSONValue(document: document),
            case .object(let members) = json
        else { throw .malformed }
        let reader = MemberReader(members: members, issuer: issuer, endpoints: endpoints)
        guard let named = try reader.string("issuer") else { throw .missing("issuer") }
        guard named.utf8.elementsEqual(issuer.utf8) else { throw .issuer(named) }
        authorizationEndpoint = try reader.requiredURL("authorization_endpoint", isCalled: false)
        tokenEndpoint = try reader.requiredURL("token_endpoint")
        keys = try reader.requiredURL("jwks_uri")
        userInfoEndpoint = try reader.url("userinfo_endpoint")
        revocationEndpoint = try reader.url("revocation_endpoint")
        // Most providers announce one that is never called: an invalid one is none.
        introspectionEndpoint = try? reader.url("introspection_endpoint")
        endSessionEndpoint = try reader.url("end_session_endpoint", isCalled: false)
        pushedRequestEndpoint = try reader.url("pushed_authorization_request_endpoint")
        requiresPushedRequests = try reader.flag("require_pushed_authorization_requests")
        announcesIssuer = try reader.flag("authorization_response_iss_parameter_supported")
        responseTypes = try reader.list("response_types_supported")
        challengeMethods = try reader.list("code_challenge_methods_supported")
        algorithms = try reader.list("id_token_signing_alg_values_supported")
        authenticationMethods = try reader.list("token_endpoint_auth_methods_supported")
        grantTypes = try reader.list("grant_types_supported")
    }

    /// Configured endpoints, in place of a document.
    /// - Returns: `nil` if the configuration has none.
    package init?(configured identity: IdentityConfiguration) {
        guard let fixed = identity.endpoints.fixed else { return nil }
        let publicURL = { (url: EndpointURL) in
            identity.endpoints.publicURL(url, issuer: identity.issuer) ?? url
        }
        authorizationEndpoint = publicURL(fixed.authorization)
        tokenEndpoint = publicURL(fixed.token)
        keys = publicURL(fixed.keys)
        userInfoEndpoint = fixed.userInfo.map(publicURL)
        revocationEndpoint = fixed.revocation.map(publicURL)
        introspectionEndpoint = fixed.introspection.map(publicURL)
        endSessionEndpoint = fixed.endSession.map(publicURL)
        pushedRequestEndpoint = fixed.pushed.map(publicURL)
        (requiresPushedRequests, announcesIssuer) = (false, false)
        (responseTypes, challengeMethods, algorithms) = (nil, nil, nil)
        (authenticationMethods, grantTypes) = (nil, nil)
    }

    /// The URL of the document of an issuer: a slash at the end of its path is removed first (Discovery §4.1).
    package static func url(ofIssuer issuer: String) -> String {
        (issuer.hasSuffix("/") ? String(issuer.dropLast()) : issuer) + "/.well-known/openid-configuration"
    }
}

extension ProviderMetadata {
    /// A difference between what an identity is configured for and what its provider announces. The login cannot work.
    package struct Finding: Sendable, Equatable {
        /// The cause.
        package let message: String
        /// What the operator can do.
        package let remedy: String
    }

    /// The differences between the document and the configuration. An absent list is no difference: providers leave
    /// lists out that they do not consider useful.
    package func findings(for identity: IdentityConfiguration) -> [Finding] {
        let lacks = { (list: [String]?, values: [String]) in
            list.map { !values.contains(where: $0.hasSame) } ?? false
        }
        let method = identity.client.authentication.name
        let differences: [(Bool, String, String)] = [
            (
                lacks(responseTypes, ["code"]), "the provider does not support the response type code",
                "enable the authorization code flow for this client"
            ),
            (
                lacks(grantTypes, ["authorization_code"]), "the provider does not support the grant authorization_code",
                "enable the authorization code flow for this client"
            ),
            (
                lacks(challengeMethods, ["S256"]), "the provider does not support PKCE with S256",
                "enable S256 at the provider"
            ),
            (
                lacks(authenticationMethods, [method]),
                "the provider does not support the client authentication \(method)",
                "configure client.authentication as one that it supports"
            ),
            (
                lacks(algorithms, identity.algorithms.map(\.rawValue)),
                "the provider signs ID tokens with none of the configured algorithms",
                "add its algorithm to algorithms; none and HS256 are not supported"
            ),
            (
                identity.pushed == .always && pushedRequestEndpoint == nil,
                "the provider has no endpoint for pushed authorization requests", "write pushed: auto"
            ),
            (
                identity.pushed == .never && requiresPushedRequests,
                "the provider requires pushed authorization requests", "write pushed: auto"
            ),
            (
                identity.userSource == .userInfo && userInfoEndpoint == nil, "the provider has no userinfo endpoint",
                "write user: idToken"
            ),
            (
                identity.accessTokens?.introspection != nil && introspectionEndpoint == nil,
                "the provider has no valid introspection endpoint", "leave accessTokens.introspection out"
            ),
        ]
        return differences.filter(\.0).map { Finding(message: $0.1, remedy: $0.2) }
    }

    /// Whether the authorization request is pushed.
    package func pushes(_ identity: IdentityConfiguration) -> Bool {
        identity.pushed != .never && pushedRequestEndpoint != nil
    }
}

/// Reads typed members. `null` counts as absent.
private struct MemberReader {
    let members: [JSONMemberName: JSONValue]
    let issuer: String
    let endpoints: ProviderEndpoints

    func string(_ name: JSONMemberName) throws(ProviderMetadata.ParseError) -> String? {
        switch members[name] {
        case nil, .null: nil
        case .string(let text)?: text
        default: throw .type(name.text)
        }
    }

    func flag(_ name: JSONMemberName) throws(ProviderMetadata.ParseError) -> Bool {
        switch members[name] {
        case nil, .null: false
        case .bool(let value)?: value
        default: throw .type(name.text)
        }
    }

    /// The public name of an endpoint.
    /// - Parameter isCalled: Whether the gateway calls it, instead of the browser.
    func url(
        _ name: JSONMemberName, isCalled: Bool = true
    ) throws(ProviderMetadata.ParseError) -> EndpointURL? {
        guard let text = try string(name) else { return nil }
        guard let given = EndpointURL(text, permitting: endpoints.base),
            given.origin.isSecure || given.origin == endpoints.base || !issuer.hasPrefix("https:"),
            let url = endpoints.publicURL(given, issuer: issuer)
        else { throw .url(name.text) }
        if isCalled, !endpoints.permitsCall(to: url, issuer: issuer) { throw .origin(name.text) }
        return url
    }

    func requiredURL(
        _ name: JSONMemberName, isCalled: Bool = true
    ) throws(ProviderMetadata.ParseError) -> EndpointURL {
        guard let url = try url(name, isCalled: isCalled) else { throw .missing(name.text) }
        return url
    }

    func list(_ name: JSONMemberName) throws(ProviderMetadata.ParseError) -> [String]? {
        let items: [JSONValue]
        switch members[name] {
        case nil, .null: return nil
        case .array(let values)?: items = values
        default: throw .type(name.text)
        }
        var texts: [String] = []
        for item in items {
            guard case .string(let text) = item else { throw .type(name.text) }
            texts.append(text)
        }
        return texts
    }
}

extension ProviderMetadata.ParseError {
    /// What an operator reads about it.
    package var finding: ProviderMetadata.Finding {
        switch self {
        case .malformed:
            .init(
                message: "the metadata is no JSON object of at most 64 KiB",
                remedy: "check that the issuer's /.well-known/openid-configuration is a document of the provider")
        case .issuer(let named):
            // Text that is no URL is not shown.
            .init(
                message: "the metadata names another issuer",
                remedy: (EndpointURL(named).map { "write issuer: \($0)" } ?? "copy issuer from the metadata")
                    + " if this is the provider: a slash at its end counts")
        case .missing(let member):
            .init(message: "the metadata lacks \(member)", remedy: "check that the server is an OpenID Provider")
        case .url(let member):
            .init(
                message: "\(member) of the metadata is no https URL",
                remedy: "configure the provider's public address as an https URL")
        case .origin(let member):
            .init(
                message: "\(member) of the metadata is at neither the issuer nor endpoints.base",
                remedy: "configure the provider's public address, or leave endpoints.base out")
        case .type(let member):
            .init(
                message: "\(member) of the metadata has another type",
                remedy: "check that the server is an OpenID Provider")
        }
    }
}
