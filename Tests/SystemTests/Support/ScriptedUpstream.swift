import NIOCore
import NIOPosix
import Synchronization

/// An upstream that responds with given bytes, valid or invalid.
final class ScriptedUpstream: Sendable {
    private let script = Mutex<[String: String]>([:])

    /// Listens while `body` runs.
    static func running<R>(_ body: (ScriptedUpstream, _ port: Int) async throws -> R) async throws -> R {
        let upstream = ScriptedUpstream()
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Handler(upstream))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        do {
            let result = try await body(upstream, channel.localAddress?.port ?? 0)
            try await channel.close()
            return result
        } catch {
            try? await channel.close()
            throw error
        }
    }

    /// The response to a method and a path, as sent on the wire. The connection is closed after it.
    func response(_ request: String, with bytes: String) {
        script.withLock { $0[request] = bytes }
    }

    /// A complete response with a JSON body.
    static func json(_ body: String, status: String = "200 OK") -> String {
        "HTTP/1.1 \(status)\r\nContent-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n"
            + "Connection: close\r\n\r\n\(body)"
    }

    private func response(to head: String) -> String {
        let request = head.split(separator: " ").prefix(2).joined(separator: " ")
        return script.withLock { $0[request] } ?? Self.json("{}", status: "404 Not Found")
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private let upstream: ScriptedUpstream
        private var received = ByteBuffer()

        init(_ upstream: ScriptedUpstream) {
            self.upstream = upstream
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            received.writeImmutableBuffer(unwrapInboundIn(data))
            let head = String(buffer: received)
            guard head.contains("\r\n\r\n") else { return }
            received.clear()
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: upstream.response(to: head))), promise: nil)
            context.close(promise: nil)
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            context.close(promise: nil)
        }
    }
}
