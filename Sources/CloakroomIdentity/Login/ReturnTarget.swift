package import CloakroomCore
import CloakroomWire

/// Where a browser continues after a login: a path and query of this gateway that a route serves for `GET`.
///
/// The value is parsed like the target of a request, and its normal form is sent, so that a browser cannot read another
/// host from it than the gateway. A check of the prefix would pass `//host`, `/\host` or `/%09/host`.
package enum ReturnTarget {
    /// The normal form of a requested target.
    /// - Parameter text: The decoded value of `returnTo`; `nil` if absent.
    /// - Returns: `nil` for a target that is not a path, is too long, is ambiguous, or that no route serves.
    package static func normalized(_ text: String?, routes: RouteTable) -> String? {
        guard let text, text.utf8.first == UInt8(ascii: "/"), text.utf8.count <= PendingLogin.maxReturnTarget else {
            return nil
        }
        let bytes = Array(text.utf8)
        var scratch: [UInt8] = []
        guard let target = try? RequestTarget.parse(bytes.span, scratch: &scratch), target.authority == nil,
            !target.isAsterisk
        else { return nil }
        let path = target.isPathRewritten ? scratch : Array(bytes[target.path.start..<target.path.end])
        guard case .route = routes.match(method: Array("GET".utf8).span, path: path.span) else { return nil }
        let normal = path + bytes[target.query.start..<target.query.end]
        // The path is at most as long as before: an escape is either decoded or kept.
        return String(decoding: normal, as: UTF8.self)
    }

    /// The first of the requested and the configured target that a route serves; otherwise `/`.
    package static func resolve(_ text: String?, routes: RouteTable, configured: String) -> String {
        normalized(text, routes: routes) ?? normalized(configured, routes: routes) ?? "/"
    }
}
