import CloakroomCore
import CloakroomProxy
import CloakroomWire
import TestSupport

/// The gateway's event loops, clients and targets, in one thread and in virtual time, as a sequence of events.
final class World {
    /// The time at the start of a run: an hour, so that no time is near 0.
    static let epoch: UInt64 = 3_600_000_000_000
    static let second: UInt64 = 1_000_000_000
    /// The time from one event loop to another.
    static let messageTime: UInt64 = 50_000

    let scenario: Scenario
    let bug: InjectedBug?
    let end: UInt64
    let headTimeout: UInt64
    var now = World.epoch
    var heap = EventHeap()
    /// Arrivals and service times, which do not depend on decisions.
    var traffic: SeededGenerator
    /// Random bits for the machines, and times of connection attempts.
    var random: SeededGenerator
    var board: UpstreamBoard
    var table: TargetTable
    /// The state and the index in the table of each target; -1 if it is not in the table.
    var states: [TargetState?] = []
    var tableIndices: [Int] = []
    var targets: [ModelTarget]
    var loops: [ModelLoop] = []
    var sharedConnections = SharedPermits(maximum: 0, loops: 1)
    var requests: [Request] = []
    var freeRequests: [Int] = []
    var attempts: [Attempt] = []
    var freeAttempts: [Int] = []
    var outcome = Outcome()
    private let pauseMean: UInt64
    private let firstLoopLimit: UInt64
    private var reloadAt: UInt64

    init(_ scenario: Scenario, seed: UInt64, bug: InjectedBug?) {
        self.scenario = scenario
        self.bug = bug
        traffic = SeededGenerator(seed: seed)
        random = SeededGenerator(seed: ~seed)
        end = Self.epoch + UInt64(scenario.duration * 1e9)
        headTimeout = scenario.headTimeout.nanoseconds
        pauseMean = UInt64(1e9 / scenario.rate)
        firstLoopLimit = UInt64((scenario.shareOfFirstLoop ?? 0) * 65_536)
        reloadAt = scenario.reloadAt.map { Self.epoch + UInt64($0 * 1e9) } ?? .max
        targets = Array(repeating: ModelTarget(), count: scenario.weights.count)
        for incident in scenario.incidents where incident.seconds.lowerBound == 0 {
            targets[incident.target].incident = incident.kind
        }
        board = UpstreamBoard(
            name: "api", settings: scenario.boardSettings, targets: scenario.specifications(targets), now: now)
        board.activate(now: now)
        table = board.table
        prepareTargets()
        prepareLoops()
    }

    /// Runs until no event is left.
    func run() {
        push(.arrival, at: now)
        push(.supervise, at: now + Self.second)
        for loop in loops.indices {
            push(.tick, loop, at: now + Self.second * UInt64(loop + 1) / UInt64(loops.count))
        }
        for (index, incident) in scenario.incidents.enumerated() {
            if incident.seconds.lowerBound > 0 {
                push(.incidentStarts, index, at: Self.epoch + UInt64(incident.seconds.lowerBound * 1e9))
            }
            push(.incidentEnds, index, at: Self.epoch + UInt64(incident.seconds.upperBound * 1e9))
        }
        lease(dead: scenario.deadLeases)
        while let (time, packed) = heap.pop() {
            now = time
            if now >= reloadAt {
                reloadAt = .max
                reload()
            }
            outcome.eventCount += 1
            outcome.hash(time)
            outcome.hash(UInt64(truncatingIfNeeded: packed))
            handle(Event(packed: packed))
        }
        outcome.unfinished = requests.count - freeRequests.count
        outcome.countedInFlight = states.reduce(0) { $0 + ($1?.inFlight ?? 0) }
    }

    func push(_ kind: Event.Kind, _ index: Int = 0, generation: Int = 0, at time: UInt64) {
        heap.push(Event(kind: kind, index: index, generation: generation).packed, at: time)
    }

    private func handle(_ event: Event) {
        switch event.kind {
        case .arrival: arrival()
        case .workerDone: workerDone(event)
        case .failure: responded(RequestName(index: event.index, generation: event.generation), isFailure: true)
        case .reset: reset(RequestName(index: event.index, generation: event.generation))
        case .timeout: timedOut(RequestName(index: event.index, generation: event.generation))
        case .retry: sendAgain(RequestName(index: event.index, generation: event.generation))
        case .attemptEnds: attemptEnds(event.index)
        case .expire: expire(event.index)
        case .wake: wake(event.index)
        case .starve: starve(event.index)
        case .tick: tick(event.index)
        case .supervise: supervise()
        case .incidentStarts: setIncident(scenario.incidents[event.index], isActive: true)
        case .incidentEnds: setIncident(scenario.incidents[event.index], isActive: false)
        }
    }

    private func arrival() {
        let bits = traffic.next()
        let next = now + Distributions.pause(bits, mean: pauseMean)
        if next < end { push(.arrival, at: next) }
        // The first loop gets its share; the others get equal parts of the rest.
        var loop = Int((bits >> 40) % UInt64(loops.count))
        if firstLoopLimit > 0 {
            let isFirst = bits >> 24 & 0xffff < firstLoopLimit
            loop = isFirst ? 0 : 1 + Int((bits >> 40) % UInt64(loops.count - 1))
        }
        begin(service: Distributions.service(bits >> 12), on: loop)
    }
}

/// What happens at a time, as one integer.
struct Event {
    enum Kind: Int {
        case arrival
        /// A worker of a target ends with a request; the upper 8 bits of the index are the target.
        case workerDone
        /// A target responds with 503.
        case failure
        /// A target resets a connection.
        case reset
        /// A response head is overdue.
        case timeout
        /// The delay of a retry ends.
        case retry
        case attemptEnds
        /// Waiters of a loop may have waited for too long.
        case expire
        /// A loop is notified that a permit is available, or that another loop needs one.
        case wake, starve
        /// The ticks of a loop and of the supervisor.
        case tick, supervise
        case incidentStarts, incidentEnds
    }

    var kind: Kind
    var index: Int
    var generation: Int

    init(kind: Kind, index: Int, generation: Int) {
        self.kind = kind
        self.index = index
        self.generation = generation
    }

    init(packed: Int) {
        kind = Kind(rawValue: packed & 0xf) ?? .arrival
        index = packed >> 4 & 0xfff_ffff
        generation = packed >> 32
    }

    var packed: Int { kind.rawValue | index << 4 | generation << 32 }
}

extension Duration {
    var nanoseconds: UInt64 {
        UInt64(components.seconds) * 1_000_000_000 + UInt64(components.attoseconds / 1_000_000_000)
    }
}
