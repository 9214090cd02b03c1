public import CloakroomCore
public import Logging

/// Events that somebody may have to account for, each a log line of its own with a stable `event`. Users are named by
/// keyed hashes that the caller computes, sessions by the 16 digits that open nothing; e-mail addresses and tokens have
/// no way in.
public struct AuditLog: Sendable {
    /// The most sessions that one line names; the line says how many there are.
    static let maxListedSessions = 32
    /// The most problems that one line tells, and the most characters of each.
    static let maxListedProblems = 20
    static let problemLimit = 500

    private let logger: Logger
    private let failures = LogRateLimiter(interval: .seconds(10))
    /// One for each call: clients can make sign-ins fail, and must not hide by it that tokens cannot be renewed.
    private let misconfigurations = Dictionary(
        uniqueKeysWithValues: TokenClientError.Operation.allCases.map { ($0, LogRateLimiter(interval: .seconds(10))) })

    /// - Parameter logger: its handler decides where the lines go. They are written at level `notice`, failures that pass
    ///   at `warning`, a configuration that cannot be put to use at `error`.
    public init(logger: Logger) {
        self.logger = logger
    }

    /// Somebody tried to sign in. `user` is `nil` when the request named nobody.
    public func signIn(_ outcome: AccountEvent.SignInOutcome, user: UInt64?, origin: AuditContext) {
        var values: Logger.Metadata = ["event": "sign_in", "outcome": "\(outcome.rawValue)"]
        if let user { values["user"] = "\(Self.hex(user))" }
        write("sign-in attempted", values, origin)
    }

    /// Somebody signed out.
    public func signOut(_ session: SessionID, origin: AuditContext) {
        let kind = SignOutKind.user.rawValue
        write("signed out", ["event": "sign_out", "kind": "\(kind)", "session": "\(session)"], origin)
    }

    /// Somebody ended other sessions of theirs.
    /// - Parameter session: From which one.
    public func signOutOthers(
        _ sessions: [SessionID], by session: SessionID, tokens: AccountEvent.EndedTokens, origin: AuditContext
    ) {
        var values = Self.list(sessions, tokens)
        values["event"] = "sign_out_others"
        values["kind"] = "\(SignOutKind.everywhere.rawValue)"
        values["session"] = "\(session)"
        write("other sessions ended", values, origin)
    }

    /// An operator ended sessions.
    public func revoked(_ sessions: [SessionID], tokens: AccountEvent.EndedTokens, origin: AuditContext) {
        var values = Self.list(sessions, tokens)
        values["event"] = "sessions_revoked"
        values["kind"] = "\(SignOutKind.admin.rawValue)"
        write("sessions revoked", values, origin)
    }

    /// An account had more sessions than it may have: its oldest ended at a sign-in.
    public func evicted(_ sessions: [SessionID], tokens: AccountEvent.EndedTokens, origin: AuditContext) {
        var values = Self.list(sessions, tokens)
        values["event"] = "sessions_evicted"
        write("oldest sessions ended", values, origin)
    }

    /// The upstream could not be told that a session's tokens are void: they live on there until they end.
    public func revokeFailed(_ session: SessionID, origin: AuditContext) {
        write(
            "tokens could not be revoked upstream", ["event": "revoke_failed", "session": "\(session)"], origin)
    }

    /// The upstream refused for good to renew a session's tokens: the session is over.
    public func refreshRejected(_ session: SessionID, origin: AuditContext) {
        write("tokens could not be renewed", ["event": "refresh_rejected", "session": "\(session)"], origin)
    }

    /// Tokens could not be renewed for the time being; the session stays. An upstream or a store that is down fails for
    /// all sessions, so there is one line in ten seconds at most, with the number of those that were left out.
    /// - Parameter now: What the wall clock says.
    public func refreshFailed(
        _ result: AccountEvent.RefreshResult, _ session: SessionID, origin: AuditContext, now: Timestamp
    ) {
        guard let unlogged = failures.allow(at: now) else { return }
        write(
            "tokens cannot be renewed at the moment",
            [
                "event": "refresh_failed", "outcome": "\(result.rawValue)", "session": "\(session)",
                "unlogged": "\(unlogged)",
            ], origin, level: .warning)
    }

    /// An identity call was refused because the gateway's configuration does not fit the upstream. It fails for
    /// everybody, so there is at most one line in 10 s and call, with the number of those left out.
    /// - Parameter now: What the wall clock says.
    public func identityMisconfigured(
        _ reason: IdentityMisconfiguration, call: TokenClientError.Operation, origin: AuditContext, now: Timestamp
    ) {
        guard let unlogged = misconfigurations[call]?.allow(at: now) else { return }
        write(
            "identity call refused by the upstream",
            [
                "event": "identity_misconfigured", "call": "\(call.rawValue)", "reason": "\(reason.rawValue)",
                "hint": "\(reason.hint)", "unlogged": "\(unlogged)",
            ], origin, level: .error)
    }

    /// An upstream reported a token lifetime that makes no sense; such tokens are used until the upstream rejects them.
    public func tokenLifetimeInvalid(upstream: String) {
        logger.warning(
            "token lifetime not usable, treated as unknown",
            metadata: ["event": "token_lifetime_invalid", "upstream": "\(upstream)"])
    }

    /// What the store keeps under a session's name cannot be read: it was damaged, or sealed under a secret that is not
    /// known here. That session is gone, and nothing else.
    public func sessionUnreadable(_ session: SessionID) {
        logger.notice(
            "stored session cannot be read", metadata: ["event": "session_unreadable", "session": "\(session)"])
    }

    /// Another configuration was to be put to use.
    /// - Parameters:
    ///   - hash: The beginning of the SHA-256 of the file that is in effect now.
    ///   - problems: What is wrong with it; empty if it is in effect now. The line holds the first
    ///     ``maxListedProblems``, and says how many there are.
    public func configReloaded(hash: String, problems: [String] = []) {
        var values: Logger.Metadata = [
            "event": "config_reload", "outcome": problems.isEmpty ? "success" : "failure", "config": "\(hash)",
        ]
        guard !problems.isEmpty else { return logger.notice("configuration reloaded", metadata: values) }
        values["count"] = "\(problems.count)"
        values["problems"] = .array(
            problems.prefix(Self.maxListedProblems).map { .string(String($0.prefix(Self.problemLimit))) })
        logger.error("configuration not reloaded, the old one stays in effect", metadata: values)
    }

    private func write(
        _ message: Logger.Message, _ values: Logger.Metadata, _ origin: AuditContext, level: Logger.Level = .notice
    ) {
        var metadata = values
        // What begins in the gateway itself comes from nobody.
        if !origin.peer.isEmpty { metadata["peer"] = "\(origin.peer)" }
        if !origin.requestID.isEmpty { metadata["request_id"] = "\(origin.requestID)" }
        logger.log(level: level, message, metadata: metadata)
    }

    private static func list(_ sessions: [SessionID], _ tokens: AccountEvent.EndedTokens) -> Logger.Metadata {
        [
            "tokens": "\(tokens.rawValue)",
            "count": "\(sessions.count)",
            "sessions": .array(sessions.prefix(maxListedSessions).map { .string("\($0)") }),
        ]
    }

    private static func hex(_ value: UInt64) -> String {
        var text = LineBuffer(reserving: 16)
        text.appendHex(value)
        return text.text
    }
}
