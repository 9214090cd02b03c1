import CloakroomCore

@testable import CloakroomSessions

/// A server of the cluster: its data, its view of the topology, and its part in replication.
final class Node {
    struct Record {
        var session: Session?
        /// In microseconds.
        var born: Int64 = 0
        var fence: UInt64 = 0
        var leaseEnd: Int64 = 0
        /// Why the session has ended, if the server still knows.
        var end: SessionEndReason?
        var endedAt: Int64 = 0
    }

    /// The sessions of an account, and the latest birth among them, in microseconds.
    struct Index {
        var sessions: [Int] = []
        var latest: Int64 = 0
    }

    /// The new value of a key, as it is replicated and appended to a file.
    enum Effect {
        case record(Int, Record)
        case cutoff(Int, Cutoff)
        case index(Int, Index)
        case mark(Int, Bool)
        case throttle(Int, ThrottleState?)
    }

    /// The values of all keys.
    struct Data {
        var records: [Record]
        var cutoffs: [Cutoff]
        var indexes: [Index]
        var marks: [Bool]
        var throttle: [ThrottleState?]

        mutating func apply(_ effect: Effect) {
            switch effect {
            case .record(let session, let record): records[session] = record
            case .cutoff(let account, let cutoff): cutoffs[account] = cutoff
            case .index(let account, let index): indexes[account] = index
            case .mark(let mark, let isSet): marks[mark] = isSet
            case .throttle(let key, let state): throttle[key] = state
            }
        }

        /// The effect that restores the present value.
        func inverse(of effect: Effect) -> Effect {
            switch effect {
            case .record(let session, _): .record(session, records[session])
            case .cutoff(let account, _): .cutoff(account, cutoffs[account])
            case .index(let account, _): .index(account, indexes[account])
            case .mark(let mark, _): .mark(mark, marks[mark])
            case .throttle(let key, _): .throttle(key, throttle[key])
            }
        }
    }

    let number: Int
    let shard: Int
    /// The error of the clock.
    let skew: Int64
    var data: Data
    var isUp = true
    var frozenUntil: Int64 = 0
    var rejectsWritesUntil: Int64 = 0
    /// The isolation that the server is part of; -1 for none.
    var isolation = -1
    /// Since when the server is cut off from the majority; `nil` if it is not.
    var isolatedSince: Int64?
    /// Counts the failures, so that an election of an earlier failure is recognized.
    var failures = 0
    var failedAt: Int64 = 0
    /// The server's own view, which may be out of date.
    var isPrimary: Bool
    var owners: [Int]
    /// The writes of this primary's time, with the inverse of each and its time.
    var effects: [(effect: Effect, inverse: Effect, at: Int64)] = []
    /// Counts the synchronizations: writes of an earlier stream are not applied.
    var stream = 0
    /// The stream of the primary that this replica follows; -1 while it is not synchronized.
    var followed = -1
    /// The number of effects that the replica has confirmed.
    var confirmed = 0
    var lastReplication: Int64 = 0
    /// The commands that wait for a confirmation, with the number of effects that has to be confirmed.
    var waiting: [(call: Int, count: Int)] = []
    /// For each slot, the gateways that have read it, with the link of each.
    var readers: [[(gateway: Int, link: Int)]]

    init(_ number: Int, _ settings: Settings, owners: [Int]) {
        self.number = number
        shard = number / 2
        skew = settings.nodeSkews[number]
        isPrimary = number % 2 == 0
        self.owners = owners
        readers = Array(repeating: [], count: settings.slots)
        data = Data(
            records: Array(repeating: Record(), count: settings.allSessions),
            cutoffs: Array(repeating: Cutoff(), count: settings.accounts),
            indexes: Array(repeating: Index(), count: settings.accounts),
            marks: Array(repeating: false, count: settings.marks),
            throttle: Array(repeating: nil, count: settings.throttleKeys))
    }

    /// Whether the server accepts no commands because it has not reached a majority for the node timeout.
    func isClusterDown(_ now: Int64, timeout: Int64) -> Bool {
        isolatedSince.map { now >= $0 + timeout } ?? false
    }

    /// Microseconds by the server's clock.
    func time(_ now: Int64) -> Int64 { (1_000_000 + now + skew) * 1_000 }

    func isReachable(_ now: Int64) -> Bool { isUp && frozenUntil <= now && isolatedSince == nil }

    func forgetReaders() {
        for slot in readers.indices { readers[slot].removeAll() }
    }

    /// Begins a new stream of writes: what was not replicated before is never replicated.
    func beginStream(_ stream: Int) {
        self.stream = stream
        effects.removeAll()
        waiting.removeAll()
        confirmed = 0
        followed = -1
    }

    /// Follows a primary: takes all its data.
    func synchronize(with primary: Node) {
        data = primary.data
        beginStream(stream)
        followed = primary.stream
        forgetReaders()
    }
}
