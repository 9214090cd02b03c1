import CloakroomCore
import CloakroomTelemetry
import CloakroomWire

/// The gauges of upstreams, and which series exist: those of targets, addresses and upstreams that are no longer used are
/// withdrawn after their last request. A value of the supervisor.
struct UpstreamGauges {
    private struct Peer {
        let target: String
        let address: String?
        let metrics: UpstreamPeerMetrics
    }

    private var peers: [TargetIdentity: Peer] = [:]
    /// By upstream and configured target.
    private var counters: [String: [String: UpstreamTargetMetrics]] = [:]
    /// By upstream and configured target.
    private var names: [String: [String: UpstreamDNSMetrics]] = [:]
    private let limit = UpstreamPeerLimit()

    /// Sets the gauges of an upstream, and withdraws the series of its former targets. Called once a second.
    /// - Returns: The number of its addresses that are not exposed; see ``UpstreamPeerLimit``.
    @discardableResult
    mutating func update(_ upstream: UpstreamRuntime, now: UInt64) -> Int {
        let targets = upstream.targets
        let board = targets.board
        let current = targets.targets.targets
        let removed = board.removedTargets
        upstream.metrics.setPanic(board.isPanicking)
        upstream.metrics.retryBudget.set(Int64(board.budget.available))
        setPermits(of: upstream)
        withdrawPeers(of: upstream, except: Set(current.map(\.state.identity) + removed.map(\.identity)))
        withdrawTargets(of: upstream, except: Set(removed.map(\.identity.text)))
        for state in removed {
            guard let peer = peers[state.identity] else { continue }
            Self.set(peer.metrics, state, .draining, now: now)
        }
        var hidden = 0
        for target in current {
            guard let metrics = expose(target, of: upstream) else {
                hidden += 1
                continue
            }
            Self.set(metrics, target.state, board.condition(of: target.state, now: now), now: now)
        }
        for (index, metrics) in upstream.dnsMetrics {
            metrics.setAge(nanoseconds: targets.addressAge(of: index, now: now))
        }
        return hidden
    }

    mutating func withdraw(_ upstream: UpstreamRuntime) {
        let name = upstream.configuration.name
        withdrawPeers(of: upstream, except: [])
        for metrics in counters.removeValue(forKey: name)?.values ?? [:].values { metrics.unregister() }
        for metrics in names.removeValue(forKey: name)?.values ?? [:].values { metrics.unregister() }
        upstream.metrics.unregister()
    }

    private static func set(
        _ metrics: UpstreamPeerMetrics, _ state: TargetState, _ condition: TargetCondition, now: UInt64
    ) {
        metrics.set(
            inFlight: state.inFlight,
            estimateMicroseconds: UInt32(clamping: (state.estimatedLatency(now: now) ?? 0) / 1_000))
        metrics.set(condition)
    }

    private func setPermits(of upstream: UpstreamRuntime) {
        let permits = upstream.targets.permits.connections
        let common = upstream.configuration.pool.maxConnections - permits.guaranteed * permits.loops
        let available = permits.available
        upstream.metrics.permits[.available]?.set(Int64(available))
        upstream.metrics.permits[.common]?.set(Int64(max(common - available, 0)))
    }

    private mutating func expose(_ target: TargetRuntime, of upstream: UpstreamRuntime) -> UpstreamPeerMetrics? {
        let identity = target.state.identity
        if let known = peers[identity] { return known.metrics }
        // DNS chooses the number of addresses.
        guard identity.address == nil || limit.acquire() else { return nil }
        let address = identity.address.map { "\($0):\(identity.port)" }
        let metrics = upstream.metrics.peer(address, of: target.target)
        peers[identity] = Peer(target: target.target, address: address, metrics: metrics)
        return metrics
    }

    private mutating func withdrawPeers(of upstream: UpstreamRuntime, except used: Set<TargetIdentity>) {
        let name = upstream.configuration.name
        for (identity, peer) in peers where identity.upstream == name && !used.contains(identity) {
            peers[identity] = nil
            if identity.address != nil { limit.release() }
            // Targets that differ only in the name of their certificate share the series.
            let isShared = peers.contains {
                $0.key.upstream == name && $0.value.target == peer.target && $0.value.address == peer.address
            }
            if !isShared { peer.metrics.unregister() }
        }
    }

    /// - Parameter busy: Configured targets of removed ones that have requests in flight.
    private mutating func withdrawTargets(of upstream: UpstreamRuntime, except busy: Set<String>) {
        let name = upstream.configuration.name
        let configured = upstream.configuration.targets.map(\.description)
        var used = Dictionary(zip(configured, upstream.targetMetrics)) { first, _ in first }
        for (target, metrics) in counters[name] ?? [:] where used[target] == nil {
            if busy.contains(target) { used[target] = metrics } else { metrics.unregister() }
        }
        counters[name] = used
        let current = Dictionary(upstream.dnsMetrics.map { (configured[$0.key], $0.value) }) { first, _ in first }
        for (target, metrics) in names[name] ?? [:] where current[target] == nil { metrics.unregister() }
        names[name] = current
    }
}

extension TargetIdentity {
    /// The configured target, for operators: `http://host:port` or `unix:/path`.
    var text: String {
        guard port != 0 else { return "unix:\(host)" }
        return "\(scheme.name)://\(HostAndPort(host: host, port: port))"
    }
}
