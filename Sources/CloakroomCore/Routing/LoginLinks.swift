/// Where at the gateway a browser continues that needs to sign in, or to authenticate again.
public struct LoginLinks: Sendable {
    /// The maximum length of the address to which the browser returns in bytes. With a longer one it continues at
    /// ``LoginConfiguration/returnTo``.
    package static let maxReturnTarget = 384

    private let signInPath: String
    private let loginPath: String

    /// Creates the links of a configuration.
    public init(_ accounts: AccountsConfiguration) {
        signInPath = accounts.signInPath
        loginPath = accounts.prefix + "/login"
    }

    /// The address to sign in at.
    /// - Parameter target: Path and query of the request, to which the browser returns.
    public func signIn(returnTo target: [UInt8]) -> String { link(signInPath, [], returnTo: target) }

    /// The address to authenticate at as a route requires.
    /// - Parameters:
    ///   - route: The name of the route.
    ///   - target: Path and query of the request; `nil` if the client selects where to continue.
    public func stepUp(for route: String, returnTo target: [UInt8]? = nil) -> String {
        link(loginPath, [("for", route)], returnTo: target)
    }

    /// The endpoint parses the target like that of a request, so nothing is checked here.
    private func link(_ path: String, _ pairs: [(name: String, value: String)], returnTo target: [UInt8]?) -> String {
        var pairs = pairs
        if let target, target.count <= Self.maxReturnTarget {
            pairs.append(("returnTo", String(decoding: target, as: UTF8.self)))
        }
        return pairs.isEmpty ? path : path + "?" + FormEncoding.encode(pairs)
    }
}
