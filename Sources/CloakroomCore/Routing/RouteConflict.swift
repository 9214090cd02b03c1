/// An error in a route table that the order of the routes cannot resolve.
public struct RouteConflict: Sendable, Equatable {
    /// Index of the later route.
    public let route: Int
    /// Index of the conflicting route; `nil` if the conflict is with the gateway's own endpoints.
    public let other: Int?
    /// The problem and a suggestion.
    public let message: String
}

extension RouteTable {
    /// Finds all conflicts: same path and method, or overlapping paths of which neither is more specific.
    public static func conflicts(in routes: [Route], accounts: AccountsConfiguration) -> [RouteConflict] {
        var conflicts: [RouteConflict] = []
        let prefix = !accounts.isEnabled ? nil : try? PathPattern(accounts.prefix)
        for (index, route) in routes.enumerated() {
            if let prefix, route.pattern.segments.starts(with: prefix.segments) {
                conflicts.append(
                    RouteConflict(
                        route: index, other: nil,
                        message: "\(route.pattern) is below \(accounts.prefix), which is reserved for the gateway's own"
                            + " endpoints (choose another path, or set accounts.prefix)"))
            }
            for other in 0..<index {
                let relation = route.pattern.relation(to: routes[other].pattern)
                guard relation == .same || relation == .overlapping, route.sharesHost(with: routes[other]) else {
                    continue
                }
                let methods = served(by: route).filter { served(by: routes[other]).contains($0) }
                guard !methods.isEmpty else { continue }
                // Routes without hosts belong to those of every host.
                let hosts = route.hosts.isEmpty != routes[other].hosts.isEmpty ? ", or give both hosts" : ""
                switch relation {
                case .disjoint, .moreSpecific, .lessSpecific: continue
                case .same:
                    conflicts.append(
                        RouteConflict(
                            route: index, other: other,
                            message: "\(methods.joined(separator: ", ")) \(route.pattern) is already served by route"
                                + " \"\(routes[other].name)\" (remove one of the two\(hosts))"))
                case .overlapping:
                    conflicts.append(
                        RouteConflict(
                            route: index, other: other,
                            message: "\(route.pattern) and \(routes[other].pattern) of route \"\(routes[other].name)\""
                                + " match the same paths and neither is more specific"
                                + " (make a segment of one a literal\(hosts))"))
                }
            }
        }
        return conflicts
    }
}

extension PathPattern {
    /// The relation between the paths of two patterns.
    enum Relation: Equatable {
        case disjoint, same, moreSpecific, lessSpecific, overlapping
    }

    /// Whether the pattern matches every path that another pattern matches.
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
            // The empty segment after a trailing slash is below a wildcard like any other segment.
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
