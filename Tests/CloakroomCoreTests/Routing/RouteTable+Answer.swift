import CloakroomWire

@testable import CloakroomCore

extension RouteTable {
    /// Compiles a configuration of these parts.
    init(routes: [Route], accounts: AccountsConfiguration, upstreams: [UpstreamConfiguration]) {
        self.init(GatewayConfiguration(listeners: [], upstreams: upstreams, routes: routes, accounts: accounts))
    }

    /// The result for a request target as text: a route's name, or the other result.
    func answer(
        _ method: String, _ target: String, group: Int = 0, _ name: (Route) -> String = { $0.name }
    ) -> String {
        let bytes = Array(target.utf8)
        var scratch: [UInt8] = []
        guard let parsed = try? RequestTarget.parse(bytes.span, scratch: &scratch) else { return "400" }
        let path = parsed.isPathRewritten ? scratch : Array(bytes[parsed.path.start..<parsed.path.end])
        return answer(method, path: path, group: group, name)
    }

    /// The same for a path as it is.
    func answer(
        _ method: String, path: [UInt8], group: Int = 0, _ name: (Route) -> String = { $0.name }
    ) -> String {
        switch match(method: Array(method.utf8).span, path: path.span, group: group) {
        case .route(let index): name(routes[index])
        case .accountEndpoint(let endpoint): "\(endpoint)"
        case .notFound: "404"
        case .methodNotAllowed(let allow): "405 \(allow)"
        }
    }
}
