/// Stores timed marks next to the sessions, so that replicas share them: that a login or a logout token was used, and
/// when a provider has ended a session.
public protocol MarkStore: Sendable {
    /// Sets a mark unless it exists with the same or a later time. Of concurrent calls with one key and time, in any
    /// replica, exactly one sets it.
    /// - Parameters:
    ///   - time: What the mark states, if that has a time; otherwise 0.
    ///   - lifetime: The mark may be deleted after this duration, 1 s to 1 h.
    /// - Returns: Whether this call set the mark.
    func setMark(
        _ key: MarkKey, to time: WallTime, lifetime: Duration, now: SessionTime
    ) async throws(SessionStoreError) -> Bool
    /// The latest time of those of the marks that exist; `nil` if none does.
    func latestMark(_ keys: [MarkKey], now: SessionTime) async throws(SessionStoreError) -> WallTime?
}

/// The key of a mark. What it is about is hashed under a key of the gateway.
public struct MarkKey: Sendable, Hashable {
    /// What a mark states.
    public enum Scope: UInt8, Sendable, Hashable, CaseIterable {
        /// A login has returned from its provider.
        case usedLogin = 1
        case logoutToken = 2
        /// A provider has ended a session, or all sessions of a subject. The mark has the time.
        case endedAtProvider = 3
    }

    /// What the mark states.
    public let scope: Scope
    /// The keyed hash.
    public let hash: UInt64

    package init(_ scope: Scope, hash: UInt64) {
        self.scope = scope
        self.hash = hash
    }
}

extension MarkStore {
    /// Sets a mark without a time under several keys unless it exists under one of them.
    ///
    /// While secrets are rotated, replicas do not have the same ones: a mark is set under the keys of all secrets
    /// (``AccountHasher/marks(_:of:)``), of which every other replica has at least one. All replicas use one order, so
    /// that the first key that two of them have in common decides.
    /// - Returns: Whether this call set the mark.
    public func setMark(
        _ keys: [MarkKey], lifetime: Duration, now: SessionTime
    ) async throws(SessionStoreError) -> Bool {
        for key in keys.sorted(by: { $0.hash < $1.hash }) {
            guard try await setMark(key, to: WallTime(milliseconds: 0), lifetime: lifetime, now: now) else {
                return false
            }
        }
        return true
    }

    /// Whether one of the marks exists.
    public func hasMark(_ keys: [MarkKey], now: SessionTime) async throws(SessionStoreError) -> Bool {
        try await latestMark(keys, now: now) != nil
    }
}

extension AccountHasher {
    /// Returns the keys of a mark under all secrets.
    /// - Parameter parts: What the mark is about.
    public func marks(_ scope: MarkKey.Scope, of parts: [[UInt8]]) -> [MarkKey] {
        keys.map { MarkKey(scope, hash: $0.hash(scope: scope.rawValue, parts)) }
    }
}
