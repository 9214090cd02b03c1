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
    let cheapSignIns: [AccountEvent.SignInOutcome: LogRateLimiter] = [
        .invalid: LogRateLimiter(limit: 10), .throttled: LogRateLimiter(limit: 10),
    ]
    let failedExchanges = LogRateLimiter()
    let rejectedTokens = LogRateLimiter()
    let ownTokens = LogRateLimiter()
    let rejectedProofs = LogRateLimiter(limit: 10)
    let unproven = LogRateLimiter(limit: 10)
    let failures = LogRateLimiter()
    /// One limiter per call: clients can cause sign-in failures, which must not suppress lines about failed token
    /// refreshes.
    let misconfigurations = Self.limiters
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

    /// Logs an invalid token lifetime from an upstream. Such tokens are used until the upstream rejects them.
    public func tokenLifetimeInvalid(upstream: String) {
        write(
            "invalid token lifetime, treated as unknown",
            ["event": "token_lifetime_invalid", "upstream": "\(upstream)"], level: .warning)
    }

    /// Logs that a session record cannot be read: it is damaged, or sealed under an unknown secret. Only this session
    /// is lost.
    public func sessionUnreadable(_ session: SessionID) {
        write(
            "stored session cannot be read",
            [
                "event": "session_unreadable", "session": "\(session)",
                "hint": "check that all gateways have the same session.secrets; otherwise the record is damaged",
            ])
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
        if let app = origin.app { metadata["app"] = "\(app)" }
        if origin.isBound { metadata["bound"] = .stringConvertible(true) }
        // Events caused by the gateway itself have no peer.
        if !origin.peer.isEmpty { metadata["peer"] = "\(origin.peer)" }
        if !origin.requestID.isEmpty { metadata["request_id"] = "\(origin.requestID)" }
        logger.log(level: level, message, metadata: metadata)
    }

    /// The `user` of a line: 16 hexadecimal digits.
    /// - Parameter hash: The keyed hash of the account.
    public static func user(_ hash: UInt64) -> String {
        var text = LineBuffer(reserving: 16)
        text.appendHex(hash)
        return text.text
    }
}
