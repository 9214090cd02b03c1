import Glibc
import NIOCore
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomProxy

@Suite("Listening sockets of the service manager (sd_listen_fds(3))", .serialized)
struct InheritedSocketsTests {
    /// A socket that is bound to a free port of 127.0.0.1, as a service manager keeps it.
    private struct BoundSocket {
        let descriptor: CInt
        let port: Int

        init(listens: Bool = true) throws {
            let made = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
            let any = try SocketAddress(ipAddress: "127.0.0.1", port: 0)
            var results = [any.withSockAddr { bind(made, $0, socklen_t($1)) }, listens ? listen(made, 16) : 0]
            // An address of IPv4 has its port in the third and fourth byte, in network order.
            var name = [UInt8](repeating: 0, count: 16)
            var size = socklen_t(name.count)
            results.append(
                name.withUnsafeMutableBytes {
                    getsockname(made, $0.baseAddress?.assumingMemoryBound(to: sockaddr.self), &size)
                })
            descriptor = made
            port = Int(name[2]) << 8 | Int(name[3])
            expect(results, equals: [0, 0, 0])
        }

        /// What a new gateway gets.
        func inherit() throws -> InheritedSockets {
            let copy = dup(descriptor)
            return try InheritedSockets(copy..<copy + 1)
        }

        func closed() { close(descriptor) }
    }

    private static func setup(_ socket: BoundSocket) throws -> GatewaySetup {
        let port = socket.port
        return GatewaySetup.serving.with(\.inherited, try socket.inherit()).configuration {
            $0.listeners[0].address.port = port
        }
    }

    @Test("A client that connects while no gateway runs is served by the next one")
    func restart() async throws {
        let socket = try BoundSocket()
        defer { socket.closed() }
        for _ in 0..<2 {
            let early = try await RawPeer.connect(port: socket.port, sending: Ask.get())
            try await Self.setup(socket).run { gateway in
                try await expect(early.response().text, equals: "ok")
                try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok")
                await gateway.beginDrain()
                try? await early.close()
                try await gateway.stopped()
            }
        }
    }

    @Test("Such an address is not in use, and a socket without a listener is an error")
    func findings() async throws {
        let socket = try BoundSocket()
        defer { socket.closed() }
        var configuration = try GatewaySetup().makeConfig().configuration
        configuration.listeners[0].address.port = socket.port
        let inherited = try socket.inherit()
        expect(ListenerCheck.findings(in: configuration, sharesListeners: false).count, equals: 1)
        expect(ListenerCheck.findings(in: configuration, sharesListeners: false, inherited: inherited), equals: [])
        configuration.listeners[0].address.port = 0
        let unused = ListenerCheck.findings(in: configuration, sharesListeners: false, inherited: inherited)
        expect(unused.map(\.key), equals: [["listeners"]])
        expect(unused.first?.sentence.contains("127.0.0.1:\(socket.port)"), equals: true)
    }

    @Test("A descriptor that is no listening TCP socket is an error that names it")
    func other() throws {
        let socket = try BoundSocket(listens: false)
        defer { socket.closed() }
        let error = #expect(throws: ListenerError.self) {
            try InheritedSockets(socket.descriptor..<socket.descriptor + 1)
        }
        expect(error?.description.hasPrefix("socket \(socket.descriptor) of the service manager"), equals: true)
        #expect(throws: ListenerError.self) { try InheritedSockets(99_990..<99_991) }
    }
}
