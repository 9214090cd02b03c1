import CloakroomCore
import NIOCore

@testable import CloakroomSessions

/// A gateway process: its links, and the values of the product that decide for it. ``World`` carries out what they decide.
final class Gateway {
    struct Link {
        enum State { case down, connecting, ready }
        var state = State.down
        /// Counts the connections; replies and pushes of earlier ones are lost.
        var number = 0
        /// The latest arrivals in both directions: messages of a connection stay in order.
        var lastSent: Int64 = 0
        var lastReceived: Int64 = 0
        /// The commands without a reply.
        var calls: [Int] = []
        /// Whether the journal is being written again over this link, later than the server was replaced.
        var isRepeating = false
    }

    let number: Int
    let skew: Int64
    var process = 0
    var isUp = false
    /// The isolation that the gateway is part of; -1 for none.
    var isolation = -1
    var startedAt: Int64 = 0
    var pausedUntil: Int64 = 0
    var inbox: [Event] = []
    /// Since when the gateway has neither been paused nor cut off from the majority, with the time that it then needs to
    /// connect.
    var undisturbedSince: Int64 = 0
    var links = Array(repeating: Link(), count: Settings.nodes)
    var topology: ClusterTopology
    /// Where commands for each slot go.
    var routes: [ClusterTopology.Destination] = []
    var cache: SessionCache
    var grace: PostOutageGracePeriod
    var journal: WriteJournal
    /// When each slot was trusted the last time.
    var trustedAt: [Int64] = []
    /// Whether the next repetition of slots with missing writes is scheduled.
    var repeatsLater = false
    var refreshes: [Int] = []
    var coolUntil: [Int64] = []

    init(_ number: Int, _ settings: Settings) {
        self.number = number
        skew = settings.gatewaySkews[number]
        (topology, cache, grace, journal) = Self.values(seeds: Settings.addresses, random: 0, now: .now(), nil)
    }

    private static func values(
        seeds: [HostAndPort], random: UInt64, now: NIODeadline, _ mutant: InjectedBug?
    ) -> (ClusterTopology, SessionCache, PostOutageGracePeriod, WriteJournal) {
        let limits = Settings.journalLimits
        var records = limits
        if mutant == .journalOutlivesTombstones { records.lifetime = .seconds(1_000) }
        return (
            ClusterTopology(seeds: seeds, random: random, now: now),
            SessionCache(capacity: 16, partitions: HashSlot.count), PostOutageGracePeriod(partitions: HashSlot.count),
            WriteJournal(keys: Names.keys, ends: limits, records: records)
        )
    }

    /// Starts a process, which asks the seeds in their order.
    func start(
        _ process: Int, _ settings: Settings, seeds: [HostAndPort], random: UInt64, now: Int64, _ mutant: InjectedBug?
    ) {
        self.process = process
        isUp = true
        startedAt = now
        pausedUntil = 0
        if isolation < 0 { undisturbedSince = now }
        for node in links.indices { links[node] = Link(number: links[node].number + 1) }
        (topology, cache, grace, journal) = Self.values(
            seeds: seeds, random: random, now: World.deadline(now), mutant)
        routes = Array(repeating: .none, count: settings.slots)
        trustedAt = Array(repeating: -1_000_000, count: settings.slots)
        repeatsLater = false
        refreshes = Array(repeating: -1, count: settings.allSessions)
        coolUntil = Array(repeating: 0, count: settings.allSessions)
    }
}
