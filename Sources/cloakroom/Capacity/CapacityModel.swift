import CloakroomCore
import Foundation

/// What users do, and with how many gateways and shards.
struct CapacityDemand: Equatable, Sendable {
    /// The maximum of ``shards``: the store supports no cluster with more primaries.
    static let mostShards = 128

    /// The number of users that are signed in at the same time.
    var users: Double
    /// Requests per second of all users together that need their session.
    var requestsPerSecond: Double
    /// Seconds from a sign-in to the end of the session, on average.
    var sessionLength: Double = 28_800
    /// Seconds of `session.idleTimeout`.
    var idleTimeout: Double = 900
    /// Seconds that an access token is valid; 0 if tokens are not refreshed.
    var tokenLifetime: Double = 300
    /// The number of gateways.
    var gateways = 2
    /// The number of primaries of the Valkey cluster; 1 is a single server.
    var shards = 1
    /// `session.cacheSize` of each gateway.
    var cacheSize = 100_000
    /// How users sign in.
    var signIn = CapacitySignIn.password
    /// Whether a load balancer sends all requests of a session to the same gateway.
    var isSticky = false
}

/// How users sign in.
enum CapacitySignIn: String, CaseIterable, Sendable, Codable {
    case password
    case provider

    /// The keys of a session of which a server reports changes, at most: its record and its cutoffs, those of its account,
    /// and lists; see “Scaling out with Valkey” in Operations.md.
    var trackedKeys: Double { self == .password ? 5 : 6 }
}

/// Operations per second of all users together.
struct CapacityRates: Equatable, Sendable, Codable {
    var requests: Double
    /// Sign-ins, and as many sign-outs.
    var signIns: Double
    /// Requests whose session is not cached at the gateway, so that it is read from the server.
    var lookUps: Double
    /// Uses that are written by the server.
    var touches: Double
    /// Uses that gateways send although another one has sent that of the same time: the server writes nothing.
    var repeatedTouches: Double
    /// Refreshes of tokens.
    var refreshes: Double
}

/// What one process needs.
struct CapacityNeed: Equatable, Sendable, Codable {
    /// Cores that are busy, on average.
    var cores: Double
    /// Bytes of memory, at most.
    var memoryBytes: Double
    /// Bytes per second from gateways to servers.
    var bytesToServers: Double
    /// Bytes per second from servers to gateways.
    var bytesFromServers: Double
}

/// Predicts operations, CPU time, memory and network of gateways and Valkey servers.
///
/// Requests of a session arrive independently of each other (a Poisson process), and reach a random gateway unless
/// sessions are sticky. A gateway caches a session from its first request until another gateway writes a use, or
/// any gateway refreshes or ends it.
///
/// Folder `Capacity/`: the command `capacity`: the model, the measured figures that it uses, and its output.
struct CapacityModel: Sendable {
    let demand: CapacityDemand
    let figures: CapacityFigures

    /// Requests per second of one session.
    private var requestRate: Double { demand.requestsPerSecond / demand.users }

    /// The number of gateways that the requests of one session reach.
    private var gatewaysPerSession: Double { demand.isSticky ? 1 : Double(demand.gateways) }

    /// The share of all sessions that a gateway sees.
    private var shareOfSessions: Double { demand.isSticky ? 1 / Double(demand.gateways) : 1 }

    /// How often a session has something that a request triggers as soon as a time has passed since the last one, or
    /// since the sign-in.
    private func rate(after seconds: Double) -> Double {
        guard requestRate > 0 else { return 0 }
        let length = demand.sessionLength
        // That the session lasts until then. Lengths of sessions are distributed exponentially.
        let again = exp(-seconds / length) * requestRate / (requestRate + 1 / length)
        return again / ((1 - again) * length)
    }

    /// Requests per second of one session at one of the gateways that it reaches.
    private var arrivals: Double { requestRate / gatewaysPerSession }

    private var touchRate: Double {
        let timeouts = SessionTimeouts(
            idle: .seconds(demand.idleTimeout), absolute: .seconds(demand.sessionLength), isShared: true)
        return rate(after: timeouts.touchGranularity / .seconds(1))
    }

    /// Gateways send uses each second. Until then, each other gateway with a request of the session notes one too.
    private var repeatedTouchRate: Double {
        // The probability of a request within a time that is uniformly distributed over a second.
        let again = arrivals > 0 ? 1 - (1 - exp(-arrivals)) / arrivals : 0
        return touchRate * (gatewaysPerSession - 1) * again
    }

    /// As ``RefreshSchedule`` spreads them: in the last fifth of the lifetime, at most 60 seconds, after a tenth of that
    /// on average.
    private var refreshRate: Double {
        guard demand.tokenLifetime > 0 else { return 0 }
        let window = min(60, demand.tokenLifetime / 5)
        return rate(after: max(demand.tokenLifetime - window * 1.1, RefreshSchedule.minimumInterval / .seconds(1)))
    }

    /// The same, if the cache had room for all sessions.
    private var largestHitRatio: Double {
        let byOthers = (gatewaysPerSession - 1) / gatewaysPerSession
        let changes = refreshRate + 1 / demand.sessionLength + touchRate * byOthers
        return arrivals / (arrivals + changes)
    }

    /// The probability that a request finds its session in the cache.
    var hitRatio: Double {
        min(largestHitRatio, Double(demand.cacheSize) / (demand.users * shareOfSessions))
    }

    /// Look-ups per second of sessions that have changed since a gateway cached them: all that are not due to a cache that
    /// is too small, except the first one at each gateway.
    private var lookUpsAgain: Double {
        let signIns = demand.users / demand.sessionLength
        return max(0, demand.requestsPerSecond * (1 - largestHitRatio) - signIns * gatewaysPerSession)
    }

    var rates: CapacityRates {
        CapacityRates(
            requests: demand.requestsPerSecond, signIns: demand.users / demand.sessionLength,
            lookUps: demand.requestsPerSecond * (1 - hitRatio), touches: demand.users * touchRate,
            repeatedTouches: demand.users * repeatedTouchRate, refreshes: demand.users * refreshRate)
    }

    /// The sum of a figure over all operations of a second.
    private func total(_ figure: KeyPath<OperationCost, Double>) -> Double {
        let rates = rates
        let isProvider = demand.signIn == .provider
        let signIn = isProvider ? figures.login : figures.signIn
        let lookUp = isProvider ? figures.providerLookUp : figures.lookUp
        let savedAgain = figures.lookUp[keyPath: figure] - figures.lookUpAgain[keyPath: figure]
        return rates.requests * figures.request[keyPath: figure] + rates.lookUps * lookUp[keyPath: figure]
            - lookUpsAgain * savedAgain + (rates.touches + rates.repeatedTouches) * figures.touch[keyPath: figure]
            + rates.refreshes * figures.refresh[keyPath: figure]
            + rates.signIns * (signIn[keyPath: figure] + figures.signOut[keyPath: figure])
    }

    /// Cores for which one gateway would be busy if it never were idle, and what it needs in addition per second in which
    /// something arrives while it is idle. Savings of ``lookUpAgain`` can make a difference of two measurements negative.
    private var gatewayWork: (cores: Double, wakeUps: Double) {
        let count = Double(demand.gateways)
        let busy = max(0, total(\.gatewayMicroseconds)) / 1e6 / count
        return (busy, max(0, total(\.gatewayIdleMicroseconds) / 1e6 / count - busy))
    }

    /// The event loops of each gateway with which each is busy for at most ``busiestLoop`` of the time.
    var eventLoops: Double {
        let work = gatewayWork
        return max(1, ((work.cores + work.wakeUps * (1 - Self.busiestLoop)) / Self.busiestLoop).rounded(.up))
    }

    static let busiestLoop = 0.7

    /// The share of the time for which an event loop is busy: *s* of *s* = (cores + (1 - *s*) wake-ups) / loops.
    private var busyLoop: Double {
        let work = gatewayWork
        return (work.cores + work.wakeUps) / (eventLoops + work.wakeUps)
    }

    /// The same for all servers together. They are woken up by gateways, of which a busy one sends many commands at once.
    private var serverWork: (cores: Double, wakeUps: Double) {
        let busy = max(0, total(\.serverMicroseconds)) / 1e6
        return (busy, (1 - busyLoop) * max(0, total(\.serverIdleMicroseconds) / 1e6 - busy))
    }

    /// The share of the time for which the one thread of a shard is busy; above 1 it is not possible.
    private var busyShard: Double {
        let work = serverWork
        let (cores, wakeUps) = (work.cores / Double(demand.shards), work.wakeUps / Double(demand.shards))
        return cores < 1 ? (cores + wakeUps) / (1 + wakeUps) : cores
    }

    /// The number of shards with which each is busy for this share of the time, 0 to 1, of its one thread.
    func shards(busyFor share: Double) -> Double {
        (serverWork.cores + (1 - share) * serverWork.wakeUps) / share
    }

    /// Sessions at one gateway, at most.
    var cachedSessions: Double { min(Double(demand.cacheSize), demand.users * shareOfSessions) }

    /// Sessions of one shard that the server reports changes of, at most.
    var trackedPerShard: Double { min(demand.users, cachedSessions * Double(demand.gateways)) / Double(demand.shards) }

    /// What each gateway needs.
    var gateway: CapacityNeed {
        let count = Double(demand.gateways)
        return CapacityNeed(
            cores: busyLoop * eventLoops,
            memoryBytes: figures.gatewayBytes + cachedSessions * figures.gatewayBytesPerSession(demand.signIn),
            bytesToServers: total(\.bytesToServer) / count, bytesFromServers: total(\.bytesFromServer) / count)
    }

    /// What each primary needs.
    var shard: CapacityNeed {
        let count = Double(demand.shards)
        let readers = cachedSessions * Double(demand.gateways) / count
        let tracking =
            trackedPerShard * figures.serverBytesPerTrackedKey
            + max(0, readers - trackedPerShard) * figures.serverBytesPerFurtherGateway
        return CapacityNeed(
            cores: busyShard,
            memoryBytes: figures.serverBytes + demand.users / count * figures.serverBytesPerSession(demand.signIn)
                + tracking * demand.signIn.trackedKeys,
            bytesToServers: total(\.bytesToServer) / count, bytesFromServers: total(\.bytesFromServer) / count)
    }
}
