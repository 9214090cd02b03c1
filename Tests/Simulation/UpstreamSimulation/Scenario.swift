public import CloakroomCore
import TestSupport

/// What is simulated: targets, traffic, settings, and what happens to the targets.
public struct Scenario: Sendable {
    /// The event loops of the gateway.
    public var loops = 8
    /// The weights of the targets; each target processes 16 requests at a time.
    public var weights: [Int]
    /// Requests per second, as a Poisson process.
    public var rate: Double
    /// The time during which requests arrive, in seconds.
    public var duration: Double
    /// The fraction of the requests that arrive at the first event loop; `nil` for equal shares.
    public var shareOfFirstLoop: Double?
    /// The connections that the first event loop leases at the start and never gets back.
    public var deadLeases = 0
    /// What happens to targets.
    public var incidents: [Incident] = []
    /// Seconds after which a configuration with the same values is loaded.
    public var reloadAt: Double?
    /// How targets are selected.
    public var balance = BalanceConfiguration.defaults
    /// When targets are ejected; by default never, so that the effect of the estimate is measured alone.
    public var eject = EjectionConfiguration.defaults
    /// When requests are sent again; by default never.
    public var retry = RetryConfiguration(attempts: 1)
    /// The maximum time from the arrival of a request until its response head.
    public var headTimeout: Duration = .seconds(30)
    /// The limits of connections and queues.
    public var pool = PoolConfiguration.defaults

    /// - Parameters:
    ///   - targets: The number of targets, which have the same weight.
    ///   - rate: Requests per second.
    ///   - duration: Seconds.
    public init(targets: Int = 10, rate: Double = 1_000, duration: Double) {
        weights = Array(repeating: 100, count: targets)
        self.rate = rate
        self.duration = duration
        eject.most = 0
    }
}

/// A period in which a target does not behave as usual.
public struct Incident: Sendable {
    /// The behavior.
    public enum Kind: Sendable {
        /// Every request takes this number of times as long.
        case slow(Double)
        /// Every response is a 503 after 1 ms.
        case fails
        /// Connections are established, but there are no responses.
        case hangs
        /// No connection is established, and existing ones are reset.
        case unreachable
        /// The target is not used before the end of the period: it is added then.
        case absent
    }

    /// The index of the target.
    public var target: Int
    /// The behavior.
    public var kind: Kind
    /// Seconds from the start of the run.
    public var seconds: Range<Double>

    /// Creates a period.
    public init(_ target: Int, _ kind: Kind, _ seconds: Range<Double>) {
        self.target = target
        self.kind = kind
        self.seconds = seconds
    }
}

/// A bug that the simulation has to find. None is in the code under test: bugs are settings, or rules that the model
/// applies in place of those of the gateway.
public enum InjectedBug: String, Sendable, CaseIterable {
    /// A failed request counts with the time that it took.
    case noFailurePenalty
    /// A target that owes response heads keeps its estimate.
    case noSilenceRule
    /// Weights divide the cost, instead of being drawn by.
    case weightsInCost
    /// Each event loop has an equal and fixed part of the permits.
    case fixedShares
    /// Retries are not limited.
    case noBudget
    /// A target that was ejected is never probed.
    case noProbe
    /// Targets are compared by the requests in flight only.
    case noEstimate
    /// The queue is as patient under overload as at other times.
    case patientQueue
    /// A target that recovers gets its full share at once.
    case noSlowStart
    /// A reload starts with new states of the targets.
    case reloadForgets
}
