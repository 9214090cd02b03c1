import CloakroomCore
import CloakroomIdentity

extension FuzzTarget {
    /// The query of a provider's callback, and the same bytes as a target to continue at.
    static let callbacks = FuzzTarget(
        "callbacks",
        words: [
            "state=", "&code=", "&error=", "&iss=", "access_denied", "&", "=", "+", "%", "%00", "%0d%0a", "%2f", "%5c",
            "%09", "/", "//", "\\", "/files/", "..", "?", "#", ";", "@", "https:",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        ],
        times: []
    ) { bytes throws(Violation) in
        if let query = try? CallbackQuery(bytes) {
            try require(bytes.count <= CallbackQuery.maxLength && query.state.count == 32, "a query beyond its limits")
            if case .code(let code) = query.outcome {
                try require(
                    (1...CallbackQuery.maxCode).contains(code.bytes.count)
                        && code.bytes.allSatisfy { (0x21...0x7e).contains($0) }, "a code that is not visible ASCII")
            }
        }
        guard let text = String(validating: bytes, as: UTF8.self),
            let target = ReturnTarget.normalized(text, routes: CallbackTexts.routes)
        else { return }
        // Browsers remove tabs and line ends, and read a backslash as a slash (WHATWG URL §4.4).
        let path = target.utf8.prefix { $0 != UInt8(ascii: "?") }
        try require(
            target.utf8.allSatisfy { (0x21...0x7e).contains($0) } && path.first == UInt8(ascii: "/")
                && path.dropFirst().first != UInt8(ascii: "/") && !path.contains(UInt8(ascii: "\\")),
            "a target that can lead to another host")
        try require(
            ReturnTarget.normalized(target, routes: CallbackTexts.routes) == target, "a normal form that changes")
    }
}

private enum CallbackTexts {
    static let routes: RouteTable = {
        var configuration = GatewayConfiguration.defaults
        configuration.routes = ["/", "/files/*"].enumerated().compactMap { index, path in
            guard let pattern = try? PathPattern(path) else { return nil }
            return Route(name: "r\(index)", methods: ["GET"], pattern: pattern, requiresAuthorization: true)
        }
        return RouteTable(configuration)
    }()
}
