public import CloakroomCore

/// Who is told what becomes of sessions. Called on whatever thread found out; must not wait.
public struct SessionStoreCallbacks: Sendable {
    /// Called once for each new session that was made here.
    public var onCreated: @Sendable () -> Void
    /// Called once for each session that ended here.
    public var onEnded: @Sendable (SessionEndReason) -> Void
    /// What the store keeps under this name cannot be read.
    public var onUnreadable: @Sendable (SessionID) -> Void

    /// Tells nobody, unless told otherwise.
    public init(
        onCreated: @escaping @Sendable () -> Void = {},
        onEnded: @escaping @Sendable (SessionEndReason) -> Void = { _ in },
        onUnreadable: @escaping @Sendable (SessionID) -> Void = { _ in }
    ) {
        self.onCreated = onCreated
        self.onEnded = onEnded
        self.onUnreadable = onUnreadable
    }
}
