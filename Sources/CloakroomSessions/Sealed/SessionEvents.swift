public import CloakroomCore

/// Callbacks for events of sessions. Called on the thread that detected the event; must not wait.
public struct SessionStoreCallbacks: Sendable {
    /// Called once for each session that was created here.
    public var onCreated: @Sendable () -> Void
    /// Called once for each session that ended here.
    public var onEnded: @Sendable (SessionEndReason) -> Void
    /// Called if the record with this id cannot be read.
    public var onUnreadable: @Sendable (SessionID) -> Void

    /// Creates callbacks that do nothing by default.
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
