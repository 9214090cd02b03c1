/// What a route does with a request that it permits.
public enum RouteAction: Sendable, Equatable {
    /// Forwards it to the upstream with this index in ``GatewayConfiguration/upstreams``, with the path that the rewrite
    /// makes; `nil` is the received one.
    case forward(upstream: Int, PathRewrite?)
    case redirect(RedirectTemplate)
    /// Responds with a file of a folder. The path of the file is what the wildcard of the route's pattern matches.
    indirect case files(FilesConfiguration)
}

/// A redirect whose target is made of the path of the request (RFC 9110 §15.4).
public struct RedirectTemplate: Sendable, Equatable {
    /// The origin of the target; empty for that of the request.
    package var origin = ""
    /// Makes the path of the target.
    package var rewrite: PathRewrite
    /// 301, 302, 303, 307 or 308. With 301 and 302, clients may send a POST again as GET.
    package var status = 308
    /// Whether the target has the query of the request.
    package var keepsQuery = true

    package init(_ rewrite: PathRewrite) { self.rewrite = rewrite }

    /// The pattern of the target in its textual form.
    package var target: String { origin + rewrite.pattern.description }

    /// The value of `Location`.
    /// - Parameters:
    ///   - path: As in ``PathRewrite/append(_:to:)``.
    ///   - query: With its question mark; empty without one.
    package func location(path: [UInt8], query: [UInt8]) -> [UInt8] {
        var result = Array(origin.utf8)
        rewrite.append(path.span, to: &result)
        return keepsQuery ? result + query : result
    }
}
