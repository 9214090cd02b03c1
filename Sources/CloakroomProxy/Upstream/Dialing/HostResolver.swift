public import NIOCore
import NIOPosix

/// Resolves host names.
public struct HostResolver: Sendable {
    /// Resolves all addresses of a host, of both address families. Called on an event loop, which it must not block.
    public let resolve: @Sendable (_ host: String, _ port: Int) -> EventLoopFuture<[SocketAddress]>

    /// Creates a resolver.
    public init(_ resolve: @escaping @Sendable (_ host: String, _ port: Int) -> EventLoopFuture<[SocketAddress]>) {
        self.resolve = resolve
    }

    /// The system resolver (`getaddrinfo`), called on a separate thread.
    public static let system = HostResolver { host, port in
        // Not on one of the gateway's event loops: the result may arrive after they have shut down.
        let eventLoop = MultiThreadedEventLoopGroup.singleton.any()
        let resolver = NIORandomizedDNSResolver(loop: eventLoop)
        // The AAAA query starts one lookup for both families.
        let version6 = resolver.initiateAAAAQuery(host: host, port: port)
        let version4 = resolver.initiateAQuery(host: host, port: port)
        return version6.and(version4).map { $0 + $1 }
    }
}
