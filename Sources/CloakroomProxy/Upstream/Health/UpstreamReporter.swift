import CloakroomCore
import CloakroomTelemetry
import Logging

/// Reports changes of upstreams to operators: lines with an `event`, at most one per minute, kind and target. A value of the
/// supervisor.
///
/// A state that was not logged because of the limit is logged when the minute has passed, so that the last line about a
/// target is always its present state.
struct UpstreamReporter {
    /// What the log has about one target.
    private struct Target {
        /// Of the last line; `up` before the first one.
        var logged = TargetCondition.up
        var present = TargetCondition.up
        var ejection: (reason: EjectionReason, milliseconds: Int)?
        var lastCheck: (outcome: HealthCheck.Outcome, isPassed: Bool)?
        var lines: [UpstreamEvent: FixedWindowLimiter] = [:]
    }

    /// What the log has about one upstream.
    private struct Upstream {
        var isPanicLogged = false
        var isPanicking = false
        var areHiddenAddressesLogged = false
        var lines: [UpstreamEvent: FixedWindowLimiter] = [:]
    }

    private let logger: Logger
    private var targets: [TargetIdentity: Target] = [:]
    private var upstreams: [String: Upstream] = [:]

    init(_ logger: Logger) {
        self.logger = logger
    }

    // MARK: - Changes

    /// A change found by the tick of a board.
    mutating func report(_ change: UpstreamChange, of upstream: UpstreamRuntime, now: UInt64) {
        let name = upstream.configuration.name
        switch change {
        case .condition(let target, let from, let to):
            if targets[target] == nil { targets[target] = Target(logged: from.logged, present: from.logged) }
            // A target that is removed or has weight 0 is so by configuration.
            guard to != .draining else { return }
            targets[target]?.present = to.logged
            logState(of: target, upstream, now: now)
        case .ejected(let target, let reason, let milliseconds):
            upstream.metrics(of: target)?.ejections[reason]?.increment()
            targets[target, default: Target()].ejection = (reason, milliseconds)
            logEjection(of: target, upstream, now: now)
        case .removed(let target): targets[target] = nil
        case .panicStarted:
            upstreams[name, default: Upstream()].isPanicking = true
            logPanic(of: upstream, now: now)
        case .panicEnded:
            upstreams[name, default: Upstream()].isPanicking = false
            logPanic(of: upstream, now: now)
        case .budgetSpent: log(.budgetSpent, upstream, [:], now: now)
        case .budgetAvailable: break
        }
    }

    /// Logs the states that the limit has suppressed. Called once a second.
    mutating func flush(_ upstream: UpstreamRuntime, now: UInt64) {
        let name = upstream.configuration.name
        for (target, known) in targets where target.upstream == name && known.logged != known.present {
            logState(of: target, upstream, now: now)
        }
        logPanic(of: upstream, now: now)
    }

    /// An upstream is no longer configured.
    mutating func forget(_ name: String) {
        upstreams[name] = nil
        for target in targets.keys where target.upstream == name { targets[target] = nil }
    }

    /// The addresses of a host name changed.
    mutating func addressesChanged(of upstream: UpstreamRuntime, now: UInt64) {
        log(.dnsChanged, upstream, ["count": .stringConvertible(upstream.targets.targets.targets.count)], now: now)
    }

    /// Addresses have no series, because the process has too many. Logged once.
    mutating func addressesHidden(_ count: Int, of upstream: UpstreamRuntime, now: UInt64) {
        let name = upstream.configuration.name
        guard upstreams[name]?.areHiddenAddressesLogged != true else { return }
        upstreams[name, default: Upstream()].areHiddenAddressesLogged = true
        log(.addressesHidden, upstream, ["count": .stringConvertible(count)], now: now)
    }

    private mutating func logState(of target: TargetIdentity, _ upstream: UpstreamRuntime, now: UInt64) {
        guard let known = targets[target], known.logged != known.present else { return }
        switch (known.logged, known.present) {
        case (_, .ejected): return logEjection(of: target, upstream, now: now)
        case (.ejected, .up):
            guard log(.returned, upstream, target, ["reason": "ejected"], now: now) else { return }
        case (_, .up):
            guard log(.up, upstream, target, ["reason": "\(known.logged.rawValue)"], now: now) else { return }
        default:
            guard log(.down, upstream, target, ["reason": "\(known.present.rawValue)"], now: now) else { return }
        }
        targets[target]?.logged = known.present
    }

    private mutating func logEjection(of target: TargetIdentity, _ upstream: UpstreamRuntime, now: UInt64) {
        var more: Logger.Metadata = [:]
        if let ejection = targets[target]?.ejection {
            more["reason"] = "\(ejection.reason.rawValue)"
            more["seconds"] = .stringConvertible(Double(ejection.milliseconds) / 1_000)
        }
        if log(.ejected, upstream, target, more, now: now) { targets[target]?.logged = .ejected }
    }

    private mutating func logPanic(of upstream: UpstreamRuntime, now: UInt64) {
        let name = upstream.configuration.name
        guard let known = upstreams[name], known.isPanicking != known.isPanicLogged else { return }
        let event = known.isPanicking ? UpstreamEvent.panicStarted : .panicEnded
        guard log(event, upstream, ["outcome": known.isPanicking ? "started" : "ended"], now: now) else { return }
        upstreams[name]?.isPanicLogged = known.isPanicking
    }

    // MARK: - Health checks

    /// A health check ended.
    mutating func checked(
        _ target: TargetIdentity, _ outcome: HealthCheck.Outcome, isPassed: Bool, of upstream: UpstreamRuntime,
        now: UInt64
    ) {
        upstream.metrics(of: target)?.checks[outcome.metric(isPassed: isPassed)]?.increment()
        let last = targets[target]?.lastCheck?.outcome
        targets[target, default: Target()].lastCheck = (outcome, isPassed)
        if !isPassed, outcome != last {
            log(.checkFailed, upstream, target, ["reason": "\(outcome)"], now: now)
        }
    }

    /// Each target of an upstream was checked once since its checks began. If none passed, the settings of the check are more
    /// likely to be wrong than all targets.
    mutating func firstRoundEnded(of upstream: UpstreamRuntime, now: UInt64) {
        let checks = upstream.targets.targets.targets.compactMap { targets[$0.state.identity]?.lastCheck }
        guard let first = checks.first, checks.allSatisfy({ !$0.isPassed }) else { return }
        var reason = "\(first.outcome)"
        var hint = "see upstream_check_failed for the reason of each target"
        if checks.allSatisfy({ $0.outcome == first.outcome }) {
            reason = "each target: \(first.outcome)"
            if case .status = first.outcome {
                hint = "compare health.path and health.statuses with the targets"
            }
        }
        log(.checksFailed, upstream, ["reason": "\(reason)", "hint": "\(hint)"], now: now)
    }

    // MARK: - Lines

    /// - Returns: Whether the limit permits the line.
    @discardableResult
    private mutating func log(
        _ event: UpstreamEvent, _ upstream: UpstreamRuntime, _ target: TargetIdentity, _ more: Logger.Metadata,
        now: UInt64
    ) -> Bool {
        guard event.acquire(&targets[target, default: Target()].lines, now: now) else { return false }
        var metadata = more
        metadata["target"] = "\(target.text)"
        if let address = target.address { metadata["peer"] = "\(address)" }
        write(event, upstream, metadata)
        return true
    }

    @discardableResult
    private mutating func log(
        _ event: UpstreamEvent, _ upstream: UpstreamRuntime, _ more: Logger.Metadata, now: UInt64
    ) -> Bool {
        let name = upstream.configuration.name
        guard event.acquire(&upstreams[name, default: Upstream()].lines, now: now) else { return false }
        write(event, upstream, more)
        return true
    }

    private func write(_ event: UpstreamEvent, _ upstream: UpstreamRuntime, _ more: Logger.Metadata) {
        var metadata = more
        metadata["event"] = "\(event.name)"
        metadata["upstream"] = "\(upstream.configuration.name)"
        logger.log(level: event.level, "\(event.message)", metadata: metadata)
    }
}

/// A kind of line about an upstream.
struct UpstreamEvent: Hashable {
    /// The value of the field `event`.
    let name: String
    let message: String
    var level = Logger.Level.warning

    static let down = Self(name: "upstream_down", message: "upstream target is down")
    static let up = Self(name: "upstream_up", message: "upstream target is up", level: .notice)
    static let ejected = Self(name: "upstream_ejected", message: "upstream target ejected")
    static let returned = Self(name: "upstream_returned", message: "upstream target returned", level: .notice)
    static let checkFailed = Self(name: "upstream_check_failed", message: "health check failed")
    static let checksFailed = Self(
        name: "upstream_checks_failed", message: "no target passed its first health check")
    static let panicStarted = Self(name: "upstream_panic", message: "no upstream target is usable, all are used")
    static let panicEnded = Self(
        name: "upstream_panic", message: "an upstream target is usable again", level: .notice)
    static let dnsChanged = Self(
        name: "upstream_dns_changed", message: "addresses of upstream changed", level: .notice)
    static let budgetSpent = Self(name: "upstream_budget_spent", message: "retry budget is spent")
    static let addressesHidden = Self(
        name: "upstream_addresses_hidden", message: "some addresses of upstream have no metrics")

    /// Whether a line of this kind may be written: at most one per minute.
    fileprivate func acquire(_ lines: inout [UpstreamEvent: FixedWindowLimiter], now: UInt64) -> Bool {
        var limiter = lines[self] ?? FixedWindowLimiter(limit: 1, window: .seconds(60))
        guard limiter.allows(at: now) else { return false }
        _ = limiter.tryAcquire(at: now)
        lines[self] = limiter
        return true
    }
}

extension TargetCondition {
    /// The condition as far as lines distinguish it.
    fileprivate var logged: TargetCondition { self == .warming || self == .draining ? .up : self }
}
