package import CloakroomCore
import Synchronization

/// The current keys of one OpenID Provider: fetched in the background, and early for tokens with an unknown key, as
/// ``KeySetSchedule`` decides.
///
/// At most one fetch is in flight. Tokens that need its result wait for it; its duration, and so theirs, is bounded by
/// the timeout of the call.
package actor ProviderKeys {
    /// Keys that were fetched. A provider of the next configuration can continue with them.
    package struct Fetched: Sendable {
        let keys: SignatureKeySet
        /// The end of their lifetime, in nanoseconds of the clock.
        fileprivate let freshUntil: UInt64
        /// Counts the fetches that succeeded.
        fileprivate let generation: Int
        fileprivate let document: [UInt8]
        /// Counts those with another document than the fetch before.
        fileprivate let revision: Int
    }

    /// The response of a provider's `jwks_uri` with status 200.
    package struct Response: Sendable {
        /// The body. At most ``JSONWebKeySet/maxLength`` bytes are valid.
        package let document: [UInt8]
        /// How long the keys may be used without another fetch: ``KeySetSchedule/lifetime(cacheControl:)``.
        package let lifetime: Duration
    }

    /// The outcome of a fetch, for logs, metrics and the status page.
    package enum FetchOutcome: Sendable, Equatable {
        /// The keys were replaced.
        case replaced(usable: Int, skipped: Int)
        /// The document is no key set; the current keys remain.
        case invalid(JSONWebKeySet.Invalid)
        /// The call failed, or its status was not 200; the current keys remain.
        case failed
    }

    private let algorithms: Set<SignatureAlgorithm>
    private let fetch: @Sendable () async throws -> Response
    private let now: @Sendable () -> UInt64
    private let sleep: @Sendable (Duration) async throws -> Void
    private let random: @Sendable () -> UInt64
    private let report: @Sendable (FetchOutcome) -> Void
    private var schedule: KeySetSchedule
    private let current: Mutex<Fetched?>
    private var flight: Task<Void, Never>?
    nonisolated let queues: Queues

    /// What any client can cause to wait. A reload keeps them, so that what waits since before counts.
    struct Queues: Sendable {
        /// Checks of signatures.
        let checks: [KeySetSchedule.Source: ClientQueue] = [.backChannel: ClientQueue(1), .client: ClientQueue(1)]
        /// The calls that wait for a fetch: logins, callbacks, logout tokens and access tokens. Each holds a request. Further
        /// ones fail at once; refreshes, exchanges and sign-outs of users are not counted.
        let waits = ClientShares()
    }

    /// Creates the keys of a provider; nothing is fetched before ``run()`` or the first token.
    /// - Parameters:
    ///   - algorithms: The algorithms that tokens may have.
    ///   - previous: Keys for the same algorithms, which are used until the first fetch succeeds; `nil` for none.
    ///   - queues: Those of the previous configuration.
    ///   - now: A monotonic clock, in nanoseconds.
    ///   - sleep: Waits for a duration; throws when its task is cancelled.
    ///   - random: Random bits, for the delays between attempts.
    ///   - report: Called after each fetch; must not block.
    ///   - fetch: Calls `jwks_uri`, with a timeout, without following redirects. Throws for each status but 200.
    init(
        algorithms: Set<SignatureAlgorithm>, previous: Fetched? = nil, queues: Queues = Queues(),
        now: @escaping @Sendable () -> UInt64,
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) },
        random: @escaping @Sendable () -> UInt64 = { .random(in: .min ... .max) },
        report: @escaping @Sendable (FetchOutcome) -> Void = { _ in },
        fetch: @escaping @Sendable () async throws -> Response
    ) {
        self.algorithms = algorithms
        self.queues = queues
        self.now = now
        self.sleep = sleep
        self.random = random
        self.report = report
        self.fetch = fetch
        current = Mutex(previous)
        schedule = KeySetSchedule(freshUntil: previous?.freshUntil, now: now())
    }

    /// The current keys; `nil` before the first fetch.
    package nonisolated var fetched: Fetched? { current.withLock { $0 } }

    /// Changes with the keys; `nil` before the first fetch.
    nonisolated var revision: Int? { current.withLock { $0?.revision } }

    /// Whether the current keys may be used.
    package var usability: KeySetSchedule.Usability { schedule.usability(now: now()) }

    /// Waits until there are keys that may be used, for one fetch at most. Without them a fetch begins as early as one for a
    /// sign-in with an unknown key may.
    /// - Parameters:
    ///   - deadline: When the wait ends at the latest; `nil` for the end of the fetch.
    ///   - client: The one that causes the wait, which has a share of ``Queues/waits``; `nil` unless any client can cause it.
    /// - Returns: Whether there are such keys.
    package func prepare(until deadline: ContinuousClock.Instant? = nil, for client: RateKey? = nil) async -> Bool {
        if usability == .none {
            switch schedule.keyMissing(for: .tokenEndpoint, now: now()) {
            case .fetch: beginFetch()
            case .wait: break
            case .reject: return false
            }
            _ = await waitForFetch(until: deadline, for: client)
        }
        return usability != .none
    }

    /// - Returns: `false` if the fetch is still in flight: the time is over, or too many calls wait.
    private func waitForFetch(until deadline: ContinuousClock.Instant?, for client: RateKey?) async -> Bool {
        guard let flight else { return true }
        if let client { guard queues.waits.take(client) else { return false } }
        defer { if let client { queues.waits.release(client) } }
        guard let deadline else {
            await flight.value
            return true
        }
        let (ended, continuation) = AsyncStream.makeStream(of: Void.self)
        Task {
            await flight.value
            continuation.finish()
        }
        await ended.end(within: deadline - .now)
        return self.flight != flight
    }

    /// Fetches keys at the times of the schedule, until the task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            if let flight {
                await flight.value
                continue
            }
            let now = now()
            if schedule.timerFired(now: now) {
                beginFetch()
                continue
            }
            let next = schedule.nextTimer ?? now
            let delay = Duration.nanoseconds(Int64(clamping: next - min(now, next)))
            // An early fetch may move the next one, but never to an earlier time than the minimum lifetime from now.
            do { try await sleep(min(delay, KeySetSchedule.lifetimes.lowerBound)) } catch { return }
        }
    }

    /// Verifies the signature of a token, after a fetch if its key is unknown and the schedule permits one.
    ///
    /// Only a missing key needs the actor: no sign-in waits for the tokens of others.
    /// - Parameters:
    ///   - client: The one that has sent it. Those that are not known have a share together.
    ///   - deadline: When the wait for a fetch ends at the latest; `nil` for the end of the fetch.
    ///   - charge: Called when it is the turn of a token that any client can send: whether another one may be rejected;
    ///     with `true`, one was, and its signature may have been checked.
    ///   - rules: Checks its claims; those of a logout token also before its signature is checked.
    /// - Throws: `failed` if the token is rejected. `unreachable` if there are no keys that may be used: the provider has
    ///   been unreachable since the start or for too long, and the token may be valid. Also if too many calls that any
    ///   client can cause are in progress. `busy` if no other token may be rejected.
    package nonisolated func verify<Value: Sendable>(
        _ bytes: [UInt8], from source: KeySetSchedule.Source, of client: RateKey = RateKey(peer: ""),
        until deadline: ContinuousClock.Instant? = nil, charge: @escaping @Sendable (Bool) -> Bool = { _ in true },
        rules: @escaping @Sendable (VerifiedToken) throws(TokenRejection) -> Value
    ) async throws(TokenClientError) -> Value {
        let queue = queues.checks[source]
        let parsed = try source == .backChannel ? parse(bytes, rules) : nil
        func check() async throws(TokenClientError) -> Check<Value> {
            guard let queue else { return self.check(bytes, parsed, rules) }
            let check = await queue.run(from: client) { () -> Check<Value> in
                guard charge(false) else { return Check(result: .failure(TokenClientError(.busy, in: .keys))) }
                let check = self.check(bytes, parsed, rules)
                if check.isCharged { _ = charge(true) }
                return check
            }
            guard let check else { throw TokenClientError(.unreachable, in: .keys) }
            return check
        }
        var latest = try await check()
        // At most: wait for a fetch of another token, and then for an own one.
        for _ in 0..<2 where latest.needsOtherKeys {
            let mayDiffer = await keysMissing(since: latest.generation, for: source, of: client, until: deadline)
            guard let mayDiffer else { throw TokenClientError(.unreachable, in: .keys) }
            guard mayDiffer else { break }
            latest = try await check()
        }
        return try latest.result.get()
    }

    /// Parses a token. Rejects what would be no logout token with any signature: it takes no place of those that may be one.
    private nonisolated func parse<Value: Sendable>(
        _ bytes: [UInt8], _ rules: (VerifiedToken) throws(TokenRejection) -> Value
    ) throws(TokenClientError) -> UnverifiedToken {
        do throws(TokenRejection) {
            let token = try UnverifiedToken(parsing: bytes, algorithms: algorithms)
            _ = try rules(VerifiedToken(token))
            return token
        } catch {
            throw TokenClientError(.failed(.token(error)), in: .keys)
        }
    }

    /// The result of checking a token with the keys of one fetch.
    private struct Check<Value: Sendable>: Sendable {
        let result: Result<Value, TokenClientError>
        var needsOtherKeys = false
        /// Whether the token is rejected for more than its age or an unknown key: clients repeat expired tokens by mistake, and
        /// an unknown key costs no signature.
        var isCharged = false
        var generation: Int?
    }

    private nonisolated func check<Value: Sendable>(
        _ bytes: [UInt8], _ parsed: UnverifiedToken?, _ rules: (VerifiedToken) throws(TokenRejection) -> Value
    ) -> Check<Value> {
        let fetched = fetched
        let generation = fetched?.generation
        do throws(TokenRejection) {
            // No key can verify a token that cannot be parsed: it causes no fetch.
            let token = if let parsed { parsed } else { try UnverifiedToken(parsing: bytes, algorithms: algorithms) }
            guard let fetched, KeySetSchedule.usability(freshUntil: fetched.freshUntil, now: now()) != .none else {
                let failure = TokenClientError(.unreachable, in: .keys)
                return Check(result: .failure(failure), needsOtherKeys: true, generation: generation)
            }
            return Check(result: .success(try rules(try fetched.keys.verify(token))), generation: generation)
        } catch {
            return Check(
                result: .failure(TokenClientError(.failed(.token(error)), in: .keys)),
                needsOtherKeys: error.suggestsOtherKeys, isCharged: error != .expired && error != .unknownKey,
                generation: generation)
        }
    }

    /// Waits for a fetch because a key is missing, if there was no later one already and the schedule permits it.
    /// - Parameter generation: That of the keys without it.
    /// - Returns: Whether there may be other keys; `nil` if the fetch is still in flight.
    private func keysMissing(
        since generation: Int?, for source: KeySetSchedule.Source, of client: RateKey,
        until deadline: ContinuousClock.Instant?
    ) async -> Bool? {
        guard fetched?.generation == generation else { return true }
        switch schedule.keyMissing(for: source, now: now()) {
        case .fetch: beginFetch()
        case .wait: break
        case .reject: return false
        }
        return await waitForFetch(until: deadline, for: source == .tokenEndpoint ? nil : client) ? true : nil
    }

    // MARK: - Fetching

    /// - Precondition: The schedule has permitted the fetch.
    private func beginFetch() {
        // The fetch serves all waiting tokens: the cancellation of one of them does not end it.
        flight = Task { await self.fetchOnce() }
    }

    private func fetchOnce() async {
        let outcome: FetchOutcome
        do {
            let response = try await fetch()
            let set = try SignatureKeySet(document: response.document, algorithms: algorithms)
            schedule.fetched(lifetime: response.lifetime, now: now())
            if let end = schedule.freshUntil {
                current.withLock { current in
                    let isEqual = current?.document == response.document
                    current = Fetched(
                        keys: set, freshUntil: end, generation: (current?.generation ?? 0) &+ 1,
                        document: response.document, revision: (current?.revision ?? 0) &+ (isEqual ? 0 : 1))
                }
            }
            outcome = .replaced(usable: set.count, skipped: set.skipped.count)
        } catch {
            schedule.failed(random: random(), now: now())
            outcome = (error as? JSONWebKeySet.Invalid).map(FetchOutcome.invalid) ?? .failed
        }
        flight = nil
        report(outcome)
    }
}
