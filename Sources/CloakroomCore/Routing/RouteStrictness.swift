/// Why a route is stricter than another one, as the predicate of a sentence about the stricter one.
package enum StricterReason: String, Sendable {
    case authorization = "requires authorization"
    case credentials = "accepts other credentials"
    case identities = "accepts other identities"
    case claims = "requires other claims"
    case requirement = "requires more of a session"
    case rateLimit = "has another rate limit"
}

/// Which routes of a configuration are stricter than a route, as bits: one for each set of access rules.
package struct RouteStrictness: Sendable, Equatable {
    /// The bit of the route's own rules.
    let own: UInt64
    /// The bits of stricter rules.
    let stricter: UInt64
    /// Whether a request of the route may belong to a stricter one, so that its path has to be read leniently.
    ///
    /// A route of a single path is meant as it is written. So is a route of `OPTIONS` alone, which upstreams that handle
    /// preflights themselves need for all their paths.
    let isChecked: Bool
    /// Whether that holds for plain paths too: a stricter route serves some of the route's paths, for other methods or in
    /// another spelling.
    private(set) var isWider = false

    /// Whether the route is stricter than another one of the same configuration.
    package func isStricter(than other: RouteStrictness) -> Bool { own & other.stricter != 0 }

    /// Compares the routes of a configuration.
    /// - Returns: One item for each route. Beyond 63 sets of rules the further ones count as one, which is stricter than
    ///   each route that any of them is stricter than.
    package static func compare(_ configuration: GatewayConfiguration) -> [RouteStrictness] {
        let routes = configuration.routes
        var kinds: [SessionRules] = []
        let kindOf = routes.map { route in
            let rules = SessionRules(route, in: configuration, claimHeaders: nil)
            let known = kinds.firstIndex { !$0.isStricter(than: rules) && !rules.isStricter(than: $0) }
            if known == nil { kinds.append(rules) }
            return known ?? kinds.count - 1
        }
        let bits = kinds.indices.map { UInt64(1) << UInt64(min($0, 63)) }
        let stricter = kinds.map { rules in
            zip(kinds, bits).reduce(UInt64(0)) { $1.0.isStricter(than: rules) ? $0 | $1.1 : $0 }
        }
        let patterns = routes.map(\.pattern.lenient)
        var result = zip(routes, kindOf).map { route, kind in
            let strictBits = stricter[kind]
            return RouteStrictness(
                own: bits[kind], stricter: strictBits,
                isChecked: strictBits != 0 && route.pattern.isWide && route.methods != ["OPTIONS"]
                    && zip(routes, kindOf).contains { other, kind in
                        bits[kind] & strictBits != 0 && other.sharesHost(with: route)
                    })
        }
        for index in result.indices where result[index].isChecked {
            result[index].isWider = result.indices.contains { other in
                guard result[other].isStricter(than: result[index]), routes[other].sharesHost(with: routes[index])
                else {
                    return false
                }
                let relation = patterns[index].relation(to: patterns[other])
                return relation == .lessSpecific || relation == .overlapping
            }
        }
        return result
    }
}
