import Synchronization

/// The settings of an ``UpstreamBoard``.
public struct BoardSettings: Sendable {
    /// How targets are selected.
    public var balance: BalanceConfiguration
    /// When targets are ejected.
    public var eject: EjectionConfiguration
    /// Limits of requests in flight.
    public var inFlight: InFlightConfiguration
    /// Retries; the board uses only the budget.
    public var retry: RetryConfiguration
    /// The time after which a probe without a result is lost.
    public var probeTime: Duration

    package init(
        balance: BalanceConfiguration = .defaults, eject: EjectionConfiguration = .defaults,
        inFlight: InFlightConfiguration = .defaults, retry: RetryConfiguration = RetryConfiguration(),
        probeTime: Duration = .seconds(10)
    ) {
        self.balance = balance
        self.eject = eject
        self.inFlight = inFlight
        self.retry = retry
        self.probeTime = probeTime
    }
}

/// All that event loops share about one upstream: its targets, its retry budget, and which loops have held requests.
///
/// Survives reloads: the board of a new configuration adopts the states of the old one by ``TargetIdentity``, and changes
/// them only when it is activated. The request path uses ``TargetPicker`` and ``TargetState``; the methods of the board
/// are for changes: failures, probes, checks, DNS, and the tick of the supervisor.
public final class UpstreamBoard: Sendable {
    /// The name of the upstream.
    public let name: String
    /// The settings.
    public let settings: BoardSettings
    /// The retry budget, which survives reloads.
    public let budget: RetryBudget
    /// Event loops with requests that wait because of the limit of requests in flight, which survive reloads.
    public let held: LoopSet

    let times: EjectionTimes
    let slots: TargetSlots
    let members: Mutex<BoardMembers>
    private let pickRules: PickRules
    private let adopted: Mutex<UpstreamBoard?>
    private let turn = Atomic<Int>(0)
    /// What ``BoardMembers/isPanicking`` was at the last tick, for requests, which take no lock.
    let panicking = Atomic<Bool>(false)

    /// Creates a board.
    /// - Parameters:
    ///   - adopted: The board of the previous configuration. It is not changed until ``activate(now:)``.
    ///   - now: Nanoseconds of a monotonic clock.
    public init(
        name: String, settings: BoardSettings, targets: [TargetSpecification], adopting adopted: UpstreamBoard? = nil,
        now: UInt64
    ) {
        self.name = name
        self.settings = settings
        budget = adopted?.budget ?? RetryBudget(settings.retry)
        times = EjectionTimes(first: settings.eject.time, longest: settings.eject.longest)
        slots = adopted?.slots ?? TargetSlots()
        pickRules = PickRules(
            settings.balance, targetLimit: settings.inFlight.target, probeTime: settings.probeTime)
        held = adopted?.held ?? LoopSet()
        self.adopted = Mutex(adopted)
        let known = adopted?.members.withLock { $0.states } ?? [:]
        let slots = slots
        let entries = Self.entries(of: targets) { known[$0.identity] ?? Self.newState($0, slots, now: now) }
        let new = Set(entries.map(\.state.identity)).subtracting(known.keys)
        members = Mutex(
            BoardMembers(
                TargetTable(entries, slots: slots, rules: pickRules), new: new,
                startingDown: Self.startingDown(targets), phase: adopted == nil ? .active : .pending))
        // States that no other board has can be prepared; the others are when this board is activated.
        let rules = EstimateRules(settings.balance)
        for entry in entries where new.contains(entry.state.identity) {
            entry.state.setRules(rules)
            if entry.weight == 0 { entry.state.apply(.drained, now: now) }
        }
    }

    private static func startingDown(_ targets: [TargetSpecification]) -> Set<TargetIdentity> {
        Set(targets.filter(\.startsDown).map(\.identity))
    }

    private static func newState(_ target: TargetSpecification, _ slots: TargetSlots, now: UInt64) -> TargetState {
        let state = TargetState(target.identity, slots: slots)
        if target.startsDown { state.apply(.checkFailed, now: now) }
        return state
    }

    private static func entries(
        of targets: [TargetSpecification], state: (TargetSpecification) -> TargetState
    ) -> [TargetEntry] {
        var seen: Set<TargetIdentity> = []
        return targets.prefix(TargetTable.maxCount).filter { seen.insert($0.identity).inserted }.map { target in
            TargetEntry(
                state: state(target), weight: min(max(target.weight, 0), 1_000), tier: min(max(target.tier, 0), 9),
                isOtherZone: target.isOtherZone, configurationIndex: target.configurationIndex)
        }
    }

    /// Applies the settings to the shared states, once the configuration is in effect. Targets of the adopted board that
    /// are not among those of this one are kept until their requests have ended. The adopted board changes nothing any more.
    public func activate(now: UInt64) {
        guard let old = adopted.withLock({ $0.take() }) else { return }
        budget.configure(settings.retry)
        let previous = old.members.withLock { members in
            members.phase = .superseded
            return members
        }
        members.withLock { members in
            members.phase = .active
            members.adopt(previous)
            panicking.store(members.isPanicking, ordering: .relaxed)
            members.tableChanged(from: previous.table, rules: EstimateRules(settings.balance), now: now)
        }
    }

    /// Whether the configuration is in effect. Otherwise ``tick(now:random:)`` and ``replaceTargets(_:now:)`` have no effect.
    public var isActive: Bool { members.withLock { $0.phase == .active } }

    /// Targets that were removed and have requests in flight.
    public var removedTargets: [TargetState] { members.withLock { $0.retired } }

    /// Whether a target, present or removed, has requests in flight.
    public var hasRequests: Bool {
        members.withLock { members in
            members.retired.contains { $0.inFlight > 0 } || members.table.entries.contains { $0.state.inFlight > 0 }
        }
    }

    /// The current targets.
    public var table: TargetTable { members.withLock { $0.table } }

    /// Replaces the targets, after a DNS change. Targets that are no longer included are kept until their requests have
    /// ended; new ones start slowly.
    /// - Returns: The new table, for all event loops.
    @discardableResult
    public func replaceTargets(_ targets: [TargetSpecification], now: UInt64) -> TargetTable {
        members.withLock { members in
            let previous = members.table
            guard members.phase == .active else { return previous }
            let known = members.states
            let slots = slots
            let entries = Self.entries(of: targets) { known[$0.identity] ?? Self.newState($0, slots, now: now) }
            members.table = TargetTable(entries, slots: slots, rules: pickRules)
            members.new = Set(entries.map(\.state.identity)).subtracting(known.keys)
            members.startingDown = Self.startingDown(targets)
            members.tableChanged(from: previous, rules: EstimateRules(settings.balance), now: now)
            return members.table
        }
    }

    /// A counter of calls, for ``order(now:)``.
    func nextTurn() -> Int {
        turn.wrappingAdd(1, ordering: .relaxed).oldValue & .max
    }
}
