import Benchmark
import CloakroomCore
import CloakroomWire

/// Normal form of the target, and the match against tables of several sizes: a match does not depend on the size.
func routeBenchmarks() {
    Benchmark("Parse a request target") { benchmark in
        let target = Array("/videos/417515716?quality=high&language=en".utf8)
        var scratch: [UInt8] = []
        for _ in benchmark.scaledIterations {
            blackHole(try RequestTarget.parse(target.span, scratch: &scratch))
        }
    }
    for count in [1, 10, 1_000] {
        Benchmark("Match a route of \(count)") { (benchmark: Benchmark, table: RouteTable) in
            let method = Array("GET".utf8)
            let path = Array("/videos/417515716".utf8)
            for _ in benchmark.scaledIterations {
                blackHole(table.match(method: method.span, path: path.span))
            }
        } setup: {
            try table(routes: count)
        }
    }
}

/// A table with the matching route and `count - 1` others.
private func table(routes count: Int) throws -> RouteTable {
    let others = try (1..<count).map { number in
        try route("other-\(number)", "/services/area-\(number % 50)/resource-\(number)/{id}")
    }
    var configuration = GatewayConfiguration.defaults
    configuration.routes = try [route("video", "/videos/{id}")] + others
    configuration.accounts.upstream = nil
    return RouteTable(configuration)
}

func route(_ name: String, _ path: String) throws -> Route {
    var route = Route(name: name, methods: ["GET"], pattern: try PathPattern(path), requiresAuthorization: true)
    route.inject = [.apiToken, .bearer]
    return route
}
