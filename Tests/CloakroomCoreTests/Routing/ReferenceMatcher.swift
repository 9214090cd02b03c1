@testable import CloakroomCore

/// A reference implementation of route matching: it checks every route and selects the most specific one that matches
/// path and method, segment by segment from the left.
struct ReferenceMatcher {
    let routes: [Route]

    enum Response: Equatable {
        case route(Int)
        case notFound
        case methodNotAllowed(Set<String>)
    }

    func match(_ method: String, _ path: String) -> Response {
        let segments = path.dropFirst().split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        let fitting = routes.indices.filter { Self.fits(routes[$0].pattern, segments) }
        let serving = fitting.filter { Self.methods(of: routes[$0]).contains(method) }
        let best = serving.max {
            Self.rank(routes[$0].pattern).lexicographicallyPrecedes(Self.rank(routes[$1].pattern))
        }
        if let best { return .route(best) }
        let allowed = Set(fitting.flatMap { Self.methods(of: routes[$0]) })
        return allowed.isEmpty ? .notFound : .methodNotAllowed(allowed)
    }

    static func methods(of route: Route) -> [String] {
        route.methods + (route.methods.contains("GET") ? ["HEAD"] : [])
    }

    private static func fits(_ pattern: PathPattern, _ segments: [String]) -> Bool {
        for (index, segment) in pattern.segments.enumerated() {
            guard index < segments.count else { return false }
            switch segment {
            case .wildcard: return true
            case .parameter: if segments[index].isEmpty { return false }
            case .literal(let text): if segments[index] != text { return false }
            }
        }
        return pattern.segments.count == segments.count
    }

    private static func rank(_ pattern: PathPattern) -> [Int] {
        pattern.segments.map { segment in
            switch segment {
            case .literal: 3
            case .parameter: 2
            case .wildcard: 1
            }
        }
    }
}
