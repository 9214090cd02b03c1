import Glibc
import NIOCore
import NIOPosix
import Synchronization

/// A server that handles each request according to its script, with valid or invalid bytes, and records what it receives.
package final class ScriptedServer: Sendable {
    /// The handling of one request.
    package enum Act: Sendable {
        /// Send these bytes and keep the connection.
        case bytes(String)
        /// Send these bytes and close.
        case bytesThenClose(String)
        /// Close without a response.
        case close
        case reset
        /// Send no response.
        case silence
    }

    private struct State {
        var script: [Act]
        /// By method and path.
        var responses: [String: [Act]] = [:]
        var requests: [String] = []
        var connectionCount = 0
    }

    private let state: Mutex<State>

    private init(_ script: [Act]) { state = Mutex(State(script: script)) }

    /// The requests so far, heads and bodies as received.
    package var requests: [String] { state.withLock { $0.requests } }

    /// The number of accepted connections.
    package var connectionCount: Int { state.withLock { $0.connectionCount } }

    /// Sends bytes, and closes the connection, for each request with a method and a path. Other requests follow the
    /// script.
    package func respond(to request: String, with bytes: String) {
        handle(request, [.bytesThenClose(bytes)])
    }

    /// Handles the requests with a method and a path by a script of their own.
    package func handle(_ request: String, _ script: [Act]) {
        state.withLock { $0.responses[request] = script }
    }

    fileprivate func accept() { state.withLock { $0.connectionCount += 1 } }

    /// The last act of a script repeats without end.
    fileprivate func receive(_ request: String) -> Act {
        let line = request.split(separator: " ").prefix(2).joined(separator: " ")
        return state.withLock { state in
            state.requests.append(request)
            if state.responses[line] != nil { return Self.next(&state.responses[line, default: []]) }
            return Self.next(&state.script)
        }
    }

    private static func next(_ script: inout [Act]) -> Act {
        script.count > 1 ? script.removeFirst() : script.first ?? .close
    }

    /// Listens on a free loopback port while `body` runs.
    /// - Parameter script: The handling of the requests in their order; 404 by default.
    package static func run<R: Sendable>(
        _ script: [Act] = [.bytesThenClose(ScriptedServer.json("{}", status: "404 Not Found"))],
        body: (_ port: Int, _ server: ScriptedServer) async throws -> R
    ) async throws -> R {
        let server = ScriptedServer(script)
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                server.accept()
                return channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(ScriptHandler(server))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        return try await stopping {
            try? await listener.close()
        } after: {
            try await body(listener.localAddress?.port ?? 0, server)
        }
    }

    package static func response(_ status: String, _ body: String) -> Act {
        .bytes("HTTP/1.1 \(status)\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
    }

    /// The bytes of a complete response with a JSON body that ends its connection.
    package static func json(_ body: String, status: String = "200 OK") -> String {
        "HTTP/1.1 \(status)\r\nContent-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n"
            + "Connection: close\r\n\r\n\(body)"
    }

    /// A loopback port without a listener, which stays reserved until the process ends.
    package static func rejectingPort() async throws -> Int {
        try await BlackholePort(.rejects).port
    }
}

private final class ScriptHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let server: ScriptedServer
    private var received = ""

    init(_ server: ScriptedServer) { self.server = server }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        received += String(buffer: unwrapInboundIn(data))
        guard let request = nextRequest() else { return }
        switch server.receive(request) {
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

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
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
