package import CloakroomCore

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
    case rejected(ResponseDefect, in: TokenClientError.Operation)
    /// A client has presented an access token, which may be rejected for a reason.
    case accessToken(AccessTokenOutcome, TokenRejection? = nil, from: AuditContext = AuditContext())
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
