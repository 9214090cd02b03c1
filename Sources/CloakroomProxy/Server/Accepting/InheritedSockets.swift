import CloakroomCore
import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Listening sockets that the service manager has bound (sd_listen_fds(3)). It keeps them open, so that connections wait in
/// their queues while no gateway runs: a restart refuses no client.
public struct InheritedSockets: Sendable {
    /// The sockets by the addresses they are bound to.
    private let descriptors: [SocketAddress: CInt]

    /// No sockets.
    public init() { descriptors = [:] }

    /// Reads the variables of a service manager and removes them. The sockets are not passed on to programs that this process
    /// starts. Must precede the start of other threads.
    /// - Throws: ``ListenerError`` if a socket does not listen for TCP connections.
    public static func take() throws -> InheritedSockets {
        func number(_ name: String) -> CInt? { getenv(name).flatMap { CInt(String(cString: $0)) } }
        let count = number("LISTEN_PID") == getpid() ? number("LISTEN_FDS") ?? 0 : 0
        for name in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"] { unsetenv(name) }
        return try InheritedSockets(first..<first + min(max(count, 0), most))
    }

    /// SD_LISTEN_FDS_START.
    private static let first: CInt = 3
    private static let most: CInt = 64

    init(_ descriptors: Range<CInt>) throws {
        var bound: [SocketAddress: CInt] = [:]
        for descriptor in descriptors {
            guard fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0, Self.isListening(descriptor),
                let address = Self.address(of: descriptor)
            else {
                throw ListenerError(
                    description: "socket \(descriptor) of the service manager does not listen for TCP connections "
                        + "(write ListenStream= with an address and a port)")
            }
            bound[address] = descriptor
        }
        self.descriptors = bound
    }

    /// The socket that is bound to an address; `nil` without one.
    func descriptor(at address: SocketAddress) -> CInt? { descriptors[address] }

    /// Whether a socket is bound to an address.
    func contains(_ address: HostAndPort) -> Bool {
        (try? SocketAddress.makeAddressResolvingHost(address.host, port: address.port))
            .map { descriptors[$0] != nil } ?? false
    }

    /// Sockets whose connections no listener would accept.
    func findings(for listeners: [ListenerConfiguration]) -> [ConfigFinding] {
        let used = listeners.compactMap {
            try? SocketAddress.makeAddressResolvingHost($0.address.host, port: $0.address.port)
        }
        let unused = Set(descriptors.keys).subtracting(used).map {
            HostAndPort(host: $0.ipAddress ?? "", port: $0.port ?? 0).description
        }
        return unused.sorted().map {
            ConfigFinding(
                key: ["listeners"], message: "no listener has the address \($0) of a socket of the service manager",
                suggestion: "write the same address here and in ListenStream=")
        }
    }

    private static func isListening(_ descriptor: CInt) -> Bool {
        var isListening: CInt = 0
        var size = socklen_t(MemoryLayout<CInt>.size)
        return getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &isListening, &size) == 0 && isListening != 0
    }

    /// - Returns: `nil` unless it is an address of IPv4 or IPv6.
    private static func address(of descriptor: CInt) -> SocketAddress? {
        var storage = sockaddr_storage()
        var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return withUnsafeMutableBytes(of: &storage) { bytes in
            guard let name = bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self),
                getsockname(descriptor, name, &size) == 0
            else { return nil }
            switch CInt(name.pointee.sa_family) {
            case AF_INET: return SocketAddress(bytes.load(as: sockaddr_in.self))
            case AF_INET6: return SocketAddress(bytes.load(as: sockaddr_in6.self))
            default: return nil
            }
        }
    }
}
