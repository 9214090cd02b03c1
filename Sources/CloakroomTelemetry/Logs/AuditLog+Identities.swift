public import CloakroomCore
import Logging

/// The events of sign-ins at OpenID Providers. No line contains text that a provider wrote, except registered error codes.
extension AuditLog {
    /// Logs a login at a provider that succeeded or failed. `user` is `nil` unless it succeeded.
    ///
    /// Any client can cause failures, so at most 10 lines per 10 s and outcome are written about them, with the number
    /// of suppressed lines.
    /// - Parameters:
    ///   - reason: A constant word or a registered error code; `nil` for a success.
    ///   - now: The wall-clock time.
    public func login(
        _ outcome: AccountEvent.LoginOutcome, identity: String, reason: String?, user: UInt64?, origin: AuditContext,
        now: WallTime
    ) {
        var values: Logger.Metadata = [
            "event": "login", "outcome": "\(outcome.rawValue)", "identity": "\(identity)",
        ]
        if let reason { values["reason"] = "\(reason)" }
        if let user { values["user"] = "\(Self.hex(user))" }
        write(
            "login at a provider", values, origin, limitedBy: outcome == .success ? nil : failedLogins[outcome], at: now
        )
    }

    /// Logs that a provider reported a logout, and the sessions that it ended.
    public func providerLogout(_ sessions: [SessionID], identity: String, origin: AuditContext) {
        write(
            "logout reported by a provider",
            [
                "event": "provider_logout", "kind": "\(SignOutKind.provider.rawValue)", "identity": "\(identity)",
                "count": .stringConvertible(sessions.count),
                "sessions": .array(sessions.prefix(Self.maxListedSessions).map { .string("\($0)") }),
            ], origin)
    }

    /// Logs that a logout request of a provider was rejected or could not be processed. Any client can send such
    /// requests, so at most one line per 10 s is written, with the number of suppressed lines.
    /// - Parameter now: The wall-clock time.
    public func providerLogoutFailed(
        identity: String, outcome: ProviderLogoutOutcome, reason: String, origin: AuditContext, now: WallTime
    ) {
        write(
            "logout request not processed",
            [
                "event": "provider_logout_failed", "outcome": "\(outcome.rawValue)", "identity": "\(identity)",
                "reason": "\(reason)",
            ], origin, level: .warning, limitedBy: rejectedLogouts, at: now)
    }

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

    /// Logs that no token for an upstream was issued. At most one line per 10 s is written, with the number of suppressed
    /// lines.
    /// - Parameter now: The wall-clock time.
    public func exchangeFailed(
        _ result: AccountEvent.ExchangeResult, _ session: SessionID, upstream: String, origin: AuditContext,
        now: WallTime
    ) {
        write(
            "token exchange failed",
            [
                "event": "token_exchange_failed", "outcome": "\(result.rawValue)", "upstream": "\(upstream)",
                "session": "\(session)",
            ], origin, level: .warning, limitedBy: failedExchanges, at: now)
    }

    /// Logs that the metadata or keys of a provider could not be fetched or are rejected. To be called when the failure
    /// differs from the last attempt.
    public func providerFetchFailed(identity: String, document: ProviderDocument, failure: IdentityStatus.Failure) {
        logger.warning(
            "document of a provider cannot be used",
            metadata: [
                "event": "provider_down", "identity": "\(identity)", "document": "\(document.rawValue)",
                "reason": "\(failure.reason)", "hint": "\(failure.remedy)",
            ])
    }

    /// Logs that the metadata or keys of a provider are fetched again after a failure.
    public func providerFetched(identity: String, document: ProviderDocument) {
        logger.notice(
            "document of a provider fetched",
            metadata: ["event": "provider_up", "identity": "\(identity)", "document": "\(document.rawValue)"])
    }

    /// Logs a difference between a provider and the configuration, because of which logins cannot work.
    public func providerMismatch(identity: String, reason: String, hint: String) {
        logger.error(
            "provider does not fit the configuration",
            metadata: [
                "event": "provider_mismatch", "identity": "\(identity)", "reason": "\(reason)", "hint": "\(hint)",
            ])
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
