package import CloakroomCore
import Synchronization

/// The tokens that were exchanged for single upstreams (RFC 8693): one exchange per session and upstream at a time, and
/// its token for later requests.
///
/// Tokens are kept in this process only, each until a fifth of its lifetime is left, the tokens of its session change, or
/// its upstream rejects it.
/// A key consists of the whole key of the session and the upstream, so no upstream receives the token of another.
///
/// An exchange runs in a task of its own, which a cancelled request does not cancel.
package final class ExchangedTokens: TokenExchanging, Unprintable {
    /// Exchanges a session's access token: ``OpenIDProvider/exchange(_:for:traceparent:)``.
    package typealias Exchange =
        @Sendable (_ session: Session, _ upstream: Int, _ traceparent: String?) async throws(TokenClientError) ->
        ExchangedToken

    /// The maximum time that a token without a known lifetime is kept.
    static let unknownLifetime = Duration.seconds(300)
    /// The maximum number of exchanges that one request waits for: a second one if the first was that of another request
    /// with earlier tokens.
    private static let attempts = 2
    private static let busy = ExchangeOutcome.unavailable(status: 503, retryAfter: 1)

    private let refresher: any TokenRefreshing
    private let observer: any AccountObserver
    private let clock: @Sendable () -> WallTime
    private let exchange: Exchange
    private let maxWaiters: Int
    private let shards: [Shard]
    private let waiters = Atomic(0)

    /// Creates an empty cache.
    /// - Parameters:
    ///   - refresher: Refreshes the tokens of a session whose access token the provider rejects.
    ///   - clock: The wall clock by which tokens are evaluated.
    ///   - maxEntries: The maximum number of tokens.
    ///   - maxWaiters: The maximum number of requests that wait for exchanges.
    package init(
        refresher: any TokenRefreshing, observer: any AccountObserver, clock: @escaping @Sendable () -> WallTime,
        maxEntries: Int = 100_000, maxWaiters: Int = 10_000, exchange: @escaping Exchange
    ) {
        self.refresher = refresher
        self.observer = observer
        self.clock = clock
        self.exchange = exchange
        self.maxWaiters = maxWaiters
        let count = 16
        shards = (0..<count).map { _ in Shard(limit: max(1, maxEntries / count)) }
    }

    /// Creates the cache of a configuration.
    package convenience init(
        providers: [OpenIDProvider], refresher: any TokenRefreshing, observer: any AccountObserver,
        clock: @escaping @Sendable () -> WallTime
    ) {
        let providers = Dictionary(providers.map { ($0.source, $0) }, uniquingKeysWith: { first, _ in first })
        self.init(refresher: refresher, observer: observer, clock: clock) {
            (session, upstream, traceparent) throws(TokenClientError) in
            guard let provider = providers[session.source] else {
                throw TokenClientError(.misconfigured(.requestRejected), in: .exchange)
            }
            return try await provider.exchange(session, for: upstream, traceparent: traceparent)
        }
    }

    /// The number of tokens, exchanges in progress and back-offs.
    var count: Int { shards.reduce(0) { $0 + $1.state.withLock(\.entries.count) } }

    package func cached(_ session: Session, upstream: Int, now: WallTime) -> Secret? {
        let key = Key(session: session.key, upstream: upstream)
        return shard(of: key).state.withLock { $0.entries[key]?.usableToken(for: session, now: now) }
    }

    package func exchange(
        _ session: Session, ticket: SessionTicket?, upstream: Int, traceparent: String?
    ) async -> ExchangeOutcome {
        defer { waiters.wrappingSubtract(1, ordering: .relaxed) }
        guard waiters.wrappingAdd(1, ordering: .relaxed).newValue <= maxWaiters else { return Self.busy }
        let key = Key(session: session.key, upstream: upstream)
        var outcome = Self.busy
        for _ in 0..<Self.attempts {
            switch begin(key, session, ticket: ticket, traceparent: traceparent) {
            case .outcome(let outcome): return outcome
            case .flight(let flight, let isJoined):
                let wait = JoinedWait()
                if isJoined { wait.begin() }
                let result = await flight.value
                wait.end()
                outcome = result.outcome
                // The exchange of a request with earlier tokens does not serve this one.
                if case .active = outcome, result.version < session.version { continue }
                return outcome
            }
        }
        return outcome
    }
}

// MARK: - Tokens that their upstreams reject

extension ExchangedTokens {
    package func drop(_ token: Secret, of session: Session, upstream: Int) -> Bool {
        let now = clock()
        let key = Key(session: session.key, upstream: upstream)
        return shard(of: key).state.withLock { $0.entries[key]?.drop(token, now: now) ?? true }
    }
}

// MARK: - One exchange

extension ExchangedTokens {
    private struct Key: Hashable, Sendable {
        let session: SessionKey
        let upstream: Int
    }

    /// The result of an exchange, and the version of the session whose access token was exchanged.
    private struct Result: Sendable {
        let outcome: ExchangeOutcome
        let version: UInt64
        var token: ExchangedToken?
    }

    private enum Start {
        case outcome(ExchangeOutcome)
        /// An exchange, and whether another request started it.
        case flight(Task<Result, Never>, isJoined: Bool)
    }

    private func begin(_ key: Key, _ session: Session, ticket: SessionTicket?, traceparent: String?) -> Start {
        let now = clock()
        return shard(of: key).state.withLock { shard in
            if let entry = shard.entries[key] {
                if let token = entry.usableToken(for: session, now: now) { return .outcome(.active(token)) }
                if let flight = entry.flight { return .flight(flight, isJoined: true) }
                if let problem = entry.backoff.result(at: now) { return .outcome(.failed(problem)) }
            }
            shard.makeRoom(now: now)
            let flight = Task {
                let result = await self.run(session, ticket: ticket, upstream: key.upstream, traceparent: traceparent)
                self.finish(key, result)
                return result
            }
            shard.entries[key, default: Entry()].flight = flight
            return .flight(flight, isJoined: false)
        }
    }

    private func finish(_ key: Key, _ result: Result) {
        let now = clock()
        shard(of: key).state.withLock { shard in
            shard.entries[key]?.flight = nil
            switch result.outcome {
            case .active:
                shard.entries[key]?.backoff = RefreshBackoff()
                guard let token = result.token else { return }
                shard.entries[key]?.token = Entry.Token(token, version: result.version)
            case .failed(let problem):
                shard.entries[key]?.backoff.note(problem, spread: key.session.word2, now: now)
            case .ended:
                shard.entries[key] = nil
            }
        }
    }

    private func run(
        _ session: Session, ticket: SessionTicket?, upstream: Int, traceparent: String?
    ) async -> Result {
        let start = clock()
        let (result, event) = await exchangeOrRefresh(
            session, ticket: ticket, upstream: upstream, traceparent: traceparent)
        observer.accountEvent(
            .tokenExchange(event, session.id, upstream: upstream, duration: max(.zero, clock() - start)),
            from: AuditContext().about(session))
        return result
    }

    /// Exchanges the access token. If the provider rejects it, the session's tokens are refreshed, and the new one is
    /// exchanged once.
    private func exchangeOrRefresh(
        _ session: Session, ticket: SessionTicket?, upstream: Int, traceparent: String?
    ) async -> (Result, AccountEvent.ExchangeResult) {
        let rejection: TokenClientError
        do throws(TokenClientError) {
            return (try await exchanged(session, upstream, traceparent), .success)
        } catch {
            rejection = error
        }
        guard let ticket, suggestsRefresh(rejection, session) else { return failure(rejection, session) }
        switch await refresher.refresh(session, ticket: ticket, cause: .rejected, traceparent: traceparent) {
        case .active(let refreshed):
            guard refreshed.version > session.version else { return failure(rejection, session) }
            do throws(TokenClientError) {
                return (try await exchanged(refreshed, upstream, traceparent), .success)
            } catch {
                return failure(error, refreshed)
            }
        case .ended(let reason): return (Result(outcome: .ended(reason), version: session.version), .ended)
        case .failed(let problem):
            return (
                Result(outcome: .failed(problem), version: session.version),
                problem.code == .identityMisconfigured ? .misconfigured : .transient
            )
        }
    }

    private func exchanged(
        _ session: Session, _ upstream: Int, _ traceparent: String?
    ) async throws(TokenClientError) -> Result {
        let token = try await exchange(session, upstream, traceparent)
        return Result(outcome: .active(token.authorization), version: session.version, token: token)
    }

    /// Whether another access token may be accepted.
    ///
    /// For an invalid token providers respond with `invalid_request`, as RFC 8693 §2.2.2 requires, or with one of the two
    /// other codes. `invalid_request` may have other causes, so it refreshes no tokens that were issued a moment ago.
    private func suggestsRefresh(_ error: TokenClientError, _ session: Session) -> Bool {
        switch error.kind {
        case .denied("invalid_grant"), .denied("invalid_token"): true
        case .misconfigured(.invalidRequest):
            clock() - session.tokens.issuedAt >= RefreshSchedule.minimumInterval
        default: false
        }
    }

    private func failure(_ error: TokenClientError, _ session: Session) -> (Result, AccountEvent.ExchangeResult) {
        observer.note(error, of: session.provenance?.identity)
        return (
            Result(outcome: .failed(error.kind.tokenProblem), version: session.version), error.kind.effects.exchange
        )
    }
}

// MARK: - Storage

extension ExchangedTokens {
    private struct Entry {
        struct Token {
            let authorization: Secret
            let version: UInt64
            let usableUntil: WallTime

            init(_ token: ExchangedToken, version: UInt64) {
                authorization = token.authorization
                self.version = version
                let lifetime = token.expiresAt.map { max(.zero, $0 - token.issuedAt) }
                usableUntil = token.issuedAt + (lifetime.map { $0 / 5 * 4 } ?? ExchangedTokens.unknownLifetime)
            }
        }

        var token: Token?
        var flight: Task<Result, Never>?
        var backoff = RefreshBackoff()
        /// When a token was dropped because the upstream rejected it.
        var droppedAt: WallTime?

        /// A token that was exchanged for the session's access token or a later one.
        func usableToken(for session: Session, now: WallTime) -> Secret? {
            guard let token, token.version >= session.version, now < token.usableUntil else { return nil }
            return token.authorization
        }

        /// Drops a token, unless one was dropped a moment ago.
        /// - Returns: Whether it is not in use any more, also because another one has replaced it.
        mutating func drop(_ rejected: Secret, now: WallTime) -> Bool {
            guard token?.authorization == rejected else { return true }
            guard !hasJustDropped(at: now) else { return false }
            token = nil
            droppedAt = now
            return true
        }

        private func hasJustDropped(at now: WallTime) -> Bool {
            guard let droppedAt else { return false }
            return now >= droppedAt && now - droppedAt < RefreshCoordinator.rejectionRetryInterval
        }

        func isExpired(at now: WallTime) -> Bool {
            flight == nil && (token.map { now >= $0.usableUntil } ?? true) && backoff.isExpired(at: now)
                && !hasJustDropped(at: now)
        }
    }

    /// A part of the entries, so that event loops rarely wait for the same lock.
    private final class Shard: Sendable {
        struct State {
            let limit: Int
            var entries: [Key: Entry] = [:]
            private var sweepAt = 64

            init(limit: Int) { self.limit = limit }

            /// Removes expired entries each time the number of entries has doubled. If all are in use, an eighth of them
            /// is removed: their sessions exchange their tokens once more.
            mutating func makeRoom(now: WallTime) {
                guard entries.count >= min(sweepAt, limit) else { return }
                entries = entries.filter { !$0.value.isExpired(at: now) }
                if entries.count >= limit {
                    let removable = entries.lazy.filter { $0.value.flight == nil }.prefix(max(1, limit / 8)).map(\.key)
                    for key in Array(removable) { entries[key] = nil }
                }
                sweepAt = max(64, entries.count * 2)
            }
        }

        let state: Mutex<State>

        init(limit: Int) { state = Mutex(State(limit: limit)) }
    }

    private func shard(of key: Key) -> Shard {
        shards[Int(truncatingIfNeeded: key.session.word3 & 15)]
    }
}
