import CloakroomCore
import TestSupport

@testable import CloakroomSessions

/// Gateways, clients, servers and an identity provider in one thread and in virtual time, as a sequence of events.
///
/// The simulation depends on its seed only: it uses no real clock, no task, and no dictionary, whose order differs
/// between processes.
final class World {
    /// Global knowledge about a session, which gateways do not have.
    struct Truth {
        let account: Int
        var requestedAt: Int64 = -1
        var born: Int64 = 1
        /// When the client received the cookie.
        var signedInAt: Int64?
        /// Whether a replica has confirmed the record.
        var isInsertConfirmed = false
        /// The processes that have a version of the record in their journal.
        var recordHolders: [Int] = []
        /// Whether a sign-out may have ended the session, acknowledged or not.
        var mayHaveEnded = false
        /// When the first sign-out was acknowledged.
        var endedAt: Int64?
        var isEndConfirmed = false
        var endHolders: [Int] = []
    }

    /// A callback of a login that a gateway has accepted, because it has set the mark.
    struct Acceptance {
        let process: Int
        let at: Int64
        /// When the server has executed the command; the time of the result if no server has.
        let executedAt: Int64
        let isConfirmed: Bool
    }

    struct Migration {
        let slot: Int
        let from: Int
        let to: Int
        var isKeyMoved = false
    }

    let mutant: InjectedBug?
    var settings: Settings
    var random: SeededGenerator
    var queue = EventQueue()
    var now: Int64 = 0
    let nodes: [Node]
    let gateways: [Gateway]
    var upstream: Upstream
    var calls: [Call] = []
    var requests: [Request] = []
    var refreshes: [Refresh] = []
    var signOuts: [SignOut] = []
    var attempts: [Attempt] = []
    var repetitions: [Repetition] = []
    /// The versions of sessions that were written, by the number in their records.
    var versions: [Session] = []
    /// The acceptances of each mark.
    var acceptances: [[Acceptance]]
    /// The number of attempts that were admitted, by key of the throttle.
    var admitted: [Int]
    var truths: [Truth]
    /// Whether each process lives, by its number, and the gateway that it is a process of.
    var processes: [(isAlive: Bool, gateway: Int)] = []
    /// The end of each isolation.
    var isolations: [Int64] = []
    // The topology that the majority agrees on.
    var primaries: [Int]
    var owners: [Int]
    var migration: Migration?
    /// Until when a shard gets no fault, because it received keys that its replica may not have.
    var guardedUntil: [Int64]
    var slowReplicationUntil: [Int64]
    /// When the server of a slot failed, was replaced, and restarted with older data.
    var failedAt, promotedAt, lostAt: [Int64]
    /// How often the server of a slot was replaced, or restarted with older data.
    var losses: [Int]
    /// The hash slots of the slots, and the slot of each hash slot.
    let hashSlots, places: [Int]
    /// The replies to `CLUSTER SLOTS` so far.
    var reports: [(owners: [Int], slots: ClusterSlots)] = []
    var coverage = Coverage()
    var violation: Violation?
    var trace: [String]?
    var eventCount = 0

    init(seed: UInt64, mutant: InjectedBug?, isTraced: Bool) {
        var random = SeededGenerator(seed: seed)
        let settings = Settings(&random, seed: seed)
        let owners =
            (0..<settings.keyedSlots).map { _ in 2 * random.below(settings.usedShards) }
            + (0..<Settings.shards).map { 2 * $0 }
        (hashSlots, places) = Names.slots(settings)
        self.settings = settings
        self.mutant = mutant
        self.owners = owners
        trace = isTraced ? [] : nil
        primaries = (0..<Settings.shards).map { 2 * $0 }
        nodes = (0..<Settings.nodes).map { Node($0, settings, owners: owners) }
        gateways = (0..<settings.gateways).map { Gateway($0, settings) }
        upstream = Upstream(sessions: settings.allSessions)
        truths =
            (0..<settings.sessions).map { Truth(account: $0 / 2) } + settings.logins.map { Truth(account: $0.account) }
        guardedUntil = Array(repeating: 0, count: Settings.shards)
        slowReplicationUntil = guardedUntil
        failedAt = Array(repeating: -100_000, count: settings.slots)
        (promotedAt, lostAt) = (failedAt, failedAt)
        losses = Array(repeating: 0, count: settings.slots)
        acceptances = Array(repeating: [], count: settings.marks)
        admitted = Array(repeating: 0, count: settings.throttleKeys)
        self.random = random
    }

    /// Runs until no event is left or an invariant is violated.
    func run() {
        begin()
        while violation == nil, let (time, event) = queue.pop() {
            now = time
            eventCount += 1
            if eventCount > 60_000 { violate(.progress, "the event queue never becomes empty") }
            handle(event)
        }
        if violation == nil { checkEnd() }
    }

    /// When the last request of a run arrives: isolations, failures and grace periods have ended.
    var end: Int64 { settings.calmAt + 25_000 }

    private func begin() {
        for node in nodes where !node.isPrimary { node.synchronize(with: nodes[node.number ^ 1]) }
        for index in 0..<settings.sessions {
            let pair = upstream.issue(index)
            let session = Names.session(
                index, account: truths[index].account, pair: pair, at: SessionTime(milliseconds: Names.epoch),
                life: settings.accessLife)
            for node in [owners[index], owners[index] ^ 1] {
                nodes[node].data.records[index].session = session
                nodes[node].data.records[index].born = 1
            }
            let account = truths[index].account
            let slot = slot(account: account)
            for node in [owners[slot], owners[slot] ^ 1] { nodes[node].data.indexes[account].sessions.append(index) }
            truths[index].requestedAt = 0
            truths[index].signedInAt = 0
            truths[index].isInsertConfirmed = true
            queue.push(.request(session: index), at: random.between(200, 800))
        }
        for gateway in gateways { start(gateway) }
        for (index, login) in settings.logins.enumerated() { queue.push(.login(index), at: login.at) }
        for (index, callback) in settings.callbacks.enumerated() { queue.push(.callback(index), at: callback.at) }
        for (index, attempt) in settings.attempts.enumerated() { queue.push(.attempts(index), at: attempt.at) }
        for (time, fault) in settings.faults { queue.push(.fault(fault), at: time) }
        queue.push(.calm, at: settings.calmAt)
        for session in 0..<settings.allSessions {
            for gateway in 0..<settings.gateways {
                let time = end - random.between(0, 800)
                queue.push(.arrive(session: session, gateway: gateway, isProbe: true), at: time)
            }
        }
    }

    func handle(_ event: Event) {
        if let gateway = target(of: event), gateways[gateway].pausedUntil > now {
            gateways[gateway].inbox.append(event)
            return
        }
        switch event {
        case .request(let session): request(session)
        case .arrive(let session, let gateway, let isProbe): arrive(session, at: gateways[gateway], isProbe: isProbe)
        case .login(let login): signIn(login)
        case .callback(let callback): receiveCallback(callback)
        case .attempts(let attempts): makeAttempts(attempts)
        case .command(let call, let node): command(call, at: nodes[node])
        case .reply(let call, let reply): replied(call, reply)
        case .timeout(let call): timedOut(call)
        case .waitTimeout(let call): waitTimedOut(call)
        case .lost(let call): lost(call)
        case .resend(let call): resend(call)
        case .push(let gateway, let node, let link, let slot): pushed(slot, from: node, link, to: gateways[gateway])
        case .replicate(let from, let stream, let effect): replicate(from: nodes[from], stream, effect)
        case .confirm(let node, let stream, let effect): confirm(nodes[node], stream, effect)
        case .fault(let fault): inject(fault)
        case .election(let shard, let failed, let failure): elect(shard, nodes[failed], failure)
        case .gossip(let node): gossip(nodes[node])
        case .wake(let node): queue.push(.gossip(node: node), at: now + random.between(1, 1_000))
        case .restart(let node): restart(nodes[node])
        case .heal(let isolation): heal(isolation)
        case .moveKey: moveKey()
        case .assignSlot: assignSlot()
        case .start(let gateway): start(gateways[gateway])
        case .resume(let gateway): resume(gateways[gateway])
        case .tick(let gateway, let process): tick(gateways[gateway], process)
        case .askSeed(let gateway, let process, let node): askSeed(gateways[gateway], process, node)
        case .seedReply(let gateway, let process, let owners): seedReplied(gateways[gateway], process, owners)
        case .connect(let gateway, let node, let link): connect(gateways[gateway], node, link)
        case .linkReset(let gateway, let node, let link):
            if gateways[gateway].links[node].number == link { dropLink(gateways[gateway], node) }
        case .restored(let gateway, let process, let number): restored(gateways[gateway], process, number)
        case .repeatLater(let gateway, let process): repeatUnaccepted(gateways[gateway], process)
        case .spend(let refresh): spend(refresh)
        case .spent(let refresh, let pair): spent(refresh, pair)
        case .wakeRefresh(let refresh): woke(refresh)
        case .carryOut(let refresh): if isAlive(refresh) { carryOut(refresh) }
        case .calm:
            note("calm")
            settings.calm()
        }
    }

    /// The gateway that has to process an event, and does so after a pause; `nil` for events that a pause does not
    /// delay.
    private func target(of event: Event) -> Int? {
        switch event {
        case .reply(let call, _), .timeout(let call), .lost(let call), .resend(let call): calls[call].gateway
        case .arrive(_, let gateway, _), .push(let gateway, _, _, _), .tick(let gateway, _): gateway
        case .connect(let gateway, _, _), .linkReset(let gateway, _, _), .seedReply(let gateway, _, _): gateway
        case .restored(let gateway, _, _), .repeatLater(let gateway, _): gateway
        case .spent(let refresh, _), .wakeRefresh(let refresh), .carryOut(let refresh): refreshes[refresh].gateway
        default: nil
        }
    }

    func slot(account: Int) -> Int { settings.allSessions + account }
    func slot(mark: Int) -> Int { settings.allSessions + settings.accounts + mark }
    func slot(throttleKey key: Int) -> Int { slot(mark: settings.marks) + key }

    /// The time of a gateway's clock.
    func clock<Clock>(_ gateway: Gateway) -> Timestamp<Clock> {
        Timestamp(milliseconds: Names.epoch + now + gateway.skew)
    }

    func note(_ text: @autoclosure () -> String) {
        guard trace != nil else { return }
        let line = "\(now) \(text())"
        trace?.append(line)
    }

    func violate(_ invariant: Invariant, _ text: @autoclosure () -> String) {
        guard violation == nil else { return }
        let violation = Violation(invariant: invariant, text: text(), time: now)
        self.violation = violation
        note("VIOLATION \(violation)")
    }
}
