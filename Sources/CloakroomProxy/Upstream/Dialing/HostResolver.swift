public import NIOCore
import NIOPosix

/// Finds the addresses of a host name.
public struct HostResolver: Sendable {
    /// Asks for all addresses of a host, of both families. Called on an event loop, which it must not block.
    public let resolve: @Sendable (_ host: String, _ port: Int) -> EventLoopFuture<[SocketAddress]>

    /// Makes a resolver.
    public init(_ resolve: @escaping @Sendable (_ host: String, _ port: Int) -> EventLoopFuture<[SocketAddress]>) {
        self.resolve = resolve
    }

    /// What the system knows (`getaddrinfo`), asked on a thread of its own.
    public static let system = HostResolver { host, port in
        // Not on a loop of the gateway's: an answer may come after those are gone.
        let eventLoop = MultiThreadedEventLoopGroup.singleton.any()
        let resolver = NIORandomizedDNSResolver(loop: eventLoop)
        // The first of the two asks for both families.
        let version6 = resolver.initiateAAAAQuery(host: host, port: port)
        let version4 = resolver.initiateAQuery(host: host, port: port)
        return version6.and(version4).map { $0 + $1 }
    }
}
