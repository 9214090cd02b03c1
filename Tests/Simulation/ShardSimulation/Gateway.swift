import CloakroomCore

/// A gateway process and its rules: links, the topology that it believes, trust in partitions, the cache and the
/// journal.
final class Gateway {
    struct Link {
        enum State { case down, connecting, ready }
        var state = State.down
        var readyAt: Int64 = 0
        /// Counts the connections; replies and pushes of earlier ones are lost.
        var number = 0
        /// The latest arrivals in both directions: messages of a connection stay in order.
        var lastSent: Int64 = 0
        var lastReceived: Int64 = 0
    }

    /// The view of a server, with the time of the question.
    struct View {
        let askedAt: Int64
        let owners: [Int]
        let isPrimary: Bool
    }

    /// What the gateway knows about a slot.
    struct Partition {
        var owner: Int
        /// Even: not trusted. Odd: trusted. Each change adds 1.
        var word = 0
        /// When a majority of the primaries named the owner: the time of the question.
        var confirmedAt: Int64 = -1_000_000
        /// When it was trusted the last time.
        var trustedAt: Int64 = -1_000_000
        /// The end of the grace period.
        var graceEnd: Int64 = 0
        /// Whether the next trust follows an outage that this process has seen, or a first attempt that failed.
        var hadOutage = false
        /// When the owner changed, and the one before.
        var changedAt: Int64 = -1_000_000
        var previous: Int?
        /// Whether the journal has to be written again before the next trust.
        var needsAssertion = true
        /// The commands of the running assertion that have no reply yet; `nil` if none runs.
        var asserting: Int?
        /// Counts the assertions.
        var assertion = 0
        var hasAssertionFailed = false
        /// Commands that were redirected, until the slot is trusted again.
        var parked: [Int] = []

        var isTrusted: Bool { word & 1 == 1 }
    }

    struct CachedSession {
        let session: Session
        let born: Int64
        let word: Int
    }

    let number: Int
    let skew: Int64
    var process = 0
    var isUp = false
    var isIsolated = false
    /// The isolation that the gateway is part of; -1 for none.
    var isolation = -1
    var startedAt: Int64 = 0
    var pausedUntil: Int64 = 0
    var inbox: [Event] = []
    /// Since when the gateway has neither been paused nor cut off from the majority.
    var undisturbedSince: Int64 = 0
    var links = Array(repeating: Link(), count: Settings.nodes)
    var views = [View?](repeating: nil, count: Settings.nodes)
    var partitions: [Partition] = []
    var sessions: [CachedSession?] = []
    var cutoffs: [(cutoff: Cutoff, word: Int)?] = []
    var refreshes: [Int] = []
    var coolUntil: [Int64] = []
    // The journal.
    var ends: [(session: Int, reason: SessionEndReason, at: Int64)] = []
    var saved: [JournaledRecord?] = []
    var ownCutoffs: [(account: Int, cutoff: Cutoff, at: Int64)] = []
    var leases: [(session: Int, fence: UInt64, end: Int64)] = []
    var marks: [(mark: Int, at: Int64)] = []

    init(_ number: Int, _ settings: Settings) {
        self.number = number
        skew = settings.gatewaySkews[number]
    }

    /// Starts a process.
    func start(_ process: Int, _ settings: Settings, owners: [Int], now: Int64) {
        self.process = process
        isUp = true
        startedAt = now
        pausedUntil = 0
        if !isIsolated { undisturbedSince = now }
        for node in links.indices { links[node] = Link(number: links[node].number + 1) }
        views = Array(repeating: nil, count: Settings.nodes)
        partitions = owners.map { Partition(owner: $0) }
        sessions = Array(repeating: nil, count: settings.allSessions)
        cutoffs = Array(repeating: nil, count: settings.accounts)
        refreshes = Array(repeating: -1, count: settings.allSessions)
        coolUntil = Array(repeating: 0, count: settings.allSessions)
        ends = []
        saved = Array(repeating: nil, count: settings.allSessions)
        ownCutoffs = []
        leases = []
        marks = []
    }

    /// Whether cached data of a slot and replies about it may be used.
    func trusts(_ slot: Int, _ now: Int64, _ mutant: InjectedBug?) -> Bool {
        let partition = partitions[slot]
        guard partition.isTrusted else { return false }
        return now <= partition.confirmedAt + Settings.topologyTrust || mutant == .trustsInDoubt
    }

    /// Computes since when a majority of the primaries confirms the owner of each slot.
    func updateConfirmations(_ now: Int64) {
        for slot in partitions.indices {
            var latest: Int64 = -1_000_000
            var second = latest
            for view in views {
                guard let view, view.isPrimary, view.owners[slot] == partitions[slot].owner else { continue }
                if view.askedAt > latest {
                    (latest, second) = (view.askedAt, latest)
                } else if view.askedAt > second {
                    second = view.askedAt
                }
            }
            // Two of three primaries.
            partitions[slot].confirmedAt = second
        }
    }

    /// The owner that a majority of the primaries has named since a time; `nil` for none.
    func majorityOwner(of slot: Int, since: Int64) -> Int? {
        for node in 0..<Settings.nodes {
            var count = 0
            for view in views {
                if let view, view.isPrimary, view.askedAt >= since, view.owners[slot] == node { count += 1 }
            }
            if count >= 2 { return node }
        }
        return nil
    }

    /// Drops the entries that are older than the journal keeps them.
    func trimJournal(_ now: Int64, _ mutant: InjectedBug?) {
        ends.removeAll { $0.at + Settings.journalLife < now }
        ownCutoffs.removeAll { $0.at + Settings.journalLife < now }
        marks.removeAll { $0.at + Settings.journalLife < now }
        leases.removeAll { $0.end <= now }
        guard mutant != .journalOutlivesTombstones else { return }
        for session in saved.indices {
            if let record = saved[session], record.at + Settings.journalLife < now { saved[session] = nil }
        }
    }
}
