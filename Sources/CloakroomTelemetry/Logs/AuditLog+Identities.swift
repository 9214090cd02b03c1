public import CloakroomCore
import Logging

/// The events of OpenID Providers. No line contains text that a provider wrote, except registered error codes.
extension AuditLog {
    /// Logs that an access token of a client was rejected, with the event `bearer_own_token` if it was issued to the
    /// gateway: then it has leaked. At most one line per 10 s and event is written, with the number of suppressed lines.
    /// - Parameter now: The wall-clock time.
    public func accessTokenRejected(
        _ reason: TokenRejection, identity: String, origin: AuditContext, now: WallTime
    ) {
        let isOwn = reason == .ownToken
        write(
            "access token of a client rejected",
            [
                "event": isOwn ? "bearer_own_token" : "bearer_rejected", "identity": "\(identity)",
                "reason": "\(reason.rawValue)",
            ], origin, level: isOwn ? .error : .notice, limitedBy: isOwn ? ownTokens : rejectedTokens, at: now)
    }

    /// Logs that the metadata or keys of a provider could not be fetched or are rejected. To be called when the failure
    /// differs from the last attempt.
    public func providerFetchFailed(identity: String, document: ProviderDocument, failure: FailureStatus) {
        write(
            "document of a provider cannot be used",
            [
                "event": "provider_down", "identity": "\(identity)", "document": "\(document.rawValue)",
                "reason": "\(failure.reason)", "hint": "\(failure.remedy ?? "")",
            ], level: .warning)
    }

    /// Logs that the metadata or keys of a provider are fetched again after a failure.
    public func providerFetched(identity: String, document: ProviderDocument) {
        write(
            "document of a provider fetched",
            ["event": "provider_up", "identity": "\(identity)", "document": "\(document.rawValue)"])
    }

    /// Logs a difference between a provider and the configuration, because of which logins cannot work.
    public func providerMismatch(identity: String, reason: String, hint: String) {
        write(
            "provider does not fit the configuration",
            ["event": "provider_mismatch", "identity": "\(identity)", "reason": "\(reason)", "hint": "\(hint)"],
            level: .error)
    }

    /// Logs that a response of a provider was rejected. At most one line per 10 s and call is written, with the number
    /// of suppressed lines.
    /// - Parameter now: The wall-clock time.
    public func providerResponseRejected(
        identity: String, call: TokenClientError.Operation, reason: String, hint: String, now: WallTime
    ) {
        write(
            "response of a provider rejected",
            [
                "event": "provider_response_rejected", "identity": "\(identity)", "call": "\(call.rawValue)",
                "reason": "\(reason)", "hint": "\(hint)",
            ], level: .error, limitedBy: rejectedResponses[call], at: now)
    }
}
