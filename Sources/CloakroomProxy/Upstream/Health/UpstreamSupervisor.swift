import CloakroomCore
import Logging
import NIOCore

/// Supervises the targets of all upstreams: once a second it resolves host names, calls the tick of each board and
/// reports what changed; and it starts health checks when they are due. One per process.
///
/// Contains no rules: those are in ``UpstreamBoard``, ``HealthScheduler`` and ``AddressSet``.
actor UpstreamSupervisor {
    /// The targets of the configuration in effect.
    private let upstreams: @Sendable () -> [UpstreamRuntime]
    private let loops: LoopContextGroup
    private var reporter: UpstreamReporter
    private var gauges = UpstreamGauges()
    private var scheduler = HealthScheduler()
    /// The upstreams of the last tick, by name.
    private var known: [String: UpstreamRuntime] = [:]
    /// Upstreams that are no longer configured and have requests in flight, by name.
    private var leaving: [String: UpstreamRuntime] = [:]
    /// The upstreams that are checked, by name, to detect changes of the configuration.
    private var checked: [String: HealthCheckConfiguration] = [:]
    /// Those whose targets have not all been checked since their checks began.
    private var firstRounds: Set<String> = []
    /// Set when the first round of health checks is complete. Read by the readiness check.
    private let isReady: FlagSetOnce
    private let time: LoopTime
    /// Targets whose names are being resolved.
    private var resolving: Set<ObjectIdentifier> = []

    private static let interval: UInt64 = 1_000_000_000
    /// Minimum time between two steps, in nanoseconds.
    private static let resolution: UInt64 = 5_000_000

    init(
        _ upstreams: @escaping @Sendable () -> [UpstreamRuntime], loops: LoopContextGroup, reporter: UpstreamReporter,
        isReady: FlagSetOnce, time: LoopTime
    ) {
        self.upstreams = upstreams
        self.loops = loops
        self.reporter = reporter
        self.isReady = isReady
        self.time = time
    }

    private static var random: UInt64 { UInt64.random(in: UInt64.min...UInt64.max) }
    private var now: UInt64 { time.now() }

    /// Supervises until the task is cancelled.
    func run() async {
        var next = now
        var isStart = true
        while !Task.isCancelled {
            let now = self.now
            if now >= next {
                next = now + Self.interval
                tick(now: now, isStart: isStart)
                isStart = false
            }
            startChecks(now: now)
            let wake = min(next, scheduler.nextDue ?? .max)
            let pause = max(wake > now ? wake - now : 0, Self.resolution)
            try? await Task.sleep(for: .nanoseconds(Int64(clamping: pause)))
        }
    }

    private func tick(now: UInt64, isStart: Bool) {
        let upstreams = upstreams()
        withdraw(besides: upstreams, now: now)
        for upstream in upstreams {
            let targets = upstream.targets
            // A reload is in progress: the states of the targets are not final.
            guard targets.board.isActive else { continue }
            resolve(upstream)
            updateChecks(of: targets, isStart: isStart, now: now)
            for change in targets.board.tick(now: now, random: Self.random) {
                reporter.report(change, of: upstream, now: now)
            }
            reporter.flush(upstream, now: now)
            let hidden = gauges.update(upstream, now: now)
            if hidden > 0 { reporter.addressesHidden(hidden, of: upstream, now: now) }
        }
        updateReadiness()
    }

    /// Ends the checks of upstreams that are no longer configured, and withdraws their series after their last requests.
    private func withdraw(besides upstreams: [UpstreamRuntime], now: UInt64) {
        let current = Dictionary(upstreams.map { ($0.configuration.name, $0) }) { first, _ in first }
        for (name, upstream) in known where current[name] == nil {
            leaving[name] = upstream
            checked[name] = nil
            firstRounds.remove(name)
            scheduler.setTargets([], upstream: name, configuration: nil, isStart: false, now: now)
            reporter.forget(name)
        }
        known = current
        for (name, upstream) in leaving {
            if current[name] != nil {
                leaving[name] = nil
            } else if upstream.targets.board.hasRequests {
                gauges.update(upstream, now: now)
            } else {
                leaving[name] = nil
                gauges.withdraw(upstream)
            }
        }
    }

    private func updateReadiness() {
        guard !isReady.isSet, firstRounds.isEmpty else { return }
        isReady.set()
    }

    /// Resolves names that are due. Not awaited: a name server that does not respond delays nothing else.
    private func resolve(_ upstream: UpstreamRuntime) {
        let targets = upstream.targets
        guard resolving.insert(ObjectIdentifier(targets)).inserted else { return }
        Task {
            if await targets.resolve(now: now) {
                await loops.targetsChanged(of: targets)
                reporter.addressesChanged(of: upstream, now: now)
            }
            resolving.remove(ObjectIdentifier(targets))
        }
    }

    // MARK: - Health checks

    private func updateChecks(of targets: UpstreamTargets, isStart: Bool, now: UInt64) {
        let name = targets.configuration.name
        let health = targets.configuration.health
        guard health != nil || checked[name] != nil else { return }
        // Checks that begin with a reload count as a start: their targets have served until now.
        let isFirst = isStart || checked[name] == nil
        checked[name] = health
        let states = targets.targets.targets.map(\.state)
        scheduler.setTargets(
            health == nil ? [] : states.map(\.identity), down: Set(states.filter(\.word.isDown).map(\.identity)),
            upstream: name, configuration: health, isStart: isFirst, now: now)
        if health == nil {
            firstRounds.remove(name)
            for state in states { targets.board.checked(state.identity, isUp: true, now: now) }
        } else if isFirst {
            firstRounds.insert(name)
        }
    }

    private func startChecks(now: UInt64) {
        let checks = scheduler.due(now: now)
        guard !checks.isEmpty else { return }
        let upstreams = upstreams()
        for check in checks {
            guard let upstream = upstreams.first(where: { $0.configuration.name == check.target.upstream }),
                let health = upstream.configuration.health,
                let target = upstream.targets.targets.targets.first(where: { $0.state.identity == check.target })
            else {
                scheduler.cancelled(check, now: now)
                continue
            }
            let result = HealthCheck(health, of: upstream, target, on: loops.any).run(target)
            Task {
                let outcome = (try? await result.get()) ?? .failed("the event loop has shut down")
                ended(check, outcome, health)
            }
        }
    }

    private func ended(
        _ check: HealthScheduler.Check, _ outcome: HealthCheck.Outcome, _ health: HealthCheckConfiguration
    ) {
        let now = self.now
        let name = check.target.upstream
        let isPassed = outcome.isPassed(health)
        guard outcome != .notSent else { return scheduler.cancelled(check, now: now) }
        // The configuration may have changed since the check began.
        guard scheduler.isUp(check.target) != nil,
            let upstream = upstreams().first(where: { $0.configuration.name == name })
        else { return }
        reporter.checked(check.target, outcome, isPassed: isPassed, of: upstream, now: now)
        let change = scheduler.result(check, isPassed: isPassed, now: now, random: Self.random)
        let board = upstream.targets.board
        switch scheduler.isUp(check.target) {
        case nil: break
        case false?: board.checked(check.target, isUp: false, now: now)
        case true?:
            // A passed check also ends a back-off, unless it was sent to another port.
            if isPassed, change == .up || health.port == nil { board.checked(check.target, isUp: true, now: now) }
        }
        if firstRounds.contains(name), scheduler.isFirstRoundComplete(upstream: name) {
            firstRounds.remove(name)
            reporter.firstRoundEnded(of: upstream, now: now)
            updateReadiness()
        }
    }
}
