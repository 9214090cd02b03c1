import CloakroomCore
import Synchronization

/// A token client that issues numbered tokens and can be made to wait and to fail.
final class RotatingClient: TokenClient {
    private struct State {
        var isHeld = false
        var held: [CheckedContinuation<Void, Never>] = []
        var failures: [TokenClientError.Kind] = []
        var user: Result<[UInt8]?, TokenClientError> = .success(nil)
        var provenance: SessionProvenance?
        var userProvenance: SessionProvenance?
        var life: Duration? = .seconds(300)
        var given = 0
        var refreshed: [Secret?] = []
        var revoked: [Secret?] = []
        var traceparents: [String?] = []
        var userCalls = 0
        var replaced: [Secret?] = []
        var onUser: (@Sendable () async -> Void)?
        var onRevoke: (@Sendable () async -> Void)?
        var rotates = true
        var isOfOtherUser = false
    }

    private let state = Mutex(State())
    let supportsRefresh: Bool

    init(supportsRefresh: Bool = true) { self.supportsRefresh = supportsRefresh }

    /// The refresh tokens that were presented.
    var refreshed: [Secret?] { state.withLock { $0.refreshed } }
    /// The refresh tokens that were revoked.
    var revoked: [Secret?] { state.withLock { $0.revoked } }
    var traceparents: [String?] { state.withLock { $0.traceparents } }
    var userCalls: Int { state.withLock { $0.userCalls } }
    /// The replaced refresh token of each call for the user's data.
    var replaced: [Secret?] { state.withLock { $0.replaced } }

    /// Makes refreshes wait for ``letGo()``.
    func hold() { state.withLock { $0.isHeld = true } }

    func letGo() {
        let held = state.withLock { state in
            state.isHeld = false
            defer { state.held = [] }
            return state.held
        }
        for continuation in held { continuation.resume() }
    }

    /// Makes the next refreshes fail with these errors, one after the other.
    func fail(_ kinds: TokenClientError.Kind...) { state.withLock { $0.failures += kinds } }
    /// Sets the lifetime of the access tokens issued from now on.
    func giveLife(_ life: Duration?) { state.withLock { $0.life = life } }
    /// Sets what refreshes state from now on.
    func state(provenance: SessionProvenance) { state.withLock { $0.provenance = provenance } }
    /// Sets what the provider states about the user from now on, after a refresh.
    func state(user provenance: SessionProvenance?) { state.withLock { $0.userProvenance = provenance } }
    func respondWithUser(_ result: Result<[UInt8]?, TokenClientError>) { state.withLock { $0.user = result } }
    /// Called while the user is being fetched.
    func onUser(_ body: @escaping @Sendable () async -> Void) { state.withLock { $0.onUser = body } }

    /// Called while tokens are being revoked.
    func onRevoke(_ body: @escaping @Sendable () async -> Void) { state.withLock { $0.onRevoke = body } }
    /// Makes refreshes issue tokens of another user.
    func becomeOtherUser() { state.withLock { $0.isOfOtherUser = true } }
    /// Makes refreshes return the presented refresh token.
    func keepRefreshTokens() { state.withLock { $0.rotates = false } }

    func refresh(
        _ session: Session, traceparent: String?, now: WallTime
    ) async throws(TokenClientError) -> SessionUpdate {
        IdentityCallTime.current?.add(nanoseconds: 1)
        await withCheckedContinuation { continuation in
            let goesOn = state.withLock { state in
                state.refreshed.append(session.tokens.refreshToken)
                state.traceparents.append(traceparent)
                if state.isHeld { state.held.append(continuation) }
                return !state.isHeld
            }
            if goesOn { continuation.resume() }
        }
        let failure = state.withLock { $0.failures.isEmpty ? nil : $0.failures.removeFirst() }
        if let failure { throw TokenClientError(failure, in: .refresh) }
        let (tokens, provenance, isOfOtherUser) = state.withLock { state in
            state.given += 1
            let tokens = TokenSet(
                authorization: Secret("Bearer canary-renewed-\(state.given)"),
                refreshToken: state.rotates
                    ? Secret("canary-successor-\(state.given)") : session.tokens.refreshToken,
                accessTokenExpiresAt: state.life.map { now + $0 }, obtainedAt: now)
            return (tokens, state.provenance, state.isOfOtherUser)
        }
        if isOfOtherUser { throw TokenClientError(.rejected, in: .refresh, foreign: tokens) }
        return SessionUpdate(tokens: tokens, provenance: provenance)
    }

    func updatedUser(
        of session: Session, replacing previous: TokenSet, traceparent: String?
    ) async throws(TokenClientError) -> SessionUpdate? {
        let (result, onUser, provenance) = state.withLock { state in
            state.userCalls += 1
            state.replaced.append(previous.refreshToken)
            state.traceparents.append(traceparent)
            return (state.user, state.onUser, state.userProvenance)
        }
        await onUser?()
        if let provenance { return SessionUpdate(provenance: provenance) }
        return try result.get().map { SessionUpdate(userJSON: $0) }
    }

    func revoke(_ tokens: TokenSet, traceparent: String?) async throws(TokenClientError) {
        let onRevoke = state.withLock { state in
            state.revoked.append(tokens.refreshToken)
            state.traceparents.append(traceparent)
            return state.onRevoke
        }
        await onRevoke?()
    }
}
