package import CloakroomCore
import Crypto
import NIOCore
import Synchronization

/// The access tokens of clients that were verified, each as a session without a ticket, in this process only.
///
/// A token is verified once for all requests that present it, and again after five minutes or with other keys, unless it
/// has expired. ``ProviderKeys`` limits the tokens that wait for a check.
package final class VerifiedTokens: AccessTokenVerifying, Unprintable {
    /// The maximum number of tokens, with rejected ones.
    static let maxEntries = 10_000
    /// The maximum memory for tokens in bytes, as estimated.
    static let maxBytes = 32 * 1_024 * 1_024
    static let lifetime = Duration.seconds(300)
    static let rejectionLifetime = Duration.seconds(5)
    /// The rejected tokens of an address: 20, and then 2 a second. Beyond them its tokens are not checked. A /48 has 16
    /// times that.
    private static let (pace, blockPace): (RatePace, RatePace) = {
        var limit = RateLimit(name: "bearer")
        (limit.requests, limit.givenBurst) = (RequestRate(2, per: .second), 20)
        return (RatePace(limit), RatePace(limit, times: 16))
    }()

    private struct Entry {
        /// `nil` for a rejected token.
        var session: Session?
        let provider: OpenIDProvider
        let revision: Int?
        let validUntil: WallTime
    }

    private struct State {
        var entries = RecentEntries<Entry>()
        /// At most one for each request that waits.
        var flights: [SessionKey: Task<RefreshOutcome, Never>] = [:]
    }

    /// Providers that are asked about tokens are the last: at most one at each site.
    private let sites: [[OpenIDProvider]]
    private let clients: [ProviderIdentity]
    private let clock: @Sendable () -> WallTime
    private let rejections: RateLimitTable
    private let state = Mutex(State())

    /// - Parameters:
    ///   - sites: For each site its providers, also those whose identities accept no access tokens.
    ///   - previous: That of the previous configuration; its rejected tokens remain charged.
    package init(
        _ sites: [[OpenIDProvider]], previous: VerifiedTokens? = nil, clock: @escaping @Sendable () -> WallTime
    ) {
        self.sites = sites.map { providers in
            let verifying = providers.filter { $0.configuration.accessTokens != nil }
            return verifying.filter { $0.introspection == nil } + verifying.filter { $0.introspection != nil }
        }
        clients = sites.joined().map(\.identity)
        rejections = previous?.rejections ?? RateLimitTable(keys: Self.maxEntries)
        self.clock = clock
    }

    package func cached(_ field: Secret, site: Int, now: WallTime) -> RefreshOutcome? {
        let key = Self.key(field, site: site)
        guard let entry = access({ $0[key] }) else { return nil }
        // An expired token is not checked again. Its provider may have stated no end.
        let isExpired =
            entry.provider.introspection == nil && entry.session.map { now >= $0.expiresAt.wallTime } ?? false
        guard isExpired || now < entry.validUntil && entry.revision == entry.provider.keys.revision else { return nil }
        let session = isExpired ? nil : entry.session
        entry.provider.report(.accessToken(session == nil ? .rejected : .cached))
        return session.map { .active($0) } ?? .failed(Problem(.invalidToken))
    }

    package func verify(_ field: Secret, site: Int, from origin: AuditContext) async -> RefreshOutcome {
        let key = Self.key(field, site: site)
        let flight = state.withLock { state -> Task<RefreshOutcome, Never>? in
            if let flight = state.flights[key] { return flight }
            guard charge(origin, isKept: false) else { return nil }
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

    private func check(_ field: Secret, _ key: SessionKey, site: Int, _ origin: AuditContext) async -> RefreshOutcome {
        defer { state.withLock { $0.flights[key] = nil } }
        // A request that looked before the last flight ended begins another one after it.
        if let known = cached(field, site: site, now: clock()) { return known }
        let token = Secret(bytes: Array(field.bytes.dropFirst(TokenResponse.bearerPrefix.count)))
        var failure: (provider: OpenIDProvider, rejection: TokenRejection?)?
        var isClaimed = false
        for provider in candidates(for: token, site: site) {
            // A token that another provider may have issued is not shown to this one.
            if provider.introspection != nil, isClaimed { break }
            let revision = provider.keys.revision
            do throws(TokenClientError) {
                let session = try await provider.verifyAccessToken(
                    token, key: key, issuedTo: clients, from: origin.peer)
                let end = min(session.expiresAt.wallTime, clock() + (provider.introspection?.cache ?? Self.lifetime))
                let entry = Entry(session: session, provider: provider, revision: revision, validUntil: end)
                // Claims are kept as text and as values, and rendered for upstreams.
                let size = 1_024 + token.bytes.count + 8 * (session.provenance?.claims.count ?? 0)
                access { $0.insert(entry, size: size, at: key) }
                provider.report(.accessToken(.accepted))
                return .active(session)
            } catch {
                guard case .failed(.token(let rejection)) = error.kind else {
                    failure = (provider, nil)
                    isClaimed = true
                    continue
                }
                if failure == nil || rejection == .ownToken || provider.introspection != nil {
                    failure = (provider, rejection)
                }
                if !rejection.leavesOtherIssuers { isClaimed = true }
            }
        }
        guard let (provider, rejection) = failure else { return .failed(Problem(.invalidToken)) }
        guard let rejection else {
            provider.report(.accessToken(.unavailable))
            return .failed(Problem(.identityUnavailable, retryAfter: 1))
        }
        let end = clock() + (provider.introspection?.rejected ?? Self.rejectionLifetime)
        let entry = Entry(provider: provider, revision: provider.keys.revision, validUntil: end)
        access { $0.insert(entry, size: 256, at: key) }
        // Clients repeat expired tokens by mistake, and no attacker has many of them.
        if rejection != .expired { _ = charge(origin, isKept: true) }
        provider.report(.accessToken(rejection == .ownToken ? .ownToken : .rejected, rejection, from: origin))
        return .failed(Problem(.invalidToken))
    }

    /// Charges a rejected token to an address, and to the /48 of an IPv6 address, or to none of them.
    /// - Parameter isKept: Otherwise the charge is taken back at once.
    /// - Returns: Whether their rejected tokens are few.
    private func charge(_ origin: AuditContext, isKept: Bool) -> Bool {
        let (key, now) = (RateKey(peer: origin.peer), NIODeadline.now().uptimeNanoseconds)
        guard key.block == 0 || rejections.charge(key.block, Self.blockPace, now: now).wait == 0 else { return false }
        let isCharged = rejections.charge(key.value, Self.pace, now: now).wait == 0
        if isCharged, !isKept { rejections.refund(key.value, Self.pace) }
        if key.block != 0, !isCharged || !isKept { rejections.refund(key.block, Self.blockPace) }
        return isCharged
    }

    /// Displaced entries, up to 5,000, are released without the lock.
    private func access<Result: Sendable>(_ body: (inout RecentEntries<Entry>) -> Result) -> Result {
        var displaced = RecentEntries<Entry>().displaced
        return state.withLock { state in
            defer { swap(&displaced, &state.entries.displaced) }
            return body(&state.entries)
        }
    }

    /// The providers that may have issued a token: those with its key. If there is none, each may have a newer one. `iss`
    /// is not read before the signature is verified.
    private func candidates(for token: Secret, site: Int) -> [OpenIDProvider] {
        let header = try? UnverifiedToken(parsing: token.bytes, algorithms: Set(SignatureAlgorithm.allCases))
        guard sites[site].count > 1, let header else { return sites[site] }
        let known = sites[site].filter { $0.keys.fetched?.keys.hasKey(header.keyID) == true }
        return known.isEmpty ? sites[site] : known
    }

    /// SHA-256 of the token, whatever the case of its scheme is, and its site.
    private static func key(_ field: Secret, site: Int) -> SessionKey {
        let token = field.bytes.dropFirst(TokenResponse.bearerPrefix.count)
        let key = SHA256.hash(data: token).withUnsafeBytes { SessionKey(digest: $0) }
        return SessionKey(key.word0, key.word1, key.word2, key.word3 ^ UInt64(truncatingIfNeeded: site))
    }
}

/// The entries that were used last, in two generations. If the newer one has half of the entries or bytes, it replaces
/// the older one, whose entries are dropped unless they were used since.
struct RecentEntries<Value> {
    var newer: [SessionKey: (value: Value, size: Int)] = [:]
    var older: [SessionKey: (value: Value, size: Int)] = [:]
    var newerBytes = 0
    var displaced: [SessionKey: (value: Value, size: Int)] = [:]

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
            (displaced, older, newer, newerBytes) = (older, newer, [:], 0)
        }
        newerBytes += size - (newer.updateValue((value, size), forKey: key)?.size ?? 0)
    }
}
