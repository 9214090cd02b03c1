import CloakroomCore
import CloakroomWire

/// How `explain` describes the upstream of a route: the candidates for a request, and what happens if one fails.
struct UpstreamExplanation {
    let upstream: UpstreamConfiguration
    let route: Route
    /// The method of the request.
    let method: String

    /// Pairs of a title and a text.
    var rows: [(String, String)] {
        var rows = [("protocol", protocolVersion), ("balance", balance)]
        rows += candidates.map { ("candidate", $0) }
        rows += [("health", health), ("ejection", ejection), ("retry", retry)]
        if let limits { rows.append(("limits", limits)) }
        return rows
    }

    private var protocolVersion: String {
        let text =
            switch upstream.protocolVersion {
            case .http1: "HTTP/1.1"
            case .http2: "HTTP/2, negotiated by TLS"
            case .h2c: "HTTP/2 without TLS"
            case .auto: "HTTP/2 if TLS negotiates it, otherwise HTTP/1.1"
            }
        return route.grpc ? text + "; gRPC" : text
    }

    private var balance: String {
        let slowStart = upstream.balance.slowStart
        let start = slowStart > .zero ? "; a new target gets its full share after \(Self.text(slowStart))" : ""
        switch upstream.balance.policy {
        case .latency:
            return "of two random candidates the one with the lower time to the response head times load"
                + " (half-life \(Self.text(upstream.balance.halfLife)))" + start
        case .requests: return "of two random candidates the one with fewer requests in flight" + start
        case .roundRobin: return "the candidates in turn" + start
        }
    }

    /// One line for each target, the lowest tier first.
    private var candidates: [String] {
        let tiers = Set(upstream.targets.filter { $0.weight > 0 }.map(\.tier)).sorted()
        return upstream.targets.enumerated().sorted { ($0.element.tier, $0.offset) < ($1.element.tier, $1.offset) }
            .map { candidate($0.element, tiers: tiers) }
    }

    private func candidate(_ target: UpstreamTargetConfiguration, tiers: [Int]) -> String {
        guard target.weight > 0 else { return "\(target): drained (weight 0)" }
        var parts: [String] = []
        let weights = upstream.targets.filter { $0.tier == target.tier }.reduce(0) { $0 + $1.weight }
        if weights > target.weight {
            parts.append("weight \(target.weight) of \(weights)")
        }
        if let first = tiers.first, target.tier > first {
            parts.append("only if no target of a lower tier is usable (tier \(target.tier))")
        }
        if let zone = target.zone {
            let isElsewhere = upstream.zone != nil && upstream.zone != zone
            parts.append("zone \(zone)" + (isElsewhere ? ", counts as twice as loaded" : ""))
        }
        if case .tcp(let address) = target.address, IPAddress.bytes(of: address.host) == nil {
            parts.append("each address of the name is a candidate")
        }
        return parts.isEmpty ? "\(target)" : "\(target): " + parts.joined(separator: "; ")
    }

    private var health: String {
        guard let health = upstream.health else { return "no active checks" }
        let probe =
            switch health.probe {
            case .http(let path): "GET \(path)"
            case .grpc(let service): service.isEmpty ? "gRPC health check" : "gRPC health check of \(service)"
            }
        return "\(probe) every \(Self.text(health.interval)), at most \(Self.text(health.timeout)) each;"
            + " down after \(health.fall) failed, up after \(health.rise) passed"
    }

    private var ejection: String {
        let eject = upstream.eject
        guard eject.isEnabled else { return "none" }
        var causes: [String] = []
        if eject.consecutive > 0 { causes.append("\(eject.consecutive) failures in a row") }
        if eject.share > 0 {
            causes.append(
                "\(Self.percent(eject.share)) of at least \(EjectionConfiguration.volume) requests failed in 10s")
        }
        return "after " + causes.joined(separator: " or ")
            + "; for \(Self.text(eject.time)), later up to \(Self.text(eject.longest));"
            + " at most \(Self.percent(eject.most)) of the targets"
    }

    private var retry: String {
        let retry = upstream.retry
        guard retry.isEnabled else { return "none" }
        guard route.retry else { return "none on this route" }
        var causes = [RetryReason.connect, .refused, .stale, .reset].filter(repeats).map(\.rawValue)
        if repeats(after: .status) { causes += retry.statuses.sorted().map(String.init) }
        if repeats(after: .attemptTimeout), retry.attemptTimeout > .zero {
            causes.append("no response head in \(Self.text(retry.attemptTimeout))")
        }
        var parts: [String] = []
        if retry.connectTargets != retry.attempts {
            causes.removeFirst()
            parts.append("up to \(retry.connectTargets - 1) after connect")
        }
        parts.append("up to \(retry.attempts - 1) after \(causes.joined(separator: ", "))")
        return parts.joined(separator: ", ")
            + "; at most \(Self.percent(retry.budget)) of all requests and \(retry.perSecond) per second"
    }

    private func repeats(after reason: RetryReason) -> Bool {
        RetryDecision.isRepeatable(
            RequestMethod(Array(method.utf8).span), after: reason, isCall: route.grpc, upstream.retry)
    }

    private var limits: String? {
        var limits: [String] = []
        if route.inFlight > 0 { limits.append("\(route.inFlight) in flight on this route, then 503") }
        if upstream.inFlight.target > 0 {
            limits.append("\(upstream.inFlight.target) in flight per target, then queued")
        }
        if route.deadline > .zero { limits.append("\(Self.text(route.deadline)) for all attempts and the response") }
        return limits.isEmpty ? nil : limits.joined(separator: "; ")
    }

    private static func text(_ duration: Duration) -> String { ValueFormat<Duration>.rendered(duration) }

    private static func percent(_ share: Double) -> String {
        let value = (share * 1_000).rounded() / 10
        return value == value.rounded() ? "\(Int(value)) %" : "\(value) %"
    }
}
