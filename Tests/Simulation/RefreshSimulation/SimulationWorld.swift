import CloakroomCore
import TestSupport

/// Replicas, clients, a store and an upstream in one thread and in virtual time, as a sequence of events.
///
/// The simulation depends on its seed only: it uses no real clock, no task, and no dictionary, whose order differs
/// between processes.
final class SimulationWorld {
    let mutant: InjectedBug?
    var settings: Settings
    var random: SeededGenerator
    var queue = EventQueue()
    var now: Int64 = 0
    var store: ModelStore
    var upstream: ModelUpstream
    var replicas: [Replica]
    var calls: [Call] = []
    var responses: [TestResponse] = []
    var refreshes: [Refresh] = []
    var requests: [Request] = []
    var logins: [SimulatedLogin]
    var logouts: [SimulatedLogout]
    var callbacks: [Callback] = []
    /// For each session, the pair that must be in the store, directly or as an ancestor of the stored pair; -1 for none
    /// yet.
    var keepers: [Int]
    var isCalm = false
    var isStoreDown = false
    var coverage = Coverage()
    var violation: Violation?
    var trace: [String]?
    var eventCount = 0

    init(seed: UInt64, mutant: InjectedBug?, isTraced: Bool) {
        var random = SeededGenerator(seed: seed)
        settings = Settings(&random)
        self.random = random
        self.mutant = mutant
        trace = isTraced ? [] : nil
        store = ModelStore(settings, mutant: mutant)
        upstream = ModelUpstream(settings)
        replicas = (0..<settings.replicas).map { [settings] _ in Replica(sessions: settings.allSessions) }
        keepers = Array(repeating: -1, count: settings.allSessions)
        logins = settings.logins
        logouts = settings.logouts
    }

    /// Runs until no event is left or an invariant is violated.
    func run() {
        begin()
        while violation == nil, let (time, event) = queue.pop() {
            now = time
            eventCount += 1
            if eventCount > 50_000 { violate(.progress, "the event queue never becomes empty") }
            handle(event)
        }
        if violation == nil { checkEnd() }
    }

    private func begin() {
        for index in settings.skews.indices {
            replicas[index].startClock(at: settings.skews[index])
            coverage.count(.clockSkew)
        }
        for index in 0..<settings.sessions {
            let pair = upstream.signIn(now: 0)
            let start = SessionTime(milliseconds: Names.epoch)
            let tokens = Names.tokens(
                pair, end: start.wallTime + .milliseconds(upstream.accessLife),
                obtainedAt: start.wallTime)
            // Two sessions for each user, so that signing out everywhere ends more than one.
            let user = UserProfile(json: [], account: AccountName(canonicalBytes: [UInt8(index / 2)]))
            store.insert(
                Session(
                    key: Names.key(index), user: user, tokens: tokens, createdAt: start,
                    expiresAt: start + .milliseconds(settings.absolute ?? 86_400_000), lastUsedAt: start))
        }
        beginLogins()
        for client in 0..<settings.clients {
            queue.push(.request(client: client), at: random.between(0, settings.requestInterval))
        }
        for (time, what) in settings.disturbances { queue.push(.disturbance(what), at: time) }
        queue.push(.calm, at: settings.calmAt)
        // By then leases have expired, back-off periods are over, and received tokens have been saved.
        for session in 0..<settings.allSessions {
            for replica in 0..<settings.replicas {
                let time = settings.calmAt + 45_000 + Int64(replica) * 200 + random.between(0, 400)
                queue.push(.arrive(session: session, replica: replica, isProbe: true), at: time)
            }
        }
    }

    func handle(_ event: Event) {
        if let replica = target(of: event), replicas[replica].pausedUntil > now {
            replicas[replica].inbox.append(event)
            return
        }
        switch event {
        case .request(let client): request(from: client)
        case .arrive(let session, let replica, let isProbe): startRequest(session, at: replica, isProbe: isProbe)
        case .atStore(let call): arriveAtStore(call)
        case .storeReply(let call, let response): storeReplied(call, responses[response])
        case .atUpstream(let call): arriveAtUpstream(call)
        case .upstreamReply(let call, let response): upstreamReplied(call, responses[response])
        case .callTimeout(let call): timedOut(call)
        case .notice(let replica, let session): noticed(session, at: replica)
        case .wake(let flight): woke(flight)
        case .carryOut(let flight): if !refreshes[flight].isDead { carryOut(flight) }
        case .userFetched(let flight): saveUser(flight)
        case .callback(let login, let replica): beginCallback(of: login, at: replica)
        case .logout(let logout, let replica): beginLogout(logout, at: replica)
        case .logoutTimeout(let logout, let attempt): logoutTimedOut(logout, attempt)
        case .resume(let replica): resume(replica)
        case .restart(let replica, let life): restart(replica, life)
        case .linkDown(let replica, let link): linkDown(replica, link)
        case .linkUp(let replica): linkUp(replica)
        case .storeUp: storeUp()
        case .disturbance(let what): disturb(what)
        case .calm: calmDown()
        }
    }

    /// The replica that has to process an event, and does so after a pause; `nil` for events that a pause does not
    /// delay.
    private func target(of event: Event) -> Int? {
        switch event {
        case .storeReply(let call, _), .upstreamReply(let call, _), .callTimeout(let call): calls[call].replica
        case .notice(let replica, _), .linkDown(let replica, _): replica
        case .wake(let flight), .carryOut(let flight), .userFetched(let flight): refreshes[flight].replica
        case .arrive(_, let replica, _), .callback(_, let replica), .logout(_, let replica): replica
        case .logoutTimeout, .request, .atStore, .atUpstream, .resume, .restart, .linkUp, .storeUp, .disturbance, .calm:
            nil
        }
    }

    /// The time of a replica's wall clock, which decides about tokens.
    func wallClock(_ replica: Int) -> WallTime {
        WallTime(milliseconds: Names.epoch + now + replicas[replica].offset)
    }

    /// The time of a replica's clocks that decide about sessions and leases. It never goes back while the process lives.
    func steadyClock<Clock>(_ replica: Int) -> Timestamp<Clock> {
        let isWall = mutant == .refreshesByWallClock
        let offset = isWall ? replicas[replica].offset : replicas[replica].steadyOffset
        return Timestamp(milliseconds: Names.epoch + now + offset)
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
