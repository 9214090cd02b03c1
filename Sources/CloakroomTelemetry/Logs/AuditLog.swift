public import CloakroomCore
public import Logging

/// Events that somebody may have to account for, each a log line of its own with a stable `event`. Users and sessions are
/// named by keyed hashes that the caller computes; e-mail addresses and tokens have no way in.
public struct AuditLog: Sendable {
    private let logger: Logger

    /// - Parameter logger: its handler decides where the lines go. They are written at level `notice`.
    public init(logger: Logger) {
        self.logger = logger
    }

    /// Somebody tried to sign in. `user` is `nil` when the request named nobody.
    public func signIn(_ outcome: AccountEvent.SignInOutcome, user: UInt64?, origin: RequestOrigin) {
        var values: Logger.Metadata = ["event": "sign_in", "outcome": "\(outcome.rawValue)"]
        if let user { values["user"] = "\(Self.hex(user))" }
        write("sign-in attempted", values, origin)
    }

    /// Somebody signed out, or was signed out.
    public func signOut(_ kind: SignOutKind, session: UInt64, origin: RequestOrigin) {
        write(
            "signed out",
            ["event": "sign_out", "kind": "\(kind.rawValue)", "session": "\(Self.hex(session))"], origin)
    }

    /// The upstream could not be told that a session's tokens are void: they live on there until they end.
    public func revokeFailed(session: UInt64, origin: RequestOrigin) {
        write(
            "tokens could not be revoked upstream", ["event": "revoke_failed", "session": "\(Self.hex(session))"],
            origin)
    }

    private func write(_ message: Logger.Message, _ values: Logger.Metadata, _ origin: RequestOrigin) {
        var metadata = values
        metadata["peer"] = "\(origin.peer)"
        metadata["request_id"] = "\(origin.requestID)"
        logger.notice(message, metadata: metadata)
    }

    private static func hex(_ value: UInt64) -> String {
        var text = LineBuffer(reserving: 16)
        text.appendHex(value)
        return text.text
    }
}
