package import CloakroomCore

/// Why a call to an OpenID Provider had no result. Contains nothing that the provider wrote except an error code of
/// OAuth.
package struct ProviderError: Error, Sendable, Equatable {
    /// The kind of failure.
    package enum Kind: Sendable, Equatable {
        /// The provider could not be reached, did not respond in time, requested a later attempt, or its metadata or keys
        /// were never fetched. Nothing is known about the user.
        case unavailable
        /// The response of the provider is invalid, or its content is rejected.
        case failed(Reason)
        /// The provider rejected what the client presented, such as the code or the token, with this error code (RFC 6749
        /// §5.2).
        case rejected(String)
        /// The provider rejected the gateway's own request, or lacks an endpoint that the configuration requires.
        case misconfigured(IdentityMisconfiguration)
    }

    /// Why a response is rejected.
    package enum Reason: Error, Sendable, Hashable {
        /// Not JSON, a required member is missing or has another type, too large, or another status than expected.
        case invalidResponse
        /// The ID token is missing.
        case noIDToken
        /// The ID token is rejected.
        case token(TokenRejection)
        /// The data of the user have another `sub` than the ID token (OpenID Connect Core §5.3.2).
        case otherSubject
        /// The kept claims are larger than the configured limit.
        case claimsTooLarge
        /// The token of an exchange is not an access token for `Bearer` (RFC 8693 §2.2.1).
        case otherTokenType

        /// A constant word for logs and metrics.
        package var name: String {
            switch self {
            case .invalidResponse: "invalid_response"
            case .noIDToken: "no_id_token"
            case .token(let rejection): rejection.rawValue
            case .otherSubject: "other_subject"
            case .claimsTooLarge: "claims_too_large"
            case .otherTokenType: "other_token_type"
            }
        }
    }

    /// The kind of failure.
    package let kind: Kind
    /// The call that failed.
    package let call: TokenClientError.Operation

    /// Creates an error.
    package init(_ kind: Kind, in call: TokenClientError.Operation) {
        self.kind = kind
        self.call = call
    }

    /// Whether a token could not be verified because its key is missing.
    var isWithoutKey: Bool {
        switch kind {
        case .unavailable: true
        case .failed(.token(let rejection)): rejection.suggestsOtherKeys
        case .failed, .rejected, .misconfigured: false
        }
    }
}

/// What happened to the metadata, the keys or the responses of a provider, for logs, metrics and the status page.
package enum ProviderEvent: Sendable, Equatable {
    /// The metadata was fetched and is used. The findings are differences to the configuration.
    case metadata([ProviderMetadata.Finding])
    /// The metadata was fetched and is rejected; an earlier one remains in use.
    case metadataRejected(ProviderMetadata.ParseError)
    /// The metadata could not be fetched; an earlier one remains in use.
    case metadataUnavailable
    /// A fetch of the keys ended.
    case keys(ProviderKeys.FetchOutcome)
    /// A response was rejected, and what follows from that depends on the call.
    case rejected(ProviderError.Reason, in: TokenClientError.Operation)
    /// The lifetime of an access token is invalid. Reported once.
    case invalidLifetime
}

/// Whether a provider can be used, for the status page.
package struct ProviderStatus: Sendable, Equatable {
    /// Whether there are metadata.
    package var hasMetadata: Bool
    /// Whether the keys are within their lifetime, older, or missing.
    package var keys: KeySetSchedule.Usability
}
