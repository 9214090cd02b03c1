import CloakroomCore
import TestSupport

/// The parameters of one run, drawn from its seed. Each run has some kinds of faults and not the others: with all
/// faults at once, a run does not reach the states in which subtle bugs show.
struct Settings {
    /// The response of the upstream to a refresh token that was spent before.
    enum Rotation {
        /// All tokens of the session are revoked.
        case strict
        /// The token before the latest still gives a new pair for this many milliseconds; the latest pair is revoked
        /// then.
        case leeway(Int64)
    }

    let replicas: Int
    let sessions: Int
    let clients: Int
    let rotation: Rotation
    let limits: RefreshTimeouts
    /// The lifetime of an access token in seconds.
    let accessLife: Int64
    /// The store timeout of a replica in milliseconds.
    let storeTimeout: Int64
    /// Whether the store reports an expired lease as not found.
    let forgetsLeases: Bool
    /// The time at which faults stop.
    let calmAt: Int64
    let idle: Int64?
    let absolute: Int64?
    let requestInterval: Int64
    /// Probabilities per 1,000 messages, calls or actions.
    var slow, slowToken, lostRequest, lostReply, duplicateRequest, duplicateReply: Int
    var upstreamFails, spendsAndFails, crashInFlight, pauseInFlight: Int
    let reseal, userSave: Int
    let disturbances: [(at: Int64, what: FaultInjection)]
    let skews: [Int64]
    /// The logins during a run, each with a session of its own after the first ones.
    let logins: [SimulatedLogin]
    /// The logouts that a provider reports.
    let logouts: [SimulatedLogout]

    /// The number of sessions, including those of logins.
    var allSessions: Int { sessions + logins.count }

    init(_ random: inout SeededGenerator) {
        replicas = 1 + random.below(4)
        sessions = 1 + random.below(3)
        clients = max(sessions, 1 + random.below(8))
        rotation = random.chance(500) ? .strict : .leeway(random.chance(500) ? 1_000 : 10_000)
        let lease = 1_300 + random.between(0, 1_200)
        limits = RefreshTimeouts(
            call: .milliseconds(1_000), lease: .milliseconds(lease), waiting: .milliseconds(lease + 200),
            keeping: .milliseconds(random.between(3_000, 12_000)), pause: .milliseconds(50))
        accessLife = random.between(2, 5)
        storeTimeout = random.between(200, 500)
        forgetsLeases = random.chance(300)
        calmAt = random.between(10_000, 25_000)
        idle = random.chance(150) ? random.between(3_000, 20_000) : nil
        absolute = random.chance(200) ? random.between(6_000, 20_000) : nil
        requestInterval = random.between(200, 1_000) * Int64(clients) / 3
        let rate = { (random: inout SeededGenerator, most: Int) in random.chance(500) ? 0 : 1 + random.below(most) }
        slow = rate(&random, 60)
        slowToken = rate(&random, 250)
        lostRequest = rate(&random, 40)
        lostReply = rate(&random, 40)
        duplicateRequest = rate(&random, 30)
        duplicateReply = rate(&random, 30)
        upstreamFails = rate(&random, 200)
        spendsAndFails = random.chance(800) ? 0 : 50
        crashInFlight = rate(&random, 30)
        pauseInFlight = rate(&random, 60)
        reseal = rate(&random, 500)
        userSave = rate(&random, 700)
        var configured: [(at: Int64, what: FaultInjection)] = []
        let replicas = replicas
        let sessions = sessions
        let calmAt = calmAt
        func configuration(_ permille: Int, upTo most: Int, _ make: (inout SeededGenerator) -> FaultInjection) {
            guard random.chance(permille) else { return }
            for _ in 0...random.below(most) { configured.append((random.between(500, calmAt), make(&random))) }
        }
        configuration(250, upTo: 3) { .crash(replica: $0.below(replicas)) }
        configuration(250, upTo: 3) { .pause(replica: $0.below(replicas)) }
        configuration(350, upTo: 3) { .partition(replica: $0.below(replicas)) }
        configuration(200, upTo: 2) { _ in .storeOutage }
        configuration(250, upTo: 3) { .clockJump(replica: $0.below(replicas)) }
        configuration(300, upTo: 2) { .signOut(session: $0.below(sessions)) }
        configuration(150, upTo: 1) { .signOutEverywhere(session: $0.below(sessions)) }
        configuration(100, upTo: 1) { .upstreamRevokes(session: $0.below(sessions)) }
        disturbances = configured
        skews = random.chance(400) ? (0..<replicas).map { _ in random.between(-150, 150) } : []
        (logins, logouts) = Self.logins(&random, sessions: sessions, until: calmAt)
    }

    private static func logins(
        _ random: inout SeededGenerator, sessions: Int, until calmAt: Int64
    ) -> ([SimulatedLogin], [SimulatedLogout]) {
        guard random.chance(500) else { return ([], []) }
        var logins: [SimulatedLogin] = []
        let count = 1 + random.below(3)
        // Several apps may share a session at their provider.
        let isShared = random.chance(300)
        let time = random.between(500, calmAt)
        for number in 0..<count {
            let at = isShared ? time + random.between(0, 500) : random.between(500, calmAt)
            var callbacks = [at]
            // The user reloads the page, or a browser restores it.
            if random.chance(300) { callbacks.append(at + random.between(0, random.chance(500) ? 50 : 3_000)) }
            logins.append(SimulatedLogin(session: sessions + number, sid: isShared ? 0 : number, callbacks: callbacks))
        }
        var logouts: [SimulatedLogout] = []
        for login in logins where login.sid == login.session - sessions && random.chance(700) {
            let at = login.callbacks[0]
            // Near the callback, or after some refreshes.
            let delay = random.chance(700) ? random.between(-50, 150) : random.between(150, 15_000)
            logouts.append(SimulatedLogout(sid: login.sid, at: max(0, at + delay)))
        }
        return (logins, logouts)
    }

    /// The same parameters without faults.
    mutating func calm() {
        (slow, slowToken, lostRequest, lostReply, duplicateRequest, duplicateReply) = (0, 0, 0, 0, 0, 0)
        (upstreamFails, spendsAndFails, crashInFlight, pauseInFlight) = (0, 0, 0, 0)
    }
}
