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
    /// The rejected tokens of an address: 20, and then 2 a second. Beyond them its tokens are not checked. A /48 has
    /// ``RateKey/blockFactor`` times that.
    private static let (pace, blockPace): (RatePace, RatePace) = {
        var limit = RateLimit(name: "bearer")
        (limit.requests, limit.givenBurst) = (RequestRate(2, per: .second), 20)
        return (RatePace(limit), RatePace(limit, times: RateKey.blockFactor))
    }()

    private struct Entry {
        /// `nil` for a rejected token.
        var session: Session?
        let provider: OpenIDProvider
        let revision: Int?
        let validUntil: WallTime

        func isValid(at now: WallTime) -> Bool { now < validUntil && revision == provider.keys.revision }

        var outcome: RefreshOutcome { session.map { .active($0) } ?? .failed(Problem(.invalidToken)) }
    }

    /// The provider that is asked about tokens is the last one: at most one at each site.
    private let sites: [[OpenIDProvider]]
    private let clients: [ProviderIdentity]
    /// The sources of the tokens that providers are asked about, and how long a response is valid.
    private let asked: [SessionSource: Duration]
    /// The memory for the assertions about one token.
    private let assertionBytes: Int
    private let clock: @Sendable () -> WallTime
    private let counts: ClientCounts
    private let rejections: RateLimitTable
    private let proofs: TokenProofs?
    /// The origin of each site's public URL.
    private let origins: [WebOrigin?]
    package let basic: BasicSignIns?
    private let entries = RecentEntries<Entry>(maxEntries: VerifiedTokens.maxEntries)

    /// - Parameters:
    ///   - sites: For each site its providers, also those whose identities accept no access tokens.
    ///   - origins: For each site that of its public URL.
    ///   - proofs: `nil` if no tokens are accepted that are bound to a key.
    ///   - assertions: The upstreams that get assertions.
    ///   - counts: Those of the process.
    ///   - basic: Signs in with names and passwords; `nil` if no route accepts them.
    package init(
        _ sites: [[OpenIDProvider]], origins: [WebOrigin?] = [], proofs: TokenProofs? = nil, assertions: Int = 0,
        counts: ClientCounts = ClientCounts(), basic: BasicSignIns? = nil, clock: @escaping @Sendable () -> WallTime
    ) {
        self.sites = sites.map { providers in
            let verifying = providers.filter { $0.configuration.accessTokens != nil }
            return verifying.filter { $0.introspection == nil } + verifying.filter { $0.introspection != nil }
        }
        clients = sites.joined().map(\.identity)
        asked = sites.joined().reduce(into: [:]) { $0[$1.source] = $1.introspection?.cache }
        assertionBytes = 2_048 * min(assertions, SessionClaims.capacity)
        (self.counts, rejections) = (counts, counts.rejections)
        (self.origins, self.proofs, self.basic, self.clock) = (origins, proofs, basic, clock)
    }

    package func nonce(site: Int, now: WallTime) -> String? {
        sites[site].contains { $0.configuration.accessTokens?.dpop != .off } ? proofs?.nonce(now: now) : nil
    }

    package func cached(_ field: Secret, site: Int, now: WallTime) -> RefreshOutcome? {
        if let basic, BasicSignIns.isBasic(field) { return basic.cached(field, site: site, now: now) }
        return cached(Self.key(field, site: site), now: now)
    }

    package func cached(_ key: SessionKey, now: WallTime) -> RefreshOutcome? {
        guard var known = known(key, now: now) else { return nil }
        // A token that is bound to a key is worthless without a proof.
        if known.session?.device != nil { known.session = nil }
        known.provider.report(.accessToken(known.session == nil ? .rejected : .cached))
        return known.outcome
    }

    package func limited(_ field: Secret, site: Int, from peer: String) -> RefreshOutcome? {
        guard !charge(AuditContext(peer: peer), isKept: false) else { return nil }
        // Of a known token that is bound to a key the proofs are limited. Requests with the same token wait for its verification.
        let key = Self.key(field, site: site)
        // In this order: what is known is inserted before the verification ends.
        let isInProgress = entries.access { $0.flights[key] != nil }
        return isInProgress || known(key, now: clock()) != nil ? nil : limited(site)
    }

    package func verify(
        _ field: Secret, proof: TokenProof? = nil, site: Int, from origin: AuditContext
    ) async -> RefreshOutcome {
        if let basic, BasicSignIns.isBasic(field) { return await basic.verify(field, site: site, from: origin) }
        let key = Self.key(field, site: site)
        let known = proof == nil ? nil : known(key, now: clock())
        let (outcome, isFirst) =
            if let known { (known.outcome, false) } else { await verifyOnce(field, key, site: site, from: origin) }
        guard case .active(let session) = outcome else {
            known?.provider.report(.accessToken(.rejected))
            return outcome
        }
        guard proof != nil || session.device != nil else { return outcome }
        let part = session.device?.key ?? key.bytes
        guard charge(origin, part, isKept: false) else { return limited(site) }
        let rejection: (reason: TokenRejection, code: ProblemCode)
        if let proof, let device = session.device, let proofs, let place = origins.dropFirst(site).first ?? nil {
            let token = Array(field.bytes.dropFirst(TokenResponse.bearerPrefix.count))
            // Charged at its turn: otherwise all that are sent at once would be checked.
            let result = await proofs.check(
                proof, of: token, key: device.key, at: place, from: RateKey(peer: origin.peer), now: clock()
            ) { [self] isFailure in charge(origin, part, isKept: isFailure) }
            if result == .limited { return limited(site) }
            guard case .rejected(let reason)? = result else {
                known?.provider.report(.accessToken(.cached))
                guard let result else { return .failed(Problem(.overloaded, retryAfter: 1)) }
                return result == .valid ? outcome : .failed(Problem(.useNonce))
            }
            rejection = (reason, .invalidProof)
        } else {
            // One that is known costs the address nothing more, as other tokens that are rejected.
            _ = charge(origin, isFirst ? [] : part, isKept: true)
            rejection = (proof == nil ? .senderConstrained : .notSenderConstrained, .invalidToken)
        }
        let provider = sites[site].first { $0.source == session.source }
        provider?.report(.accessToken(.rejected, rejection.reason, from: origin))
        return .failed(Problem(rejection.code))
    }

    package func forget(_ field: Secret, _ session: Session, site: Int, now: WallTime) -> Bool {
        basic?.forget(field, session, site: site, now: now) ?? false
    }

    /// Only providers that are asked can state that a token has ended before its time.
    package func lookup(_ session: Session, now: WallTime) -> SessionLookup {
        guard asked[session.source] != nil else { return .active(session) }
        if let entry = entries.access({ $0[session.key] }), entry.isValid(at: now) {
            return entry.session.map { .active($0) } ?? .missing(.revoked)
        }
        // Streams may have more tokens than there are entries.
        return now < end(of: session) ? .active(session) : .notCached
    }

    /// When a token has to be verified again.
    private func end(of session: Session) -> WallTime {
        min(session.expiresAt.wallTime, session.createdAt.wallTime + (asked[session.source] ?? Self.lifetime))
    }

    /// Rejected tokens of the address do not prevent the question: a client could keep its own stream open with them.
    package func load(_ session: Session, site: Int, from origin: AuditContext) async -> SessionLookup? {
        let field = session.authorization
        let key = Self.key(field, site: site)
        return switch await verifyOnce(field, key, site: site, from: origin, isLimited: false).outcome {
        case .active(let session): .active(session)
        case .failed(let problem) where problem.code == .invalidToken: .missing(.revoked)
        case .failed, .ended: nil
        }
    }

    private func limited(_ site: Int) -> RefreshOutcome {
        sites[site].first?.report(.accessToken(.limited))
        return .failed(Problem(.rateLimited, retryAfter: 1))
    }

    /// What is known about a token; without a session if it was rejected or has expired.
    private func known(_ key: SessionKey, now: WallTime) -> Entry? {
        guard var entry = entries.access({ $0[key] }) else { return nil }
        // An expired token is not checked again. Its provider may have stated no end.
        let isExpired =
            entry.provider.introspection == nil && entry.session.map { now >= $0.expiresAt.wallTime } ?? false
        guard isExpired || entry.isValid(at: now) else { return nil }
        if isExpired { entry.session = nil }
        return entry
    }

    /// - Returns: Also whether the request was the first of those that wait for the outcome.
    private func verifyOnce(
        _ field: Secret, _ key: SessionKey, site: Int, from origin: AuditContext, isLimited: Bool = true
    ) async -> (outcome: RefreshOutcome, isFirst: Bool) {
        var isFirst = false
        let outcome = await entries.run(key, for: RateKey(peer: origin.peer)) {
            isFirst = true
            return !isLimited || charge(origin, isKept: false)
        } known: {
            self.known(key, now: self.clock())?.outcome
        } work: {
            await self.check(field, key, site: site, origin, isLimited: isLimited)
        }
        return (outcome ?? limited(site), isFirst)
    }

    private func check(
        _ field: Secret, _ key: SessionKey, site: Int, _ origin: AuditContext, isLimited: Bool
    ) async -> RefreshOutcome {
        let token = Secret(bytes: Array(field.bytes.dropFirst(TokenResponse.bearerPrefix.count)))
        var failure: (provider: OpenIDProvider, rejection: TokenRejection?)?
        var isForged = false
        // Charged at its turn, and a question before it is sent: otherwise all tokens that are sent at once would be checked
        // or asked about, however many are rejected.
        let charges = Mutex((isCharged: false, isOverLimit: false))
        let candidates = candidates(for: token, site: site)
        for provider in candidates {
            // Of another identity with the same issuer, the token may be valid.
            let isLast = provider === candidates.last
            let revision = provider.keys.revision
            do throws(TokenClientError) {
                let session = try await provider.verifyAccessToken(
                    token, key: key, issuedTo: clients, from: RateKey(peer: origin.peer), isOfStream: !isLimited
                ) { isKept in
                    charges.withLock { charges in
                        guard isLimited, !charges.isCharged else { return true }
                        let isPermitted = self.charge(origin, isKept: isKept && isLast)
                        charges = (isPermitted && isKept && isLast, !isPermitted)
                        return isPermitted
                    }
                }
                if charges.withLock({ $0.isCharged }) { refund(origin) }
                let entry = Entry(
                    session: session, provider: provider, revision: revision, validUntil: end(of: session))
                // Claims are kept as text and as values, and rendered for upstreams.
                let claims = 8 * (session.provenance?.claims.count ?? 0)
                let size = 1_024 + token.bytes.count + claims + assertionBytes
                counts.requests.share(session)
                entries.access { $0.insert(entry, size: size, at: key) }
                provider.report(.accessToken(.accepted))
                return .active(session)
            } catch {
                guard case .failed(.token(let rejection)) = error.kind else {
                    failure = (provider, nil)
                    continue
                }
                // By the keys of the issuer, which are also those of another identity that has none yet.
                isForged = isForged || rejection == .invalidSignature || rejection == .invalidSignatureWithoutKeyID
                if failure == nil || rejection == .ownToken { failure = (provider, rejection) }
            }
        }
        let (isCharged, isOverLimit) = charges.withLock { $0 }
        if isOverLimit { return limited(site) }
        if failure == nil, let first = sites[site].first { failure = (first, .wrongIssuer) }
        guard let (provider, rejection) = failure else { return .failed(Problem(.invalidToken)) }
        // Clients repeat expired tokens by mistake, and no attacker has many of them.
        let isCounted = isForged || rejection != nil && rejection != .expired
        if isCharged, !isCounted { refund(origin) } else if !isCharged, isCounted { _ = charge(origin, isKept: true) }
        guard let rejection else {
            provider.report(.accessToken(.unavailable))
            return .failed(Problem(.identityUnavailable, retryAfter: 1))
        }
        let end = clock() + (provider.introspection?.rejected ?? Self.rejectionLifetime)
        let entry = Entry(provider: provider, revision: provider.keys.revision, validUntil: end)
        entries.access { $0.insert(entry, size: 256, at: key) }
        provider.report(.accessToken(rejection == .ownToken ? .ownToken : .rejected, rejection, from: origin))
        return .failed(Problem(.invalidToken))
    }

    /// Charges a rejected token to an address, and to the /48 of an IPv6 address, or to none of them.
    /// - Parameters:
    ///   - part: For proofs, the key, or the token if it has none: they are counted for it and the address, so that no client
    ///     is limited by the proofs of others with the same address.
    ///   - isKept: Otherwise the charge is taken back at once.
    /// - Returns: Whether their rejected tokens are few.
    private func charge(_ origin: AuditContext, _ part: [UInt8] = [], isKept: Bool) -> Bool {
        var key = RateKey(peer: origin.peer)
        let now = NIODeadline.now().uptimeNanoseconds
        if !part.isEmpty {
            key.value = RateKey.processHash.hash(key.value.bigEndianBytes + part)
            if key.block != 0 { key.block = RateKey.processHash.hash(key.block.bigEndianBytes + part) }
        }
        guard key.block == 0 || rejections.charge(key.block, Self.blockPace, now: now).wait == 0 else { return false }
        let isCharged = rejections.charge(key.value, Self.pace, now: now).wait == 0
        if isCharged, !isKept { rejections.refund(key.value, Self.pace) }
        if key.block != 0, !isCharged || !isKept { rejections.refund(key.block, Self.blockPace) }
        return isCharged
    }

    /// Takes back the charge of a token that was not rejected.
    private func refund(_ origin: AuditContext) {
        let key = RateKey(peer: origin.peer)
        rejections.refund(key.value, Self.pace)
        if key.block != 0 { rejections.refund(key.block, Self.blockPace) }
    }

    /// The providers that may have issued a token, and may see it. The signature of a JWT is not verified yet, but a
    /// wrong issuer only has the token rejected. A token of another form states none, and is left to the last provider.
    private func candidates(for token: Secret, site: Int) -> [OpenIDProvider] {
        let parts = token.bytes.split(separator: UInt8(ascii: "."), maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 3, Base64URL.decode(parts[0])?.first(where: { $0 > 0x20 }) == UInt8(ascii: "{") else {
            return sites[site].suffix(1)
        }
        let payload = Base64URL.decode(parts[1]).flatMap { JSONValue(document: $0) }
        guard case .object(let claims)? = payload, let issuer = claims["iss"]?.string else { return [] }
        return sites[site].filter { TokenClaims.isSame($0.identity.issuer, issuer) }
    }

    /// SHA-256 of the token, whatever the case of its scheme is, and its site.
    private static func key(_ field: Secret, site: Int) -> SessionKey {
        let token = field.bytes.dropFirst(TokenResponse.bearerPrefix.count)
        let key = SHA256.hash(data: token).withUnsafeBytes { SessionKey(digest: $0) }
        return SessionKey(key.word0, key.word1, key.word2, key.word3 ^ UInt64(truncatingIfNeeded: site))
    }
}
