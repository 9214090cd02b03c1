import CloakroomCore
import Synchronization
import TestSupport
import Testing

@testable import CloakroomIdentity

/// Rule 26 of the design of identities, without a server.
@Suite("Exchanged tokens", .timeLimit(.minutes(1)))
struct ExchangedTokensTests {
    /// A provider that issues numbered tokens and can be made to wait and to fail, and a refresher.
    private final class Scripted: TokenRefreshing {
        private struct State {
            var now = Upstreams.now
            var exchanges: [String] = []
            var failures: [TokenClientError.Kind] = []
            var life: Duration? = .seconds(300)
            var isHeld = false
            var refreshes: [RefreshTrigger] = []
            var refresh: RefreshOutcome?
        }

        private let state = Mutex(State())

        var now: WallTime { state.withLock { $0.now } }
        /// Upstream and access token of each exchange.
        var exchanges: [String] { state.withLock { $0.exchanges } }
        var refreshes: [RefreshTrigger] { state.withLock { $0.refreshes } }

        func advance(by duration: Duration) { state.withLock { $0.now = $0.now + duration } }
        func fail(_ kinds: TokenClientError.Kind...) { state.withLock { $0.failures += kinds } }
        func giveLife(_ life: Duration?) { state.withLock { $0.life = life } }
        func hold(_ isHeld: Bool) { state.withLock { $0.isHeld = isHeld } }
        func refresh(with outcome: RefreshOutcome) { state.withLock { $0.refresh = outcome } }

        func exchange(_ session: Session, _ upstream: Int) async throws(TokenClientError) -> ExchangedToken {
            let number = state.withLock { state in
                state.exchanges.append(
                    "\(upstream) \(String(decoding: session.tokens.accessToken.bytes, as: UTF8.self))")
                return state.exchanges.count
            }
            while state.withLock({ $0.isHeld }) { await Task.yield() }
            let failure = state.withLock { $0.failures.isEmpty ? nil : $0.failures.removeFirst() }
            if let failure { throw TokenClientError(failure, in: .exchange) }
            return state.withLock { state in
                ExchangedToken(
                    authorization: Secret("Bearer \(upstream)-\(session.id)-\(number)"),
                    expiresAt: state.life.map { state.now + $0 }, issuedAt: state.now)
            }
        }

        func refresh(
            _ session: Session, ticket: SessionTicket, cause: RefreshTrigger, traceparent: String?
        ) async -> RefreshOutcome {
            state.withLock { state in
                state.refreshes.append(cause)
                return state.refresh ?? .active(session)
            }
        }

        func shouldRefreshAfterRejection(_ session: Session) -> Bool { true }
        func refreshInBackground(_ session: Session, ticket: SessionTicket) {}
    }

    private let scripted = Scripted()
    private let observer = RecordingObserver()
    private let tokens: ExchangedTokens

    init() { tokens = Self.make(scripted, observer) }

    private static func make(
        _ scripted: Scripted, _ observer: RecordingObserver, maxEntries: Int = 100_000, maxWaiters: Int = 10_000
    ) -> ExchangedTokens {
        ExchangedTokens(
            refresher: scripted, observer: observer, clock: { scripted.now }, maxEntries: maxEntries,
            maxWaiters: maxWaiters
        ) { (session, upstream, _) throws(TokenClientError) in try await scripted.exchange(session, upstream) }
    }

    private static let ticket: SessionTicket = {
        var generator = CountingGenerator(state: 7)
        return SessionTicket(using: &generator)
    }()

    private func session(_ number: UInt64 = 1, issuedAt: WallTime = Upstreams.now - .seconds(60)) -> Session {
        Session(
            key: SessionKey(number, number << 8, number << 16, number << 24),
            user: UserProfile(json: [], account: AccountName(email: "jo@example.com")),
            tokens: TokenSet(
                authorization: Secret("Bearer access-\(number)"), refreshToken: Secret("r"), obtainedAt: issuedAt),
            createdAt: Upstreams.now.sessionTime, expiresAt: Upstreams.now.sessionTime + .seconds(28_800),
            lastUsedAt: Upstreams.now.sessionTime)
    }

    private func refreshed(_ session: Session) -> Session {
        session.refreshed(
            with: SessionUpdate(
                tokens: TokenSet(
                    authorization: Secret("Bearer access-\(session.id)-v\(session.version + 1)"),
                    refreshToken: Secret("r2"), obtainedAt: scripted.now)))
    }

    private func exchange(_ session: Session, _ upstream: Int = 0) async -> ExchangeOutcome {
        await tokens.exchange(session, ticket: Self.ticket, upstream: upstream, traceparent: nil)
    }

    private func cached(_ session: Session, _ upstream: Int = 0) -> Secret? {
        tokens.cached(session, upstream: upstream, now: scripted.now)
    }

    /// The token of an exchange that succeeds.
    private func token(_ session: Session, _ upstream: Int = 0) async throws -> Secret {
        guard case .active(let token) = await exchange(session, upstream) else { throw OtherOutcome() }
        return token
    }

    /// The problem of an exchange that fails.
    private func problem(_ session: Session) async throws -> Problem {
        guard case .failed(let problem) = await exchange(session) else { throw OtherOutcome() }
        return problem
    }

    private struct OtherOutcome: Error {}

    @Test("are kept for their session and upstream until a fifth of their lifetime is left")
    func kept() async throws {
        let session = session()
        expect(cached(session), equals: nil)
        let token = try await token(session)
        expect(cached(session), equals: token)
        scripted.advance(by: .milliseconds(239_999))
        expect(cached(session), equals: token)
        await expect(exchange(session), equals: .active(token))
        expect(scripted.exchanges.count, equals: 1)
        scripted.advance(by: .milliseconds(1))
        expect(cached(session), equals: nil)
        await expect(exchange(session) != .active(token))
        expect(scripted.exchanges.count, equals: 2)
    }

    @Test("audiencesNeverSwapTokens: upstreams and sessions have tokens of their own")
    func audiencesNeverSwapTokens() async throws {
        let sessions = (1...8).map { session($0) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for round in 0..<400 {
                let (session, upstream) = (sessions[round % 8], round / 8 % 3)
                group.addTask {
                    let token = try await token(session, upstream)
                    let text = String(decoding: token.bytes, as: UTF8.self)
                    expect(text.hasPrefix("Bearer \(upstream)-\(session.id)-"))
                    expect(cached(session, upstream), equals: token)
                }
            }
            try await group.waitForAll()
        }
        expect(scripted.exchanges.count, equals: 24)
        expect(Set(scripted.exchanges).count, equals: 24)
    }

    @Test("oneExchangeForAThousandRequests: all of them wait for the exchange in progress")
    func oneExchangeForAThousandRequests() async {
        let session = session()
        scripted.hold(true)
        await withTaskGroup(of: ExchangeOutcome.self) { group in
            for _ in 0..<1_000 { group.addTask { await exchange(session) } }
            await until { !scripted.exchanges.isEmpty }
            scripted.hold(false)
            var outcomes: [ExchangeOutcome] = []
            for await outcome in group { outcomes.append(outcome) }
            expect(outcomes.count, equals: 1_000)
            expect(outcomes.allSatisfy { $0 == outcomes[0] })
        }
        expect(scripted.exchanges.count, equals: 1)
    }

    @Test("More waiting requests than the limit are rejected with 503")
    func limit() async {
        let tokens = Self.make(scripted, observer, maxWaiters: 2)
        let session = session()
        scripted.hold(true)
        await withTaskGroup(of: ExchangeOutcome.self) { group in
            for upstream in [0, 0, 1] {
                group.addTask {
                    await tokens.exchange(session, ticket: Self.ticket, upstream: upstream, traceparent: nil)
                }
            }
            // Whichever two come first wait until the exchange is no longer held.
            await expect(group.next(), equals: .unavailable(status: 503, retryAfter: 1))
            scripted.hold(false)
            for await outcome in group { expect(outcome != .unavailable(status: 503, retryAfter: 1)) }
        }
    }

    @Test("are dropped when the session's tokens change, and a later token serves an earlier request")
    func tokensChange() async throws {
        let old = session()
        _ = await exchange(old)
        let new = refreshed(old)
        expect(cached(new), equals: nil)
        let token = try await token(new)
        expect(cached(new), equals: token)
        expect(cached(old), equals: token)
        expect(scripted.exchanges.count, equals: 2)
    }

    @Test("A request with newer tokens does not get the result of an exchange of older ones")
    func newerRequest() async {
        let old = session()
        let new = refreshed(old)
        scripted.hold(true)
        async let first = exchange(old)
        await until { scripted.exchanges.count == 1 }
        async let second = exchange(new)
        await Task.yield()
        scripted.hold(false)
        _ = await first
        await expect(second != .unavailable(status: 502, retryAfter: 1))
        expect(scripted.exchanges, equals: ["0 access-1", "0 access-\(old.id)-v2"])
    }

    @Test("A token without a known lifetime is kept for five minutes at most")
    func unknownLifetime() async {
        scripted.giveLife(nil)
        let session = session()
        _ = await exchange(session)
        scripted.advance(by: .milliseconds(299_999))
        expect(cached(session) != nil)
        scripted.advance(by: .milliseconds(1))
        expect(cached(session), equals: nil)
    }

    @Test("A token that its upstream rejects is dropped, but not more often than every five seconds")
    func dropped() async throws {
        let session = session()
        expect(tokens.drop(Secret("Bearer none"), of: session, upstream: 0))
        _ = await exchange(session, 1)
        var rejected: [Secret] = []
        for seconds in 0..<12 {
            let token = try await token(session)
            let isDropped = tokens.drop(token, of: session, upstream: 0)
            expect(isDropped, equals: seconds % 5 == 0, "after \(seconds) s")
            expect(cached(session) == nil, equals: isDropped)
            // Rejections of an earlier token, which requests in flight report later, drop nothing.
            for earlier in rejected { expect(tokens.drop(earlier, of: session, upstream: 0)) }
            expect(cached(session) == nil, equals: isDropped)
            if isDropped { rejected.append(token) }
            scripted.advance(by: .seconds(1))
        }
        // One at first, and one after each token that was dropped. The token of the other upstream is not affected.
        expect(scripted.exchanges.count, equals: 5)
        expect(cached(session, 1) != nil)
    }

    // MARK: - Failures

    @Test(
        "A rejected access token is refreshed once, and the new one is exchanged",
        arguments: [
            .denied("invalid_grant"), .denied("invalid_token"), .misconfigured(.invalidRequest),
        ] as [TokenClientError.Kind])
    func refreshes(kind: TokenClientError.Kind) async throws {
        let session = session()
        scripted.fail(kind)
        scripted.refresh(with: .active(refreshed(session)))
        let token = try await token(session)
        expect(scripted.refreshes, equals: [.rejected])
        expect(scripted.exchanges, equals: ["0 access-1", "0 access-\(session.id)-v2"])
        expect(cached(session), equals: token)
    }

    @Test("A second rejection is 502, without another refresh")
    func rejectedTwice() async {
        let session = session()
        scripted.fail(.denied("invalid_grant"), .denied("invalid_grant"))
        scripted.refresh(with: .active(refreshed(session)))
        await expect(exchange(session), equals: .unavailable(status: 502, retryAfter: 1))
        expect(scripted.refreshes.count, equals: 1)
        expect(scripted.exchanges.count, equals: 2)
    }

    @Test(
        "Other failures refresh nothing and are 502",
        arguments: [
            .unreachable, .failed(.otherTokenType), .denied("invalid_target"),
        ] as [TokenClientError.Kind])
    func otherFailures(kind: TokenClientError.Kind) async {
        scripted.fail(kind)
        await expect(exchange(session()), equals: .unavailable(status: 502, retryAfter: 1))
        expect(empty: scripted.refreshes)
    }

    @Test(
        "An exchange that the provider rejects for the gateway's own fault is reported as such, also in the back-off",
        arguments: [IdentityMisconfiguration.invalidClient, .invalidScope, .unsupportedGrantType])
    func misconfigured(reason: IdentityMisconfiguration) async throws {
        let session = session()
        scripted.fail(.misconfigured(reason))
        for _ in 0..<3 {
            try await expect(problem(session).code, equals: .identityMisconfigured)
        }
        expect(scripted.exchanges.count, equals: 1)
        expect(empty: scripted.refreshes)
        let reports = observer.all.filter { $0 == .identityMisconfigured(reason, in: .exchange, of: nil) }
        expect(reports.count, equals: 1)
        let events = observer.all.filter {
            if case .tokenExchange(.misconfigured, session.id, _, _) = $0 { true } else { false }
        }
        expect(events.count, equals: 1)
    }

    @Test("invalid_request for tokens that were issued a moment ago refreshes nothing: it has another cause")
    func invalidRequest() async {
        scripted.fail(.misconfigured(.invalidRequest))
        await expect(
            exchange(session(issuedAt: Upstreams.now - .seconds(29))),
            equals: .misconfigured(retryAfter: 1))
        expect(empty: scripted.refreshes)
    }

    @Test("The outcome of the refresh is the outcome of the exchange")
    func refreshOutcomes() async {
        for (number, (outcome, expected))
            in ([
                (.ended(.refreshRejected), .ended(.refreshRejected)),
                (.unavailable(status: 504, retryAfter: 3), .unavailable(status: 504, retryAfter: 3)),
                (.storeUnavailable(retryAfter: 2), .storeUnavailable(retryAfter: 2)),
                (.misconfigured(retryAfter: 3), .misconfigured(retryAfter: 3)),
            ] as [(RefreshOutcome, ExchangeOutcome)]).enumerated()
        {
            scripted.fail(.denied("invalid_grant"))
            scripted.refresh(with: outcome)
            await expect(exchange(session(UInt64(number + 1))), equals: expected)
        }
    }

    @Test("After a failure no exchange follows during the back-off, which doubles")
    func backOff() async throws {
        let session = session()
        for delay in [1, 2, 4] {
            scripted.fail(.unreachable)
            let before = scripted.exchanges.count
            _ = await exchange(session)
            for _ in 0..<10 { try await expect(problem(session).status, equals: 502) }
            expect(scripted.exchanges.count, equals: before + 1)
            scripted.advance(by: .seconds(delay))
        }
        _ = try await token(session)
    }

    @Test("Another upstream of the same session is not affected by a failure")
    func independent() async throws {
        let session = session()
        scripted.fail(.unreachable)
        _ = await exchange(session, 0)
        _ = try await token(session, 1)
    }

    @Test("Each exchange is one event")
    func events() async {
        let session = session()
        scripted.fail(.denied("invalid_target"))
        _ = await exchange(session, 3)
        _ = await exchange(session, 4)
        let results = observer.all.compactMap { event -> String? in
            guard case .tokenExchange(let result, let id, let upstream, _) = event, id == session.id else { return nil }
            return "\(result.rawValue) \(upstream)"
        }
        expect(results, equals: ["rejected 3", "success 4"])
    }

    @Test("The number of tokens is bounded, and expired ones are removed")
    func bounded() async {
        let tokens = Self.make(scripted, observer, maxEntries: 160)
        for number in 1...2_000 {
            _ = await tokens.exchange(
                session(UInt64(number)), ticket: Self.ticket, upstream: 0, traceparent: nil)
        }
        #expect(tokens.count <= 160)
        scripted.advance(by: .seconds(3_600))
        for number in 3_001...3_200 {
            _ = await tokens.exchange(
                session(UInt64(number)), ticket: Self.ticket, upstream: 0, traceparent: nil)
        }
        expect(tokens.cached(session(2_000), upstream: 0, now: scripted.now), equals: nil)
        #expect(tokens.count <= 160)
    }
}
