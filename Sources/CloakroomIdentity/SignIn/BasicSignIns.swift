package import CloakroomCore
import Crypto

/// The sign-ins of clients that send a name and a password with each request (RFC 7617), each as a session without a
/// ticket, in this process only.
///
/// The gateway signs in once for all requests with the same name and password, and again if the access token has expired,
/// after ``BasicConfiguration/maximum``, or if none was used for ``BasicConfiguration/idle``. Each of these sign-ins passes
/// the throttle of those at the endpoint. No name and no password is kept: an entry has an HMAC of them as its key, under a
/// random key. The sign-ins outlive a reload that does not change where and how long they are valid: otherwise all clients
/// of an address would sign in at once, and be throttled.
package final class BasicSignIns: Sendable, Unprintable {
    /// The maximum number of sign-ins in progress, with the values of `Authorization`, of which each client has a share.
    static let maxFlights = 1_024
    /// The minimum age of a sign-in whose token an upstream rejects, so that another one may help. An upstream that rejects
    /// each token would otherwise use up the attempts of an account.
    static let renewalAge = Duration.seconds(120)

    /// The endpoints of each site.
    private let sites: [AccountController]
    private let configuration: BasicConfiguration
    private let clock: @Sendable () -> WallTime
    private let sessionClock: @Sendable () -> SessionTime
    let counts: ClientCounts
    private let entries: RecentEntries<Session>

    /// - Parameters:
    ///   - counts: Those of the process.
    ///   - sessionClock: The time of the throttle.
    ///   - previous: Those of the previous configuration.
    package init(
        _ sites: [AccountController], _ configuration: BasicConfiguration, counts: ClientCounts = ClientCounts(),
        previous: BasicSignIns? = nil,
        clock: @escaping @Sendable () -> WallTime, sessionClock: @escaping @Sendable () -> SessionTime
    ) {
        (self.sites, self.configuration, self.counts) = (sites, configuration, counts)
        (self.clock, self.sessionClock) = (clock, sessionClock)
        let sources = sites.map(\.clients.signInSource)
        if let previous, previous.configuration == configuration,
            previous.sites.map(\.clients.signInSource) == sources
        {
            entries = previous.entries
        } else {
            entries = RecentEntries(maxEntries: configuration.entries, shares: counts.signIns)
        }
    }

    /// Whether the scheme of a value of `Authorization` is Basic, and not another one that routes accept.
    static func isBasic(_ field: Secret) -> Bool {
        field.bytes.count > 5 && field.bytes[5] == 0x20 && zip(field.bytes, "basic".utf8).allSatisfy { $0 | 0x20 == $1 }
    }

    /// The session of an earlier sign-in, which is in use then; `nil` if there is none that is valid.
    func cached(_ field: Secret, site: Int, now: WallTime) -> RefreshOutcome? {
        let key = key(of: field, site: site)
        guard let session = entries.access({ $0[key] }), now < session.expiresAt.wallTime,
            now - session.lastUsedAt.wallTime < configuration.idle
        else { return nil }
        session.touch(at: now.sessionTime, granularity: .zero)
        return .active(session)
    }

    /// Forgets a sign-in, because the upstream has rejected its token.
    /// - Returns: Whether there is, or may be, another token.
    func forget(_ field: Secret, _ session: Session, site: Int, now: WallTime) -> Bool {
        guard now - session.createdAt.wallTime >= Self.renewalAge else { return false }
        let key = key(of: field, site: site)
        entries.access { if $0[key] === session { $0.remove(key) } }
        return true
    }

    /// Signs in, or waits for the sign-in with the same name and password in progress.
    func verify(_ field: Secret, site: Int, from origin: AuditContext) async -> RefreshOutcome {
        let key = key(of: field, site: site)
        let outcome = await entries.run(
            key, for: RateKey(peer: origin.peer), known: { self.cached(field, site: site, now: self.clock()) },
            work: { await self.signIn(field, key, site: site, origin) })
        return outcome ?? .failed(Problem(.overloaded, retryAfter: 1))
    }

    private func signIn(_ field: Secret, _ key: SessionKey, site: Int, _ origin: AuditContext) async -> RefreshOutcome {
        let request = AccountRequest(
            endpoint: .signIn, authorization: field, now: sessionClock(), wallTime: clock(), origin: origin)
        let outcome = await sites[site].signIn(request, key: key, maximum: configuration.maximum)
        if case .active(let session) = outcome {
            let size = 1_024 + session.tokens.authorization.bytes.count + session.user.json.count
            counts.requests.share(session)
            entries.access { $0.insert(session, size: size, at: key) }
        }
        return outcome
    }

    /// The HMAC of the site, and of the name and the password as they were sent. There is one upstream that signs in.
    private func key(of field: Secret, site: Int) -> SessionKey {
        var code = HMAC<SHA256>(key: counts.key)
        code.update(data: [UInt8(truncatingIfNeeded: site)])
        code.update(data: field.bytes.dropFirst(6))
        return code.finalize().withUnsafeBytes { SessionKey(digest: $0) }
    }
}
