public import CloakroomCore
public import Logging

/// Security-relevant events, each a log line with a stable `event`. Users appear as keyed hashes computed by the
/// caller, sessions by their 16 public digits. The interface accepts no e-mail addresses and no tokens.
public struct AuditLog: Sendable {
    /// The maximum number of sessions listed in one line; the line also contains the total.
    static let maxListedSessions = 32
    /// The maximum number of problems listed in one line, and the maximum length of each in characters.
    static let maxListedProblems = 20
    static let problemLimit = 500

    let logger: Logger
    /// Limits the lines about logout requests, which any client can send.
    let rejectedLogouts = LogRateLimiter()
    /// Limits the lines about failed logins, which any client can cause, by outcome.
    let failedLogins = Dictionary(
        uniqueKeysWithValues: AccountEvent.LoginOutcome.allCases.map { ($0, LogRateLimiter(limit: 10)) })
    /// The same for sign-ins that cost a client nothing. The others reach the upstream, as often as the throttle permits.
    private let cheapSignIns: [AccountEvent.SignInOutcome: LogRateLimiter] = [
        .invalid: LogRateLimiter(limit: 10), .throttled: LogRateLimiter(limit: 10),
    ]
    let failedExchanges = LogRateLimiter()
    let rejectedTokens = LogRateLimiter()
    let ownTokens = LogRateLimiter()
    private let failures = LogRateLimiter()
    /// One limiter per call: clients can cause sign-in failures, which must not suppress lines about failed token
    /// refreshes.
    private let misconfigurations = Self.limiters
    /// As ``misconfigurations``, for responses of providers that are rejected.
    let rejectedResponses = Self.limiters
    /// As ``misconfigurations``, for calls without a usable result.
    let failedCalls = Self.limiters
    private static var limiters: [TokenClientError.Operation: LogRateLimiter] {
        Dictionary(uniqueKeysWithValues: TokenClientError.Operation.allCases.map { ($0, LogRateLimiter()) })
    }

    /// - Parameter logger: Its handler determines the output. Lines have level `notice`, temporary failures `warning`,
    ///   a rejected configuration `error`.
    public init(logger: Logger) {
        self.logger = logger
    }

    /// Logs a sign-in attempt. `user` is `nil` if the request contained no user name.
    ///
    /// At most 10 lines per 10 s and outcome are written about attempts that are invalid or throttled, with the number of
    /// suppressed lines.
    /// - Parameter now: The wall-clock time.
    public func signIn(
        _ outcome: AccountEvent.SignInOutcome, user: UInt64?, origin: AuditContext, now: WallTime
    ) {
        var values: Logger.Metadata = ["event": "sign_in", "outcome": "\(outcome.rawValue)"]
        if let user { values["user"] = "\(Self.hex(user))" }
        write("sign-in attempted", values, origin, limitedBy: cheapSignIns[outcome], at: now)
    }

    /// Logs a sign-out.
    public func signOut(_ session: SessionID, origin: AuditContext) {
        let kind = SignOutKind.user.rawValue
        write("signed out", ["event": "sign_out", "kind": "\(kind)", "session": "\(session)"], origin)
    }

    /// Logs that a user ended other sessions of the account.
    /// - Parameter session: The session of the request.
    public func signOutOthers(
        _ sessions: [SessionID], by session: SessionID, tokens: AccountEvent.EndedTokens, origin: AuditContext
    ) {
        var values = Self.list(sessions, tokens)
        values["event"] = "sign_out_others"
        values["kind"] = "\(SignOutKind.everywhere.rawValue)"
        values["session"] = "\(session)"
        write("other sessions ended", values, origin)
    }

    /// Logs that an operator ended sessions.
    public func revoked(_ sessions: [SessionID], tokens: AccountEvent.EndedTokens, origin: AuditContext) {
        var values = Self.list(sessions, tokens)
        values["event"] = "sessions_revoked"
        values["kind"] = "\(SignOutKind.admin.rawValue)"
        write("sessions revoked", values, origin)
    }

    /// Logs that a sign-in ended the oldest sessions of an account because of the session limit.
    public func evicted(_ sessions: [SessionID], tokens: AccountEvent.EndedTokens, origin: AuditContext) {
        var values = Self.list(sessions, tokens)
        values["event"] = "sessions_evicted"
        write("oldest sessions ended", values, origin)
    }

    /// Logs that the tokens of a session could not be revoked at the upstream, where they stay valid until they expire.
    public func revokeFailed(_ session: SessionID, origin: AuditContext) {
        write(
            "tokens could not be revoked upstream", ["event": "revoke_failed", "session": "\(session)"], origin)
    }

    /// Logs that the upstream permanently rejected a token refresh, which ends the session.
    public func refreshRejected(_ session: SessionID, origin: AuditContext) {
        write("token refresh rejected", ["event": "refresh_rejected", "session": "\(session)"], origin)
    }

    /// Logs that a token refresh failed temporarily; the session stays valid. If an upstream or a store is down,
    /// refreshes fail for all sessions, so at most one line per 10 s is written, with the number of suppressed lines.
    /// - Parameter now: The wall-clock time.
    public func refreshFailed(
        _ result: AccountEvent.RefreshResult, _ session: SessionID, origin: AuditContext, now: WallTime
    ) {
        write(
            "token refresh failed",
            ["event": "refresh_failed", "outcome": "\(result.rawValue)", "session": "\(session)"], origin,
            level: .warning, limitedBy: failures, at: now)
    }

    /// Logs that the upstream rejected an identity call because the configuration of the gateway does not fit. Such
    /// calls fail for all users, so at most one line per 10 s and call is written, with the number of suppressed lines.
    /// - Parameters:
    ///   - identity: The name of the provider; `nil` for the upstream that signs users in.
    ///   - now: The wall-clock time.
    public func identityMisconfigured(
        _ reason: IdentityMisconfiguration, call: TokenClientError.Operation, identity: String?, origin: AuditContext,
        now: WallTime
    ) {
        var values: Logger.Metadata = [
            "event": "identity_misconfigured", "call": "\(call.rawValue)", "reason": "\(reason.rawValue)",
            "hint": "\(reason.hint(in: call))",
        ]
        if let identity { values["identity"] = "\(identity)" }
        write(
            "identity call rejected by the upstream", values, origin, level: .error, limitedBy: misconfigurations[call],
            at: now)
    }

    /// Logs an invalid token lifetime from an upstream. Such tokens are used until the upstream rejects them.
    public func tokenLifetimeInvalid(upstream: String) {
        logger.warning(
            "invalid token lifetime, treated as unknown",
            metadata: ["event": "token_lifetime_invalid", "upstream": "\(upstream)"])
    }

    /// Logs that a session record cannot be read: it is damaged, or sealed under an unknown secret. Only this session
    /// is lost.
    public func sessionUnreadable(_ session: SessionID) {
        logger.notice(
            "stored session cannot be read", metadata: ["event": "session_unreadable", "session": "\(session)"])
    }

    /// Logs a configuration reload.
    /// - Parameters:
    ///   - hash: The first digits of the SHA-256 of the effective file.
    ///   - problems: The errors that rejected the new configuration; empty if it was applied. The line contains the
    ///     first ``maxListedProblems`` and the total number.
    public func configReloaded(hash: String, problems: [String] = []) {
        var values: Logger.Metadata = [
            "event": "config_reload", "outcome": problems.isEmpty ? "success" : "failure", "config": "\(hash)",
        ]
        guard !problems.isEmpty else { return logger.notice("configuration reloaded", metadata: values) }
        values["count"] = .stringConvertible(problems.count)
        values["problems"] = .array(
            problems.prefix(Self.maxListedProblems).map { .string(String($0.prefix(Self.problemLimit))) })
        logger.error("configuration reload rejected, previous configuration kept", metadata: values)
    }

    /// - Parameter limiter: Limits the lines; those that are written have the number of suppressed ones.
    func write(
        _ message: Logger.Message, _ values: @autoclosure () -> Logger.Metadata,
        _ origin: AuditContext = AuditContext(),
        level: Logger.Level = .notice, limitedBy limiter: LogRateLimiter? = nil, at now: WallTime = WallTime(seconds: 0)
    ) {
        let suppressed = limiter.map { $0.allow(at: now) }
        if case .some(nil) = suppressed { return }
        var metadata = values()
        if case let suppressed?? = suppressed { metadata["suppressed"] = .stringConvertible(suppressed) }
        // Events caused by the gateway itself have no peer.
        if !origin.peer.isEmpty { metadata["peer"] = "\(origin.peer)" }
        if !origin.requestID.isEmpty { metadata["request_id"] = "\(origin.requestID)" }
        logger.log(level: level, message, metadata: metadata)
    }

    static func list(_ sessions: [SessionID], _ tokens: AccountEvent.EndedTokens) -> Logger.Metadata {
        [
            "tokens": "\(tokens.rawValue)",
            "count": .stringConvertible(sessions.count),
            "sessions": .array(sessions.prefix(maxListedSessions).map { .string("\($0)") }),
        ]
    }

    /// The `user` of a line: 16 hexadecimal digits.
    /// - Parameter hash: The keyed hash of the account.
    public static func user(_ hash: UInt64) -> String { hex(hash) }

    static func hex(_ value: UInt64) -> String {
        var text = LineBuffer(reserving: 16)
        text.appendHex(value)
        return text.text
    }
}
