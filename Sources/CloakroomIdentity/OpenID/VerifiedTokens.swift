package import CloakroomCore
import Crypto
import NIOCore
import Synchronization

/// The access tokens of clients that were verified, each as a session without a ticket, in this process only.
///
/// A token is verified once for all requests that present it, and again after five minutes or with other keys. Rejected
/// tokens are remembered apart from the others, so that they displace no valid one. ``ProviderKeys`` limits the tokens
/// that wait for a check.
package final class VerifiedTokens: AccessTokenVerifying, Unprintable {
    /// The maximum number of tokens, and of rejected ones.
    static let maxEntries = 10_000
    /// The maximum memory for tokens in bytes, as estimated.
    static let maxBytes = 32 * 1_024 * 1_024
    static let lifetime = Duration.seconds(300)
    static let rejectionLifetime = Duration.seconds(5)
    /// The rejected tokens of an address: 20, and then 2 a second. Beyond them its tokens are not checked.
    private static let pace: RatePace = {
        var limit = RateLimit(name: "bearer")
        (limit.requests, limit.givenBurst) = (RequestRate(2, per: .second), 20)
        return RatePace(limit)
    }()

    private struct Entry {
        /// `nil` for a rejected token.
        var session: Session?
        let provider: OpenIDProvider
        let generation: Int?
        let validUntil: WallTime
    }

    private struct State {
        var verified = RecentEntries<Entry>()
        var rejected = RecentEntries<Entry>()
        /// At most one for each request that waits.
        var flights: [SessionKey: Task<RefreshOutcome, Never>] = [:]
    }

    private let sites: [[OpenIDProvider]]
    private let clock: @Sendable () -> WallTime
    private let rejections = RateLimitTable(keys: maxEntries)
    private let state = Mutex(State())

    /// - Parameter sites: For each site the providers whose identities accept access tokens.
    package init(_ sites: [[OpenIDProvider]], clock: @escaping @Sendable () -> WallTime) {
        self.sites = sites
        self.clock = clock
    }

    package func cached(_ field: Secret, site: Int, now: WallTime) -> RefreshOutcome? {
        cached(Self.key(field, site: site), now: now)
    }

    package func verify(_ field: Secret, site: Int, from origin: AuditContext) async -> RefreshOutcome {
        let key = Self.key(field, site: site)
        let flight = state.withLock { state -> Task<RefreshOutcome, Never>? in
            if let flight = state.flights[key] { return flight }
            guard permitsCheck(for: origin) else { return nil }
            let flight = Task { await self.check(field, key, site: site, origin) }
            state.flights[key] = flight
            return flight
        }
        guard let flight else {
            sites[site].first?.report(.accessToken(.limited))
            return .failed(Problem(.rateLimited, retryAfter: 1))
        }
        return await flight.value
    }

    private func cached(_ key: SessionKey, now: WallTime) -> RefreshOutcome? {
        let entry = state.withLock { $0.verified[key] ?? $0.rejected[key] }
        guard let entry, now < entry.validUntil, entry.generation == entry.provider.keys.generation else { return nil }
        entry.provider.report(.accessToken(entry.session == nil ? .rejected : .cached))
        return entry.session.map { .active($0) } ?? .failed(Problem(.invalidToken))
    }

    private func check(_ field: Secret, _ key: SessionKey, site: Int, _ origin: AuditContext) async -> RefreshOutcome {
        defer { state.withLock { $0.flights[key] = nil } }
        // A request that looked before the last flight ended begins another one after it.
        if let known = cached(key, now: clock()) { return known }
        let token = Secret(bytes: Array(field.bytes.dropFirst(TokenResponse.bearerPrefix.count)))
        var failure: (provider: OpenIDProvider, rejection: TokenRejection?)?
        for provider in candidates(for: token, site: site) {
            let generation = provider.keys.generation
            do throws(TokenClientError) {
                let session = try await provider.verifyAccessToken(token, key: key)
                let end = min(session.expiresAt.wallTime, clock() + Self.lifetime)
                let entry = Entry(session: session, provider: provider, generation: generation, validUntil: end)
                // Claims are kept as text and as values, and rendered for upstreams.
                let size = 1_024 + token.bytes.count + 8 * (session.provenance?.claims.count ?? 0)
                state.withLock { $0.verified.insert(entry, size: size, at: key) }
                provider.report(.accessToken(.accepted))
                return .active(session)
            } catch {
                guard case .failed(.token(let rejection)) = error.kind else {
                    failure = (provider, nil)
                    continue
                }
                failure = failure ?? (provider, rejection)
            }
        }
        guard let (provider, rejection) = failure else { return .failed(Problem(.invalidToken)) }
        guard let rejection else {
            provider.report(.accessToken(.unavailable))
            return .failed(Problem(.identityUnavailable, retryAfter: 1))
        }
        let end = clock() + Self.rejectionLifetime
        let entry = Entry(provider: provider, generation: provider.keys.generation, validUntil: end)
        state.withLock { $0.rejected.insert(entry, size: 256, at: key) }
        // Clients repeat expired tokens by mistake, and no attacker has many of them.
        if rejection != .expired {
            _ = rejections.charge(RateKey(peer: origin.peer).value, Self.pace, now: NIODeadline.now().uptimeNanoseconds)
        }
        provider.report(.accessToken(rejection == .ownToken ? .ownToken : .rejected, rejection, from: origin))
        return .failed(Problem(.invalidToken))
    }

    /// Whether the address of a client has few rejected tokens. Nothing is charged.
    private func permitsCheck(for origin: AuditContext) -> Bool {
        let key = RateKey(peer: origin.peer).value
        guard rejections.charge(key, Self.pace, now: NIODeadline.now().uptimeNanoseconds).wait == 0 else {
            return false
        }
        rejections.refund(key, Self.pace)
        return true
    }

    /// The providers that may have issued a token: those with its key. If there is none, each may have a newer one. `iss`
    /// is not read before the signature is verified.
    private func candidates(for token: Secret, site: Int) -> [OpenIDProvider] {
        let header = try? UnverifiedToken(parsing: token.bytes, algorithms: Set(SignatureAlgorithm.allCases))
        guard sites[site].count > 1, let header else { return sites[site] }
        let known = sites[site].filter { $0.keys.fetched?.keys.hasKey(header.keyID) == true }
        return known.isEmpty ? sites[site] : known
    }

    /// SHA-256 of the field, and its site.
    private static func key(_ field: Secret, site: Int) -> SessionKey {
        let key = SHA256.hash(data: field.bytes).withUnsafeBytes { SessionKey(digest: $0) }
        return SessionKey(key.word0, key.word1, key.word2, key.word3 ^ UInt64(truncatingIfNeeded: site))
    }
}

/// The entries that were used last, in two generations. If the newer one has half of the entries or bytes, it replaces
/// the older one, whose entries are dropped unless they were used since.
struct RecentEntries<Value> {
    var newer: [SessionKey: (value: Value, size: Int)] = [:]
    var older: [SessionKey: (value: Value, size: Int)] = [:]
    var newerBytes = 0

    subscript(key: SessionKey) -> Value? {
        mutating get {
            if let found = newer[key] { return found.value }
            guard let found = older[key] else { return nil }
            insert(found.value, size: found.size, at: key)
            return found.value
        }
    }

    mutating func insert(_ value: Value, size: Int, at key: SessionKey) {
        if newer.count >= VerifiedTokens.maxEntries / 2 || newerBytes + size > VerifiedTokens.maxBytes / 2 {
            (older, newer, newerBytes) = (newer, [:], 0)
        }
        newer[key] = (value, size)
        newerBytes += size
    }
}
