public import CloakroomCore
import Logging

/// The lines of account events. No line contains text that a provider wrote, except registered error codes.
extension AuditLog {
    /// Logs an event. If any client can cause it, or if it affects all users at the same time, the number of lines per 10 s
    /// is limited, and a line has the number of suppressed ones.
    /// - Parameters:
    ///   - upstreams: The names of the upstreams that the event may refer to by index.
    ///   - now: The wall-clock time.
    public func record(
        _ event: AccountEvent, upstreams: [String] = [], from origin: AuditContext, now: WallTime
    ) {
        switch event {
        case .loginBegan: break
        case .signIn(let outcome, let accountHash, _):
            write(
                "sign-in attempted", Self.values("sign_in", ["outcome": outcome.rawValue], user: accountHash), origin,
                limitedBy: cheapSignIns[outcome], at: now)
        case .signOut(let session):
            write("signed out", Self.values("sign_out", ["kind": SignOutKind.user.rawValue], session), origin)
        case .signOutOthers(let sessions, let session, let tokens):
            let values = ["kind": SignOutKind.everywhere.rawValue, "tokens": tokens.rawValue]
            write("other sessions ended", Self.values("sign_out_others", values, session, listing: sessions), origin)
        case .revoked(let sessions, let tokens):
            let values = ["kind": SignOutKind.admin.rawValue, "tokens": tokens.rawValue]
            write("sessions revoked", Self.values("sessions_revoked", values, listing: sessions), origin)
        case .evicted(let sessions, let tokens):
            let values = Self.values("sessions_evicted", ["tokens": tokens.rawValue], listing: sessions)
            write("oldest sessions ended", values, origin)
        // The tokens stay valid at the upstream until they expire.
        case .revokeFailed(let session):
            write("tokens could not be revoked upstream", Self.values("revoke_failed", [:], session), origin)
        case .tokenRefresh(.success, _, _), .tokenRefresh(.coalesced, _, _): break
        case .tokenRefresh(.rejected, let session, _):
            write("token refresh rejected", Self.values("refresh_rejected", [:], session), origin)
        // The session stays valid. If an upstream or a store is down, refreshes fail for all sessions.
        case .tokenRefresh(let result, let session, _):
            write(
                "token refresh failed", Self.values("refresh_failed", ["outcome": result.rawValue], session), origin,
                level: .warning, limitedBy: failures, at: now)
        case .login(let outcome, let identity, let reason, let accountHash, _):
            var values = ["outcome": outcome.rawValue, "identity": identity]
            values["reason"] = reason
            if reason == "no_pending_login" {
                values["hint"] = "if no login works, they begin at another host: open accounts.publicURL"
            }
            write(
                "login at a provider", Self.values("login", values, user: accountHash), origin,
                limitedBy: outcome == .success ? nil : failedLogins[outcome], at: now)
        case .providerLogout(let sessions, let identity):
            let values = ["kind": SignOutKind.provider.rawValue, "identity": identity]
            write(
                "logout reported by a provider", Self.values("provider_logout", values, listing: sessions), origin)
        case .providerLogoutFailed(let identity, let reason):
            let outcome = ProviderLogoutOutcome(failedBy: reason).rawValue
            let values = ["outcome": outcome, "identity": identity, "reason": reason]
            write(
                "logout request not processed", Self.values("provider_logout_failed", values), origin, level: .warning,
                limitedBy: rejectedLogouts, at: now)
        case .tokenExchange(.success, _, _, _): break
        case .tokenExchange(let result, let session, let upstream, _):
            guard upstreams.indices.contains(upstream) else { return }
            let values = ["outcome": result.rawValue, "upstream": upstreams[upstream]]
            write(
                "token exchange failed", Self.values("token_exchange_failed", values, session), origin, level: .warning,
                limitedBy: failedExchanges, at: now)
        case .deviceCheck(.unproven, let session):
            write(
                "bound session used without the proof of its device", Self.values("device_unproven", [:], session),
                origin, level: .warning, limitedBy: unproven, at: now)
        case .deviceProof(.bound, let session, _), .deviceProof(.repeated, let session, _):
            write("session bound to a device", Self.values("device_bound", [:], session), origin)
        case .deviceProof(_, let session, let reason?):
            write(
                "proof of a device rejected", Self.values("device_rejected", ["reason": reason.rawValue], session),
                origin, limitedBy: rejectedProofs, at: now)
        case .deviceCheck, .deviceProof: break
        case .identityMisconfigured(let reason, let call, let identity):
            var values = ["call": call.rawValue, "reason": reason.rawValue, "hint": "\(reason.hint(in: call))"]
            values["identity"] = identity
            write(
                "identity call rejected by the upstream", Self.values("identity_misconfigured", values), origin,
                level: .error, limitedBy: misconfigurations[call], at: now)
        }
    }

    /// - Parameters:
    ///   - user: The keyed hash of an account.
    ///   - sessions: Of many, the first ``maxListedSessions`` and their number.
    private static func values(
        _ event: String, _ texts: [String: String] = [:], _ session: SessionID? = nil, user: UInt64? = nil,
        listing sessions: [SessionID]? = nil
    ) -> Logger.Metadata {
        var values = texts.mapValues { Logger.MetadataValue.string($0) }
        // For all that is added here and by the caller, so that the table grows once.
        values.reserveCapacity(texts.count + 8)
        values["event"] = .string(event)
        if let session { values["session"] = "\(session)" }
        if let user { values["user"] = "\(Self.user(user))" }
        if let sessions {
            values["count"] = .stringConvertible(sessions.count)
            values["sessions"] = .array(sessions.prefix(maxListedSessions).map { .string("\($0)") })
        }
        return values
    }
}
