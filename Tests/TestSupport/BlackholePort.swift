import NIOCore
import NIOPosix

/// A loopback port on which connections are never accepted.
package struct BlackholePort {
    package enum Behavior {
        /// The port is closed: connection attempts fail immediately.
        case rejects
        /// The accept queue is full and is never read: connections are not established.
        case isDeaf
    }

    package let port: Int
    private let channels: [any Channel]

    package init(_ behavior: Behavior) async throws {
        let group = MultiThreadedEventLoopGroup.singleton
        let server = try await ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 1)
            .serverChannelOption(.autoRead, value: false)
            .bind(host: "127.0.0.1", port: 0).get()
        port = server.localAddress?.port ?? 0
        switch behavior {
        case .rejects:
            try await server.close()
            channels = []
        case .isDeaf:
            // Fill the queue: it holds two connections, and neither is ever accepted.
            var channels: [any Channel] = [server]
            for _ in 0..<2 {
                channels.append(try await ClientBootstrap(group: group).connect(host: "127.0.0.1", port: port).get())
            }
            self.channels = channels
        }
    }

    /// Closes the port.
    package func release() {
        for channel in channels { channel.close(promise: nil) }
    }
}
