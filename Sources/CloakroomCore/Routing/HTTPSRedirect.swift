import CloakroomWire

/// Redirects the requests of a clear-text listener to `https`.
///
/// The host of the target is one of the configuration, so that a client cannot choose it.
public struct HTTPSRedirect: Sendable {
    /// What to respond with.
    public enum Response: Sendable, Equatable {
        /// 308 to the origin, path and query of the request.
        case redirect(origin: [UInt8])
        /// 403: the client would send its body in clear text each time, if it was redirected.
        case httpsRequired
        /// 421: the host is not one of the gateway's.
        case misdirected
    }

    /// The hosts in lower case, and the origin that each of them has.
    private let origins: [(host: [UInt8], origin: [UInt8])]

    /// Creates a redirect.
    /// - Parameters:
    ///   - hosts: Names or addresses, an IPv6 address with its brackets.
    ///   - port: The port of the target, 1...65,535.
    public init(hosts: [String], port: Int) {
        origins = hosts.map { host in
            let host = host.lowercased()
            return (Array(host.utf8), Array("https://\(host)\(port == 443 ? "" : ":\(port)")".utf8))
        }
    }

    /// Decides about a request.
    /// - Parameters:
    ///   - isRead: Whether the method is GET or HEAD.
    ///   - authority: The authority of the request; empty without one.
    public func response(isRead: Bool, authority: Span<UInt8>) -> Response {
        var end = authority.count
        while end > 0, authority[end - 1] >= UInt8(ascii: "0"), authority[end - 1] <= UInt8(ascii: "9") { end -= 1 }
        // Without a port the digits belong to the host.
        end = end > 0 && authority[end - 1] == UInt8(ascii: ":") ? end - 1 : authority.count
        // The final dot of an absolute name (RFC 1034 §3.1).
        if end > 1, authority[end - 1] == UInt8(ascii: ".") { end -= 1 }
        let host = ByteRange(start: 0, count: end)
        guard let index = origins.indices.first(where: { ASCII.equals(authority, host, origins[$0].host) }) else {
            return .misdirected
        }
        return isRead ? .redirect(origin: origins[index].origin) : .httpsRequired
    }
}
