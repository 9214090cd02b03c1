import Glibc
import NIOCore
import NIOPosix
import Synchronization

/// A server that handles each request with the next act of its script, byte by byte, and records what it receives.
final class ScriptedUpstream: Sendable {
    /// The handling of one request.
    enum Act: Sendable {
        /// Send these bytes and keep the connection.
        case bytes(String)
        /// Send these bytes and close.
        case bytesThenClose(String)
        /// Close without a response.
        case close
        /// Reset the connection.
        case reset
        /// Send no response.
        case silence
    }

    private struct State {
        var script: [Act]
        var requests: [String] = []
        var connectionCount = 0
    }

    private let state: Mutex<State>

    private init(_ script: [Act]) {
        state = Mutex(State(script: script))
    }

    /// The requests so far, heads and bodies as received.
    var requests: [String] { state.withLock { $0.requests } }

    /// The number of accepted connections.
    var connectionCount: Int { state.withLock { $0.connectionCount } }

    fileprivate func accept() { state.withLock { $0.connectionCount += 1 } }

    /// The last act of a script repeats without end.
    fileprivate func receive(_ request: String) -> Act {
        state.withLock { state in
            state.requests.append(request)
            return state.script.count > 1 ? state.script.removeFirst() : state.script.first ?? .close
        }
    }

    /// Listens on a free loopback port while `body` runs.
    static func run<R: Sendable>(
        _ script: [Act], body: (_ port: Int, _ upstream: ScriptedUpstream) async throws -> R
    ) async throws -> R {
        let upstream = ScriptedUpstream(script)
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                upstream.accept()
                return channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(ScriptHandler(upstream))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        do {
            let result = try await body(server.localAddress?.port ?? 0, upstream)
            try await server.close()
            return result
        } catch {
            try await server.close()
            throw error
        }
    }

    /// A complete response.
    static func response(_ status: String, _ body: String) -> Act {
        .bytes("HTTP/1.1 \(status)\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
    }

    /// A loopback port without a listener.
    static func rejectingPort() async throws -> Int {
        try await run([]) { port, _ in port }
    }
}

private final class ScriptHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let upstream: ScriptedUpstream
    private var received = ""

    init(_ upstream: ScriptedUpstream) {
        self.upstream = upstream
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        received += String(buffer: unwrapInboundIn(data))
        guard let request = nextRequest() else { return }
        switch upstream.receive(request) {
        case .bytes(let text): send(text, context)
        case .bytesThenClose(let text):
            send(text, context)
            context.close(promise: nil)
        case .close: context.close(promise: nil)
        case .reset:
            (context.channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
                .assumeIsolated().whenComplete { _ in context.close(promise: nil) }
        case .silence: break
        }
    }

    private func send(_ text: String, _ context: ChannelHandlerContext) {
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: text)), promise: nil)
    }

    /// A complete request: requests here have a length or no body.
    private func nextRequest() -> String? {
        guard let end = received.firstRange(of: "\r\n\r\n") else { return nil }
        let head = received[..<end.lowerBound].lowercased()
        var length = 0
        if let field = head.firstRange(of: "content-length: ") {
            length = Int(head[field.upperBound...].prefix { $0.isNumber }) ?? 0
        }
        let body = received[end.upperBound...]
        guard body.utf8.count >= length else { return nil }
        defer { received = "" }
        return received
    }
}
