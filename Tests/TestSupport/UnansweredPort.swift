import NIOCore
import NIOPosix

/// A port of loopback at which nobody answers.
package struct BlackholePort {
    package enum Behavior {
        /// Connections are refused.
        case rejects
        /// Nobody takes connections, and the queue for them is full: whoever connects waits.
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
            // Fill the queue: two fit, and neither is ever accepted.
            var channels: [any Channel] = [server]
            for _ in 0..<2 {
                channels.append(try await ClientBootstrap(group: group).connect(host: "127.0.0.1", port: port).get())
            }
            self.channels = channels
        }
    }

    /// Lets go of the port.
    package func release() {
        for channel in channels { channel.close(promise: nil) }
    }
}
