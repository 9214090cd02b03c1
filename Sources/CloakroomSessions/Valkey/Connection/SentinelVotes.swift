import CloakroomCore
import NIOCore

/// What the sentinels have replied recently, and which server may be used by it. The rules:
///
/// - A reply counts for ``period`` after its question was sent.
/// - A server is confirmed if at least half of the configured sentinels name it, and more than any other server. The
///   sentinels that do not name it are then no majority, and a failover requires a majority.
/// - A server that is not confirmed is used only if no sentinel names another one: sentinels that do not respond are no
///   reason to stop, one that names another server is.
struct SentinelVotes: Sendable {
    /// The time for which a reply counts: as long as a cluster's servers are trusted without a confirmation.
    static let period = Duration.nanoseconds(ClusterTopology.trustPeriod.nanoseconds)

    enum Verdict: Sendable, Equatable {
        /// At least half of the sentinels name the server, and more than any other.
        case confirmed
        /// Fewer name the server, and no sentinel names another one.
        case unconfirmed
        /// The server must not be used.
        case contradicted
    }

    private struct Reply {
        /// The named server; `nil` if the sentinel does not know the primary.
        var server: HostAndPort?
        var askedAt: ContinuousClock.Instant
    }

    private var replies: [Reply?]
    private var wasTried: [Bool]

    /// - Parameter count: The number of configured sentinels, at least 1.
    init(count: Int) {
        replies = Array(repeating: nil, count: count)
        wasTried = Array(repeating: false, count: count)
    }

    /// Whether each sentinel has replied or failed at least once.
    var isComplete: Bool { wasTried.allSatisfy { $0 } }

    /// A sentinel has replied.
    /// - Parameters:
    ///   - server: The named server; `nil` if the sentinel does not know the primary.
    ///   - time: When the question was sent.
    mutating func replied(_ sentinel: Int, _ server: HostAndPort?, askedAt time: ContinuousClock.Instant) {
        replies[sentinel] = Reply(server: server, askedAt: time)
        wasTried[sentinel] = true
    }

    /// A sentinel could not be asked. Its last reply counts until its time is over.
    mutating func failed(_ sentinel: Int) {
        wasTried[sentinel] = true
    }

    /// Whether a server may be used.
    func verdict(on server: HostAndPort, now: ContinuousClock.Instant) -> Verdict {
        let counts = counts(now)
        let supporters = counts[server] ?? 0
        let rivals = counts.filter { $0.key != server }.values.max() ?? 0
        if 2 * supporters >= replies.count, supporters > rivals { return .confirmed }
        return rivals == 0 ? .unconfirmed : .contradicted
    }

    /// When the newest questions were sent whose replies confirm a server; `nil` if it is not confirmed.
    func confirmation(of server: HostAndPort, now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
        guard verdict(on: server, now: now) == .confirmed else { return nil }
        let times = replies.compactMap { $0?.server == server ? $0?.askedAt : nil }.sorted(by: >)
        // The oldest of those that are just half of the sentinels.
        return times[(replies.count + 1) / 2 - 1]
    }

    /// The server to connect to; `nil` if no sentinel names one, or if they contradict each other.
    func choice(now: ContinuousClock.Instant) -> HostAndPort? {
        counts(now).keys.first { verdict(on: $0, now: now) != .contradicted }
    }

    /// Whether some sentinel names a server.
    func hasNames(now: ContinuousClock.Instant) -> Bool { !counts(now).isEmpty }

    private func counts(_ now: ContinuousClock.Instant) -> [HostAndPort: Int] {
        var counts: [HostAndPort: Int] = [:]
        for reply in replies {
            guard let reply, now - reply.askedAt < Self.period, let server = reply.server else { continue }
            counts[server, default: 0] += 1
        }
        return counts
    }
}
