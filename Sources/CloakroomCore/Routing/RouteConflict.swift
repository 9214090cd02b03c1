/// A mistake in a route table that no order of the file could settle.
public struct RouteConflict: Sendable, Equatable {
    /// Index of the route that stands later.
    public let route: Int
    /// Index of the route that it collides with; `nil` if it collides with the gateway's own endpoints.
    public let other: Int?
    /// What is wrong and what to do.
    public let message: String
}

extension RouteTable {
    /// Finds all routes that collide: same path and method, or overlapping paths of which neither is more specific.
    public static func conflicts(in routes: [Route], accounts: AccountsConfiguration) -> [RouteConflict] {
        var conflicts: [RouteConflict] = []
        let prefix = accounts.upstream == nil ? nil : try? PathPattern(accounts.prefix)
        for (index, route) in routes.enumerated() {
            if let prefix, route.pattern.segments.starts(with: prefix.segments) {
                conflicts.append(
                    RouteConflict(
                        route: index, other: nil,
                        message: "\(route.pattern) lies under \(accounts.prefix), which the gateway answers itself"
                            + " (choose another path, or set accounts.prefix)"))
            }
            for other in 0..<index {
                let relation = route.pattern.relation(to: routes[other].pattern)
                guard relation == .same || relation == .overlapping else { continue }
                let methods = served(by: route).filter { served(by: routes[other]).contains($0) }
                guard !methods.isEmpty else { continue }
                switch relation {
                case .disjoint, .moreSpecific, .lessSpecific: continue
                case .same:
                    conflicts.append(
                        RouteConflict(
                            route: index, other: other,
                            message: "\(methods.joined(separator: ", ")) \(route.pattern) is served by route"
                                + " \"\(routes[other].name)\" already (remove one of the two)"))
                case .overlapping:
                    conflicts.append(
                        RouteConflict(
                            route: index, other: other,
                            message: "\(route.pattern) and \(routes[other].pattern) of route \"\(routes[other].name)\""
                                + " fit the same paths and neither is more specific (make a segment of one a literal)"))
                }
            }
        }
        return conflicts
    }
}

extension PathPattern {
    /// How the paths of two patterns lie to each other.
    enum Relation: Equatable {
        case disjoint, same, moreSpecific, lessSpecific, overlapping
    }

    /// Whether it fits every path that another pattern fits.
    package func covers(_ other: PathPattern) -> Bool {
        let relation = relation(to: other)
        return relation == .same || relation == .lessSpecific
    }

    /// Compares two patterns segment by segment.
    func relation(to other: PathPattern) -> Relation {
        var isMoreSpecificSomewhere = false
        var isLessSpecificSomewhere = false
        var index = 0
        compare: while true {
            let mine = index < segments.count ? segments[index] : nil
            let theirs = index < other.segments.count ? other.segments[index] : nil
            switch (mine, theirs) {
            case (nil, nil): break compare
            case (.wildcard?, .wildcard?): break compare
            // The empty segment after a trailing slash is below a wildcard as any other segment is.
            case (.wildcard?, .some):
                isLessSpecificSomewhere = true
                break compare
            case (.some, .wildcard?):
                isMoreSpecificSomewhere = true
                break compare
            case (nil, _), (_, nil): return .disjoint
            case (.literal(let left)?, .literal(let right)?):
                guard left == right else { return .disjoint }
            case (.literal(let text)?, .parameter?):
                guard !text.isEmpty else { return .disjoint }
                isMoreSpecificSomewhere = true
            case (.parameter?, .literal(let text)?):
                guard !text.isEmpty else { return .disjoint }
                isLessSpecificSomewhere = true
            case (.parameter?, .parameter?): break
            }
            index += 1
        }
        switch (isMoreSpecificSomewhere, isLessSpecificSomewhere) {
        case (false, false): return .same
        case (true, false): return .moreSpecific
        case (false, true): return .lessSpecific
        case (true, true): return .overlapping
        }
    }
}
