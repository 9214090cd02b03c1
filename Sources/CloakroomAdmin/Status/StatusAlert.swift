import CloakroomCore
import CloakroomTelemetry

/// A condition that requires an operator's attention.
struct StatusAlert: Sendable, Equatable, Encodable {
    /// The kind; stable.
    enum Kind: String, Sendable, Encodable {
        case notReady = "not_ready"
        case reloadFailed = "reload_failed"
        case upstream
        case identity
        case certificate
        case route
        case signIns = "sign_ins"
        case refreshes
        case store
        case telemetry
        case connections
    }

    enum Severity: String, Sendable, Encodable {
        /// Requests fail or will fail soon.
        case critical
        case warning
    }

    var kind: Kind
    var severity: Severity
    /// One sentence.
    var text: String
}

extension StatusAlert {
    /// The remaining days at which a certificate should be replaced.
    static let certificateDays: Int64 = 14
    /// The fraction of failed recent requests of a route or an upstream that is reported.
    static let errorShare = 0.05

    /// The alerts for a document, most severe first. Each cause has one: what fails because no target of an upstream is
    /// usable, or because the store is down, is not reported again.
    /// - Parameter upstreams: The upstreams with their routes.
    static func all(in document: StatusDocument, _ upstreams: [UpstreamStatus]) -> [StatusAlert] {
        let down = Set(document.upstreams.filter { $0.health == .down }.map(\.name))
        let causes = upstreams.filter { down.contains($0.name) }
        let explained = Set(causes.flatMap(\.routes))
        let routes = document.routes.filter { !explained.contains($0.name) && !failsByStore($0.name, document) }
        let found =
            document.readiness.compactMap(Self.init(check:)) + connections(document.connections)
            + reload(document.config)
            + document.upstreams.flatMap(upstream) + document.identities.flatMap(identity) + store(document)
            + document.certificates.compactMap(certificate)
            + routes.compactMap(route)
            + outcomes(document, isUpstreamDown: causes.contains(where: \.signsUsersIn))
            + document.telemetryDrops.compactMap(drops)
        return found.filter { $0.severity == .critical } + found.filter { $0.severity == .warning }
    }

    /// The worst that is true, without a full stop.
    static func headline(_ state: StatusDocument.State, _ alerts: [StatusAlert]) -> String {
        switch state {
        case .draining: return "Draining"
        case .notReady: return "Not ready"
        case .ready:
            guard let worst = alerts.first(where: { $0.severity == .critical })?.text else { return "Serving traffic" }
            return worst.hasSuffix(".") ? String(worst.dropLast()) : worst
        }
    }

    private static func failsByStore(_ route: String, _ document: StatusDocument) -> Bool {
        let failures = document.recentFailures.filter { $0.route == route }
        return document.store.up == false && !failures.isEmpty
            && failures.allSatisfy { $0.reason == "store_unavailable" }
    }

    private init(_ severity: Severity, _ kind: Kind, _ text: String) {
        self.init(kind: kind, severity: severity, text: text)
    }

    private init?(check: ReadinessCheck) {
        guard !check.isReady else { return nil }
        let reason = check.detail.map { ": \($0)" } ?? ""
        self.init(.critical, .notReady, "The readiness check “\(check.name)” failed\(reason).")
    }

    private static func connections(_ connections: StatusDocument.Connections?) -> [StatusAlert] {
        guard let connections else { return [] }
        let isPaused = connections.pausedListeners > 0
        var recent = connections.pausesRecent.filter { $0.recent > 0 }
        // A pause that began before the period and lasts. A lack of resources is tried again after a moment, so it counts
        // anew.
        if recent.isEmpty, isPaused {
            recent = connections.pausesRecent.filter { $0.kind == AcceptPauseReason.limit.rawValue }
        }
        return recent.map { pauses in
            let cause =
                pauses.kind == AcceptPauseReason.limit.rawValue
                ? "the limit of \(StatusFormatter.whole(connections.limit)) connections is reached (limits.connections)"
                : "the system has no file descriptors or memory left"
            return isPaused
                ? StatusAlert(.critical, .connections, "New clients have to wait: \(cause).")
                : StatusAlert(.warning, .connections, "New clients had to wait recently: \(cause).")
        }
    }

    private static func reload(_ config: StatusDocument.Config) -> [StatusAlert] {
        guard config.lastReload?.succeeded == false else { return [] }
        let text = "The last configuration reload was rejected. The previous configuration is in effect."
        return [StatusAlert(.warning, .reloadFailed, text)]
    }

    private static func upstream(_ upstream: StatusDocument.Upstream) -> [StatusAlert] {
        let name = "the upstream “\(upstream.name)”"
        let counted = upstream.targets.compactMap { TargetCondition(rawValue: $0.state) }.filter { $0 != .draining }
        let isFew = counted.count { $0.isUsable } * 2 < counted.count
        let stale = (upstream.staleNames ?? []).map { host in
            let text = "The host name \(host) of \(name) cannot be resolved. Its previous addresses are used."
            return StatusAlert(.warning, .upstream, text)
        }
        if upstream.health == .down { return [unusable(upstream, counted)] + stale }
        let waiting = upstream.pending == 1 ? "One request is waiting" : "\(upstream.pending) requests are waiting"
        let isDegraded = upstream.health == .degraded
        let conditions: [(isMet: Bool, Severity, String)] = [
            (isDegraded && isFew, .warning, "Less than half of the targets of \(name) are usable."),
            (isDegraded && !isFew, .warning, "Some targets of \(name) are not usable."),
            (upstream.panic, .critical, "No target of \(name) is usable: all are used."),
            (
                upstream.retryBudgetSpent, .warning,
                "The retry budget of \(name) is spent. Failed requests are not sent again."
            ),
            (upstream.pending > 0, .warning, "\(waiting) for a connection to \(name)."),
        ]
        return conditions.filter(\.isMet).map { StatusAlert($0.1, .upstream, $0.2) } + stale
    }

    /// The alert for an upstream without a usable target, with the reason of its last failure.
    private static func unusable(_ upstream: StatusDocument.Upstream, _ counted: [TargetCondition]) -> StatusAlert {
        let name = "upstream “\(upstream.name)”"
        guard counted.contains(.backingOff) else {
            let consequence = upstream.panic ? ": all are used" : ""
            return StatusAlert(.critical, .upstream, "No target of the \(name) is usable\(consequence).")
        }
        let last = upstream.targets.compactMap(\.lastFailure).min { $0.secondsAgo < $1.secondsAgo }
        let reason = last.map { ": \($0.reason)" } ?? ""
        return StatusAlert(.critical, .upstream, "The \(name) is unreachable\(reason).")
    }

    private static func identity(_ identity: StatusDocument.Identity) -> [StatusAlert] {
        func alert(_ severity: Severity, _ text: String) -> StatusAlert { StatusAlert(severity, .identity, text) }
        var found: [StatusAlert] = []
        let cause = identity.lastFailure.map { ": \($0.reason)" } ?? ""
        switch IdentityStatus.Condition(rawValue: identity.state) {
        case .up, nil: break
        case .stale:
            found.append(
                alert(.warning, "The provider “\(identity.name)” cannot be reached\(cause). Its earlier keys are used.")
            )
        case .down:
            found.append(alert(.critical, "Users cannot sign in at the provider “\(identity.name)”\(cause)."))
        }
        found += (identity.findings ?? []).map { alert(.warning, "The provider “\(identity.name)”: \($0).") }
        // Those of a provider that is down have its alert.
        if identity.loginsFailedRecent > 0, identity.state != IdentityStatus.Condition.down.rawValue {
            let count = StatusFormatter.count(Int64(clamping: identity.loginsFailedRecent), "login")
            found.append(
                alert(.warning, "\(count) at the provider “\(identity.name)” failed because of a server-side error."))
        }
        return found
    }

    private static func store(_ document: StatusDocument) -> [StatusAlert] {
        // A failed readiness check reports it already.
        guard document.store.up == false, document.readiness.allSatisfy(\.isReady) else { return [] }
        return [StatusAlert(.critical, .store, "The \(document.store.kind) store is unreachable.")]
    }

    private static func certificate(_ certificate: StatusDocument.Certificate) -> StatusAlert? {
        let name = "The certificate for \(certificate.names.first ?? certificate.file)"
        let days = certificate.daysLeft
        return switch days {
        case ..<0: StatusAlert(.critical, .certificate, "\(name) has expired.")
        case 0: StatusAlert(.critical, .certificate, "\(name) expires today.")
        case ..<certificateDays:
            StatusAlert(.warning, .certificate, "\(name) expires in \(StatusFormatter.count(days, "day")).")
        default: nil
        }
    }

    private static func route(_ route: StatusDocument.Route) -> StatusAlert? {
        guard let share = route.requests.errorShare, share >= errorShare else { return nil }
        return StatusAlert(
            .warning, .route, "\(StatusFormatter.share(share)) of the requests of the route “\(route.name)” failed.")
    }

    /// Outcomes not caused by the user; a wrong password is excluded.
    private static func outcomes(_ document: StatusDocument, isUpstreamDown: Bool) -> [StatusAlert] {
        // A refresh is counted without its source: with providers it may be another one that fails.
        let explained =
            (isUpstreamDown ? ["upstream_error"] : [])
            + (isUpstreamDown && document.identities.isEmpty ? ["transient"] : [])
            + (document.store.up == false ? ["store_error", "lease_timeout"] : [])
        let signIns = document.signIns.filter {
            ["upstream_error", "store_error", "misconfigured"].contains($0.outcome) && !explained.contains($0.outcome)
        }
        let refreshes = document.refreshes.filter {
            ["transient", "lease_timeout", "misconfigured"].contains($0.outcome) && !explained.contains($0.outcome)
        }
        return [
            failures(signIns, .signIns, "sign-in"),
            failures(refreshes, .refreshes, "token refresh", "token refreshes"),
        ].compactMap(\.self)
    }

    private static func failures(
        _ outcomes: [StatusDocument.Outcome], _ kind: Kind, _ one: String, _ many: String? = nil
    ) -> StatusAlert? {
        let count = outcomes.reduce(0) { $0 + $1.recent }
        guard count > 0 else { return nil }
        let failed = StatusFormatter.count(Int64(clamping: count), one, many)
        return StatusAlert(.warning, kind, "\(failed) failed because of a server-side error.")
    }

    private static func drops(_ drops: StatusDocument.Count) -> StatusAlert? {
        guard drops.recent > 0 else { return nil }
        return StatusAlert(
            .warning, .telemetry, "Telemetry was dropped: \(StatusFormatter.whole(drops.recent)) of \(drops.kind).")
    }
}
