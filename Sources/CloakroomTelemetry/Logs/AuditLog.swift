public import Logging

/// Events that somebody may have to account for, each a log line of its own with a stable `event`. A user is named by a
/// keyed hash that the caller computes; e-mail addresses and tokens have no way in.
public struct AuditLog: Sendable {
    private let logger: Logger

    /// - Parameter logger: its handler decides where the lines go. They are written at level `notice`.
    public init(logger: Logger) {
        self.logger = logger
    }

    /// Somebody tried to sign in. `user` is `nil` when the request named nobody.
    public func signIn(_ outcome: SignInOutcome, user: UInt64?, peer: String, requestID: Identifier128?) {
        write("sign-in attempted", "sign_in", ["outcome": "\(outcome.rawValue)", "peer": "\(peer)"], user, requestID)
    }

    /// Somebody signed out, or was signed out.
    public func signOut(_ kind: SignOutKind, user: UInt64?, peer: String, requestID: Identifier128?) {
        write("signed out", "sign_out", ["kind": "\(kind.rawValue)", "peer": "\(peer)"], user, requestID)
    }

    /// A session ended. `session` is a keyed hash of its id.
    public func sessionEnded(_ reason: SessionEndReason, session: UInt64, user: UInt64?) {
        write(
            "session ended", "session_ended",
            ["reason": "\(reason.rawValue)", "session": "\(Self.hex(session))"], user, nil)
    }

    /// A configuration took effect. `hash` identifies it, `source` is where it came from.
    public func configLoaded(hash: String, source: String) {
        write("configuration loaded", "config_loaded", ["config_hash": "\(hash)", "source": "\(source)"], nil, nil)
    }

    private func write(
        _ message: Logger.Message, _ event: String, _ values: Logger.Metadata, _ user: UInt64?,
        _ requestID: Identifier128?
    ) {
        var metadata = values
        metadata["event"] = "\(event)"
        if let user { metadata["user"] = "\(Self.hex(user))" }
        if let requestID { metadata["request_id"] = "\(requestID)" }
        logger.notice(message, metadata: metadata)
    }

    private static func hex(_ value: UInt64) -> String {
        var text = LineBuffer(reserving: 16)
        text.appendHex(value)
        return text.text
    }
}
