public import CloakroomCore
public import CloakroomTLS
import CloakroomWire
public import Logging
import Synchronization

/// The targets of one upstream under one configuration, and which of them are reachable. Shared by requests on all
/// event loops and identity requests.
///
/// Used only when a connection is made, so a request on an established connection takes no lock.
public final class UpstreamTargets: Sendable {
    let entries: [TargetRuntime]
    private let health: Mutex<TargetBalancer>

    /// - Parameters:
    ///   - resolver: Resolves the host names of targets.
    ///   - logger: Logs why a target cannot be reached, at most once per 10 s and target.
    /// - Throws: ``UpstreamTLSError`` if a file for TLS is invalid.
    public init(
        _ configuration: UpstreamConfiguration, resolver: HostResolver = .system, logger: Logger
    ) throws(UpstreamTLSError) {
        let usesTLS = configuration.targets.contains { $0.scheme == .https }
        let tls = usesTLS ? try UpstreamTLS.context(configuration.tls) : nil
        entries = configuration.targets.map {
            TargetRuntime($0, of: configuration, tls: tls, resolver: resolver, logger: logger)
        }
        health = Mutex(TargetBalancer(count: configuration.targets.count))
    }

    /// Selects a target for a request's connection.
    func selectTarget(tried: [Int], now: UInt64) -> Int? {
        chooseTarget(isFollowUp: false, tried: tried, now: now)
    }

    /// A connection attempt failed.
    /// - Parameters:
    ///   - startedAt: Start of the attempt.
    ///   - time: Wall-clock time of `now`.
    ///   - random: Shortens the back-off by up to 25 %.
    func failed(
        _ index: Int, _ kind: UpstreamFailure.Kind, _ error: any Error, startedAt: UInt64, now: UInt64, time: Timestamp,
        random: UInt64
    ) {
        // Under the lock, so that circuit and back-off change in the same order.
        health.withLock { health in
            let end = health.failed(index, startedAt: startedAt, now: now, random: random)
            entries[index].failed(kind, error, now: now, time: time, backOffEnd: end)
        }
    }
}

extension UpstreamTargets: TargetSelecting {
    /// Selects the target of a connection; see ``TargetSelecting``. `nil` if all were tried.
    public func chooseTarget(isFollowUp: Bool, tried: [Int], now: UInt64) -> Int? {
        health.withLock { $0.selectTarget(now: now, tried: tried, isFollowUp: isFollowUp) }
    }

    /// Closes the circuit of a target to which a connection was made.
    public func targetReached(_ index: Int) {
        health.withLock { health in
            health.succeeded(index)
            entries[index].connectSucceeded()
        }
    }

    /// Opens the circuit of a target to which no connection could be made, for 1 s doubling to 30 s.
    public func targetFailed(
        _ index: Int, _ failure: ConnectFailure, _ error: any Error, startedAt: UInt64, now: UInt64
    ) {
        let kind: UpstreamFailure.Kind =
            switch failure {
            case .unreachable: .unreachable
            case .timedOut: .connectTimeout
            case .tls: .tls
            }
        let time = Timestamp(milliseconds: LoopClock().wallNanoseconds(at: now) / 1_000_000)
        failed(index, kind, error, startedAt: startedAt, now: now, time: time, random: .random(in: .min ... .max))
    }
}
