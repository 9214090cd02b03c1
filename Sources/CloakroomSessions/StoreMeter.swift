import CloakroomCore

/// An operation on a store outside the process, as metrics name it.
public enum SessionStoreOperation: String, Sendable, Hashable, CaseIterable {
    /// Insert a new session.
    case insert
    /// Read a session.
    case read
    /// Save the changes of a session.
    case replace
    /// Remove a session.
    case remove
    /// Record uses of sessions.
    case touch
    /// Acquire the lease for a refresh.
    case lease
    /// Release the lease.
    case release
    /// List the sessions of an account or of a session at a provider, or choose those in excess.
    case list
    /// Read the cutoffs of accounts and of sessions at providers.
    case cutoffRead = "cutoff_read"
    /// Set the cutoff of an account or of a session at a provider.
    case cutoffWrite = "cutoff_write"
    /// Read the state of the sign-in throttle.
    case throttleRead = "throttle_read"
    /// Change the state of the sign-in throttle.
    case throttleWrite = "throttle_write"
    /// Read timed marks.
    case markRead = "mark_read"
    /// Set a timed mark.
    case markWrite = "mark_write"
}

/// Measures the duration of each operation of a store outside the process, and whether it failed.
struct StoreMeter: Sendable {
    /// Called on any thread with the reason of a failure; must not wait.
    var onFailure: @Sendable (SessionStoreOperation, SessionStoreError.Reason) -> Void = { _, _ in }
    /// Called on any thread; must not wait.
    var onOperation: @Sendable (SessionStoreOperation, _ isSuccess: Bool, _ nanoseconds: UInt64) -> Void = { _, _, _ in
    }

    /// - Parameter failure: The failure that a result contains, if any.
    func measure<Result>(
        _ operation: SessionStoreOperation, failure: (Result) -> SessionStoreError? = { _ in nil },
        _ body: @autoclosure () async throws(SessionStoreError) -> Result
    ) async throws(SessionStoreError) -> Result {
        let start = ContinuousClock.now
        do throws(SessionStoreError) {
            let result = try await body()
            report(operation, failure(result), since: start)
            return result
        } catch {
            report(operation, error, since: start)
            throw error
        }
    }

    private func report(
        _ operation: SessionStoreOperation, _ failure: SessionStoreError?, since start: ContinuousClock.Instant
    ) {
        onOperation(operation, failure == nil, (ContinuousClock.now - start).wholeNanoseconds)
        if let failure { onFailure(operation, failure.reason) }
    }
}
