import CloakroomCore
import NIOCore
import TestSupport

@testable import CloakroomSessions

/// The parameters of one run, drawn from its seed. All times are in milliseconds. They have the proportions of the real
/// ones, and most are shorter.
struct Settings {
    /// Shards, each with a primary and a replica. A majority of three primaries elects a new one.
    static let shards = 3
    static let nodes = 6
    /// The addresses of the servers, by number.
    static let addresses = (0..<nodes).map { HostAndPort(host: "n\($0)", port: 6_379) }
    /// How long an unconfirmed server is trusted.
    static let topologyTrust = ClusterTopology.trustPeriod.nanoseconds / 1_000_000
    /// The interval of ``ClusterTopology/tick(now:)``.
    static let tick: Int64 = 100
    /// The longest time between two attempts to connect: ``ClusterTopology/reconnectDelays``.
    static let reconnect: Int64 = 5_000
    /// How long a promoted replica accepts no writes in the scenario of these, as a server without replicas may.
    static let rejection: Int64 = 3_000
    /// The bound of `WAIT`.
    static let waitBound: Int64 = 200
    /// The period after an outage of a partition without new refreshes, and in which a missing record proves nothing.
    static let grace = PostOutageGracePeriod.length.wholeMilliseconds
    /// How long servers keep the note of an ended session, and gateways keep their journal.
    static let tombstoneLife: Int64 = 12_000
    static let journalLife: Int64 = 10_000
    static let journalLimits = JournalTable<JournalKey, JournaledWrite>.Limits(
        count: 1_000, size: 1 << 20, lifetime: .milliseconds(journalLife))
    /// The most that a primary loses that restarts with its own data: appended to its file once a second.
    static let unsynced: Int64 = 1_000

    /// The rule of the throttle: one window for the whole run.
    static let throttle = ThrottleRule(
        limit: 3, window: .seconds(60), delay: .window, maxDelay: .seconds(120))

    /// A kind of writes.
    enum Trigger { case lease, save, insert, remove, cutoff, mark }

    /// A rare sequence of faults, instead of random ones. Four in ten runs have one.
    enum Scenario {
        /// A gateway stays in a minority with the server of all keys, and a session ends at another one.
        case longMinority
        /// A server is replaced after it has forgotten that sessions have ended.
        case lateFailover
        /// A promoted replica lacks ends of sessions, and accepts no writes at first.
        case rejectedWrites
        /// An account's sessions end while the server of some is down, and later cutoffs keep one of these.
        case keptAfterEnd
    }

    let scenario: Scenario?
    /// The number of shards that have keys.
    let usedShards: Int
    let gateways: Int
    /// The sessions that exist at the start.
    let sessions: Int
    let accounts: Int
    let logins: [(at: Int64, account: Int)]
    /// The number of logins at a provider, each with a mark, and when their callbacks are sent, also again.
    let marks: Int
    let callbacks: [(at: Int64, mark: Int)]
    /// The number of keys of the throttle, and when clients make several attempts at the same time.
    let throttleKeys: Int
    let attempts: [(at: Int64, key: Int, count: Int)]
    let nodeTimeout: Int64
    let commandTimeout: Int64
    let limits: RefreshTimeouts
    let accessLife: Int64
    let calmAt: Int64
    let requestInterval: Int64
    /// The usual delay of replication, at most.
    let replicationDelay: Int64
    /// Probabilities in thousandths.
    var slow, slowToken: Int
    /// The writes after which the primary may fail before it has replicated them; `nil` for none.
    var failsAfter: Trigger?
    let faults: [(at: Int64, what: Fault)]
    /// The errors of the clocks of gateways and of servers.
    let gatewaySkews, nodeSkews: [Int64]

    var allSessions: Int { sessions + logins.count }
    /// Each session, each account, each mark and each key of the throttle has a slot of its own.
    var keyedSlots: Int { allSessions + accounts + marks + throttleKeys }
    /// With one for the remaining hash slots of each shard.
    var slots: Int { keyedSlots + Self.shards }

    static func number(of address: HostAndPort) -> Int { addresses.firstIndex(of: address) ?? 0 }

    init(_ random: inout SeededGenerator, seed: UInt64) {
        scenario =
            switch seed % 10 {
            case 3: .rejectedWrites
            case 7: .longMinority
            case 8: .lateFailover
            case 9: .keptAfterEnd
            default: nil
            }
        usedShards = scenario == nil || scenario == .keptAfterEnd ? Self.shards : 1
        gateways = scenario == nil ? 1 + random.below(3) : 2 + random.below(2)
        sessions = scenario == .keptAfterEnd ? 3 : 1 + random.below(3)
        accounts = (sessions + 1) / 2
        nodeTimeout = random.between(500, 1_500)
        commandTimeout = random.between(200, 400)
        let triggers: [Trigger] = [.lease, .save, .insert, .remove, .cutoff]
        failsAfter = random.chance(500) ? triggers[random.below(5)] : nil
        // Some calls take longer than the grace period.
        let call =
            failsAfter == .lease
            ? random.between(6_000, 9_000) : random.between(500, random.chance(150) ? 9_000 : 2_500)
        let lease = call + random.between(3_000, 5_000)
        limits = RefreshTimeouts(
            call: .milliseconds(call), lease: .milliseconds(lease), waiting: .milliseconds(lease + 200),
            keeping: .milliseconds(20_000), pause: .milliseconds(50))
        accessLife = scenario == .longMinority ? 40_000 : random.between(1_500, random.chance(300) ? 40_000 : 5_000)
        calmAt =
            switch scenario {
            case .lateFailover: 22_000
            case .longMinority, .rejectedWrites, .keptAfterEnd: 13_000
            case nil: random.between(5_000, random.chance(300) ? 25_000 : 10_000)
            }
        // A record is missing only until the gateway that has inserted it inserts it again.
        let interval = random.between(150, 800)
        requestInterval = failsAfter == .insert ? interval / 5 : interval
        replicationDelay = random.chance(600) ? 10 : random.between(50, 1_500)
        slow = random.chance(500) ? 0 : 1 + random.below(30)
        slowToken = failsAfter == .lease ? 700 : random.chance(400) ? 0 : 1 + random.below(600)
        (gatewaySkews, nodeSkews) =
            random.chance(600)
            ? (Self.skews(gateways, &random), Self.skews(Self.nodes, &random))
            : (Array(repeating: 0, count: gateways), Array(repeating: 0, count: Self.nodes))
        var logins: [(at: Int64, account: Int)] = []
        for _ in 0..<(failsAfter == .insert ? 3 : random.below(4)) {
            logins.append((random.between(300, calmAt), random.below(accounts)))
        }
        self.logins = logins
        var faults: [(at: Int64, what: Fault)]
        if let scenario {
            faults = Self.faults(scenario, &random, sessions, nodeTimeout)
        } else {
            faults = Self.faults(&random, gateways, sessions + logins.count, accounts, logins, until: calmAt)
        }
        // A fifth of the runs has logins at a provider and throttled attempts. Nothing is drawn for the others.
        guard seed % 10 == 4 || seed % 10 == 5 else {
            (marks, callbacks, throttleKeys, attempts) = (0, [], 0, [])
            self.faults = faults
            return
        }
        marks = 1 + random.below(4)
        throttleKeys = 1 + random.below(2)
        callbacks = Self.callbacks(&random, marks, until: calmAt)
        attempts = Self.attempts(&random, throttleKeys, until: calmAt)
        if random.chance(600) { failsAfter = .mark }
        if random.chance(400) {
            let slot = sessions + logins.count + accounts + random.below(marks + throttleKeys)
            faults.append((random.between(500, calmAt), .migrate(slot: slot, to: random.below(Self.shards))))
        }
        self.faults = faults
    }

    /// When callbacks are sent: each once, many again soon, and all again at the end.
    private static func callbacks(
        _ random: inout SeededGenerator, _ marks: Int, until calmAt: Int64
    ) -> [(at: Int64, mark: Int)] {
        var callbacks: [(at: Int64, mark: Int)] = []
        for mark in 0..<marks {
            let first = random.between(500, calmAt)
            callbacks.append((first, mark))
            if random.chance(300) { callbacks.append((first + random.between(0, 20), mark)) }
            if random.chance(300) { callbacks.append((first + random.between(50, 12_000), mark)) }
            for _ in 0..<3 { callbacks.append((calmAt + random.between(12_000, 17_000), mark)) }
        }
        return callbacks
    }

    private static func attempts(
        _ random: inout SeededGenerator, _ keys: Int, until calmAt: Int64
    ) -> [(at: Int64, key: Int, count: Int)] {
        (0..<(4 + random.below(6))).map { _ in
            (random.between(300, calmAt + 10_000), random.below(keys), 1 + random.below(5))
        }
    }

    private static func skews(_ count: Int, _ random: inout SeededGenerator) -> [Int64] {
        (0..<count).map { _ in random.between(-200, 200) }
    }

    private static func faults(
        _ scenario: Scenario, _ random: inout SeededGenerator, _ sessions: Int, _ nodeTimeout: Int64
    ) -> [(at: Int64, what: Fault)] {
        let start = random.between(3_000, 5_000)
        var faults: [(at: Int64, what: Fault)] = []
        switch scenario {
        case .longMinority:
            faults.append((start, .isolatePrimary(shard: 0, gateways: 1, isLong: true)))
            // Several: the gateway in the minority can end no session.
            let promoted = start + nodeTimeout + 1_500
            for delay in [0, 300, 600] as [Int64] { faults.append((promoted + delay, .signOut(session: 0))) }
        case .lateFailover:
            for session in 0..<sessions { faults.append((start, .signOut(session: session))) }
            let later = start + tombstoneLife + random.between(500, 2_000)
            faults.append((later, .crashPrimary(shard: 0, restartsSoon: random.chance(500))))
        case .rejectedWrites:
            faults.append((start, .slowReplication(shard: 0)))
            for session in 0..<sessions { faults.append((start + 10, .signOut(session: session))) }
            // After the replies, which wait for the replica in vain.
            faults.append((start + waitBound + 60, .crashPrimary(shard: 0, restartsSoon: false)))
        case .keptAfterEnd:
            faults.append((start, .crashPrimary(shard: random.below(shards), restartsSoon: false)))
            // Session 2 belongs to another account.
            let ends = [(random.between(20, 400), 2), (3_500, 0), (7_500, 1)]
            for (delay, kept) in ends { faults.append((start + delay, .signOutEverywhere(account: 0, keeps: kept))) }
        }
        return faults
    }

    private static func faults(
        _ random: inout SeededGenerator, _ gateways: Int, _ sessions: Int, _ accounts: Int,
        _ logins: [(at: Int64, account: Int)], until calmAt: Int64
    ) -> [(at: Int64, what: Fault)] {
        var faults: [(at: Int64, what: Fault)] = []
        func add(_ permille: Int, upTo most: Int, _ make: (inout SeededGenerator) -> Fault) {
            guard random.chance(permille) else { return }
            for _ in 0...random.below(most) { faults.append((random.between(500, calmAt), make(&random))) }
        }
        add(350, upTo: 2) { .crashPrimary(shard: $0.below(shards), restartsSoon: false) }
        add(200, upTo: 2) { .crashPrimary(shard: $0.below(shards), restartsSoon: true) }
        add(300, upTo: 2) { .freezePrimary(shard: $0.below(shards)) }
        add(300, upTo: 2) { .isolatePrimary(shard: $0.below(shards), gateways: $0.below(1 << gateways)) }
        add(200, upTo: 2) { .isolateGateway($0.below(gateways)) }
        add(150, upTo: 1) { .crashReplica(shard: $0.below(shards)) }
        add(300, upTo: 3) { .slowReplication(shard: $0.below(shards)) }
        add(250, upTo: 2) { .crashGateway($0.below(gateways)) }
        add(200, upTo: 2) { .pauseGateway($0.below(gateways)) }
        add(300, upTo: 3) { .migrate(slot: $0.below(sessions + accounts), to: $0.below(shards)) }
        add(350, upTo: 2) { .signOut(session: $0.below(sessions)) }
        add(350, upTo: 2) { .signOutEverywhere(account: $0.below(accounts), keeps: $0.below(sessions)) }
        // Near a sign-in, where the order decides.
        for login in logins where random.chance(300) {
            let at = max(100, login.at + random.between(-200, 100))
            faults.append((at, .signOutEverywhere(account: login.account, keeps: random.below(sessions))))
        }
        // Near a fault, when writes are not replicated yet.
        let early = faults.filter { $0.what.isFailover }
        for (at, _) in early where random.chance(500) {
            let session = random.below(sessions)
            let time = max(100, at - random.between(5, 400))
            faults.append(
                (time, random.chance(600) ? .signOut(session: session) : .slowReplication(shard: random.below(shards))))
            if random.chance(200) {
                faults.append((at + random.between(0, 500), .crashGateway(random.below(gateways))))
            }
        }
        return faults
    }

    /// The same parameters without faults.
    mutating func calm() { (slow, slowToken, failsAfter) = (0, 0, nil) }
}

/// A fault, or an action of a user or operator.
enum Fault {
    case crashPrimary(shard: Int, restartsSoon: Bool)
    case freezePrimary(shard: Int)
    /// The primary is in a minority, with the gateways whose bits are set.
    case isolatePrimary(shard: Int, gateways: Int, isLong: Bool = false)
    case isolateGateway(Int)
    case crashReplica(shard: Int)
    case slowReplication(shard: Int)
    case crashGateway(Int)
    case pauseGateway(Int)
    case migrate(slot: Int, to: Int)
    case signOut(session: Int)
    case signOutEverywhere(account: Int, keeps: Int)

    var isFailover: Bool {
        switch self {
        case .crashPrimary, .freezePrimary, .isolatePrimary: true
        default: false
        }
    }
}
