import NIOCore
import NIOEmbedded

@testable import CloakroomAdmin

/// A connection to the admin listener without a socket; the test sends the responses.
struct EmbeddedConnection {
    static let request = "GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n"

    final class Served {
        fileprivate(set) var requests: [AdminRequest] = []
        fileprivate var responses: [EventLoopPromise<AdminResponse>] = []
        fileprivate(set) var rejections: [RejectionLog.Reason] = []
    }

    /// Takes no output if it is full.
    private final class Socket: ChannelOutboundHandler {
        typealias OutboundIn = ByteBuffer
        var isFull = false

        func flush(context: ChannelHandlerContext) {
            if !isFull { context.flush() }
        }
    }

    let channel = EmbeddedChannel()
    let served = Served()
    let connection: AdminConnection
    private let socket = Socket()

    init(_ limit: AdminConnectionLimit = AdminConnectionLimit(), peer: String = "192.0.2.1") throws {
        connection = AdminConnection(limit, peer: peer) { [served] in
            served.rejections.append($0)
        } respond: { [served, loop = channel.eventLoop] in
            served.requests.append($0)
            served.responses.append(loop.makePromise())
            return served.responses[served.responses.count - 1].futureResult
        }
        try channel.pipeline.syncOperations.addHandlers([socket, connection])
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    }

    /// Whether the connection is open, once its loop has run.
    var isOpen: Bool {
        channel.embeddedEventLoop.run()
        return channel.isActive
    }

    func receive(_ text: String = request) throws { try channel.writeInbound(ByteBuffer(string: text)) }

    func advance(_ time: TimeAmount) { channel.embeddedEventLoop.advanceTime(by: time) }

    /// Responds to the last request.
    /// - Parameter isTaken: Whether the client takes the response.
    func respond(_ size: Int = 2, isTaken: Bool = true) {
        socket.isFull = !isTaken
        served.responses.last?.succeed(
            AdminResponse(status: 200, contentType: "text/plain", body: Array(repeating: 0x61, count: size)))
    }

    /// The client takes what is written.
    func take() {
        socket.isFull = false
        channel.flush()
    }

    /// The text that the client has taken.
    func output() throws -> String {
        var text = ""
        while let bytes = try channel.readOutbound(as: ByteBuffer.self) { text += String(buffer: bytes) }
        return text
    }
}
