import Glibc
import NIOCore
import NIOPosix
import Synchronization

/// A loopback port on which connections are never accepted.
package struct BlackholePort {
    package enum Behavior {
        /// No process listens: connection attempts fail immediately. The port stays reserved until it is released, so
        /// that no other process or connection gets it.
        case rejects
        /// The accept queue is full and is never read: connections are not established.
        case isDeaf
    }

    package let port: Int
    private let channels: [any Channel]
    private let reservation: Reservation?

    package init(_ behavior: Behavior) async throws {
        if case .rejects = behavior {
            port = try FreePort.next()
            reservation = try Reservation(port)
            channels = []
            return
        }
        let group = MultiThreadedEventLoopGroup.singleton
        let server = try await ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 1)
            .serverChannelOption(.autoRead, value: false)
            .bind(host: "127.0.0.1", port: 0).get()
        port = server.localAddress?.port ?? 0
        reservation = nil
        // Fill the queue: it holds two connections, and neither is ever accepted.
        var channels: [any Channel] = [server]
        for _ in 0..<2 {
            channels.append(try await ClientBootstrap(group: group).connect(host: "127.0.0.1", port: port).get())
        }
        self.channels = channels
    }

    /// Closes the port; if it rejects connections, a server may listen on it afterwards.
    package func release() {
        for channel in channels { channel.close(promise: nil) }
        reservation?.end()
    }

    /// A socket that is bound to a port of loopback and does not listen.
    private final class Reservation: Sendable {
        private let descriptor: Mutex<Int32?>

        init(_ port: Int) throws {
            guard let descriptor = FreePort.bound(to: port) else { throw TimeoutError("a reserved port") }
            self.descriptor = Mutex(descriptor)
        }

        func end() {
            descriptor.withLock { descriptor in
                if let open = descriptor { close(open) }
                descriptor = nil
            }
        }
    }
}
