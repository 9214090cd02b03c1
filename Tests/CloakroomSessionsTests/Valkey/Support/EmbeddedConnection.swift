import NIOCore
import NIOEmbedded
import TestSupport
import Testing

@testable import CloakroomSessions

/// A connection on a loop whose clock the test drives.
struct EmbeddedConnection {
    private let channel = EmbeddedChannel()
    let handler: ValkeyConnectionHandler
    private let closed: NIOLoopBoundBox<ValkeyDisconnectReason?>

    /// - Parameter delegate: Gets the events of a connection that is ready.
    init(timeout: TimeAmount = .milliseconds(200), delegate: (any ValkeyLinkDelegate)? = nil) throws {
        let promise = channel.embeddedEventLoop.makePromise(of: ValkeyDisconnectReason.self)
        let closed = NIOLoopBoundBox<ValkeyDisconnectReason?>(nil, eventLoop: channel.embeddedEventLoop)
        promise.futureResult.whenSuccess { closed.value = $0 }
        self.closed = closed
        handler = ValkeyConnectionHandler(timeout: timeout, disconnectCodes: ["READONLY"], closed: promise)
        try channel.pipeline.syncOperations.addHandler(handler)
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        if let delegate { expect(handler.activate(to: delegate)) }
    }

    /// The reason, if the connection has ended.
    var loss: ValkeyDisconnectReason? {
        channel.embeddedEventLoop.run()
        return closed.value
    }

    func advance(_ time: TimeAmount) { channel.embeddedEventLoop.advanceTime(by: time) }

    /// All bytes that were sent since the last call.
    func sent() throws -> String {
        channel.embeddedEventLoop.run()
        var text = ""
        while let buffer = try channel.readOutbound(as: ByteBuffer.self) { text += String(buffer: buffer) }
        return text
    }

    func receive(_ text: String) throws {
        try channel.writeInbound(ByteBuffer(string: text))
    }

    /// Sends commands, and returns their results after a step.
    func replies(_ names: [String], _ step: () throws -> Void) async throws -> [Result<RESPValue, ValkeyCommandError>] {
        var failure: (any Error)?
        let replies = await withCheckedContinuation { continuation in
            handler.send(names.map { ValkeyCommand($0) }, to: PipelinedReplies(count: names.count, continuation))
            do { try step() } catch { failure = error }
            handler.close(.closed)
        }
        if let failure { throw failure }
        return replies
    }
}
