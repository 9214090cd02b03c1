import CloakroomCore

extension GatewayConfiguration {
    /// The rate limits that count the requests of a route: those of every request first.
    /// - Parameter route: `nil` for requests that no route serves.
    func rateLimits(of route: Route?) -> [RateLimit] {
        (limits.rate + (route?.rate ?? [])).compactMap { name in rateLimits.first { $0.name == name } }
    }
}

extension RateLimit {
    /// The limit in a line: `perUser: 600/m by account, burst 60`.
    var summary: String {
        "\(name): \(requests) by \("\(subject)".escaped), burst \(burst)"
            + (isShared ? ", shared by all gateways" : "")
    }

    /// Whether it permits requests that another limit of the same name rejects.
    func isLooser(than other: RateLimit) -> Bool {
        let (mine, theirs) = (RatePace(self), RatePace(other))
        return mine.cost < theirs.cost || burst > other.burst || subject != other.subject || when != other.when
            || other.isShared && !isShared
    }
}

/// Validates rate limits against the routes that list them.
struct RateLimitRules {
    let limits: RateLimitsSection
    let identities: IdentitiesSection
    let store: SessionConfiguration.Store

    /// The maximum number of limits in a list.
    private static let most = 4

    func check(_ routes: [RouteSection], every: [String]) {
        let scope = limits.root.sectionWithDefaults("limits")
        let found = self.found(every, in: scope)
        for limit in found where limit.dependsOnSession || limit.subject != .address {
            let kind = limit.when.isEmpty ? "by \(limit.subject)" : "for sessions with a claim"
            scope.report(
                "must be limits by address: \(limit.name) is \(kind)", "list it at routes, or leave it out", at: "rate",
                becauseOf: [["rateLimits", limit.name]])
        }
        for route in routes { check(route, every: every) }
        let used = Set(every + routes.flatMap(\.options.rate))
        for (name, scope) in limits.items where !used.contains(name) {
            scope.warn("has no effect: no route lists it", "add it to rate of a route", at: "by")
        }
        for (limit, item) in zip(limits.limits, limits.items) {
            checkClaims(of: limit, item.scope)
            guard limit.isShared, store != .valkey else { continue }
            item.scope.report(
                "conflicts with session.store \(store.rawValue), which gateways do not share",
                "remove it, or use the store valkey", at: "shared", becauseOf: [["session", "store"]])
        }
    }

    private func check(_ route: RouteSection, every: [String]) {
        for limit in found(route.options.rate, in: route.scope) {
            if every.contains(limit.name) {
                route.scope.report(
                    "conflicts with limits.rate: \(limit.name) would count each request twice", "keep one of the two",
                    at: "rate", becauseOf: [["limits", "rate"]])
            }
            guard limit.dependsOnSession, route.requiresAuthorization == false,
                !route.options.inject.contains(.bearer)
            else { continue }
            let kind = limit.when.isEmpty ? "is by \(limit.subject)" : "depends on a claim"
            route.scope.report(
                "conflicts with the route: \(limit.name) \(kind), but no session is looked up",
                "list a limit by address or route, or require authorization", at: "rate",
                becauseOf: [route.scope.path + ["requiresAuthorization"], ["rateLimits", limit.name]])
        }
    }

    /// The limits of a list `rate`. Reports names that do not exist.
    private func found(_ names: [String], in scope: ConfigScope) -> [RateLimit] {
        scope.checkCount(names.count, most: Self.most, "limits", at: "rate")
        scope.reportRepetition(in: names, at: "rate")
        return names.enumerated().compactMap { index, name in
            if let limit = limits.limits.first(where: { $0.name == name }) { return limit }
            scope.report(
                "unknown rate limit \(name.quoted)",
                limits.items.isEmpty
                    ? "add it to rateLimits" : NameSuggestion.suggestion(for: name, among: limits.names), at: "rate",
                item: index)
            return nil
        }
    }

    /// Only providers state claims.
    private func checkClaims(of limit: RateLimit, _ scope: ConfigScope) {
        var claims = limit.when.map { (key: "when", name: $0.name) }
        if case .claim(let name) = limit.subject { claims.append((key: "by", name: name)) }
        for claim in claims {
            let effect =
                claim.key == "when" ? "no session would be counted" : "all requests would be counted by address"
            if identities.items.isEmpty {
                scope.warn("requires claims, which only identities state: \(effect)", "add identities", at: claim.key)
            } else {
                identities.check(claim.name, effect, in: scope, at: claim.key)
            }
        }
    }
}
