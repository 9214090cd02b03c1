import CloakroomHTTP2
import NIOCore

/// Sends what the streams and the connection have to send, in turns.
extension HTTP2DownstreamHandler {
    /// Approximate number of body bytes sent before the event loop continues with other work.
    private static let flushLimit = 262_144
    /// Output that is written before more is encoded, in bytes.
    private static let writeLimit = 65_536

    /// Schedules a flush after all events of this event loop tick, so all streams share one system call.
    func flushLater() {
        guard !isFlushDue else { return }
        isFlushDue = true
        context.flushLater(self)
    }

    /// Sends as much as the windows allow.
    func flushNow() {
        isFlushDue = false
        guard handlerContext != nil, phase < .lingering else { return }
        var budget = Self.flushLimit
        while budget > 0, channel.isWritable, let turn = connection.nextTurn() {
            budget -= turn.count
            stream(turn.slot)?.send(turn.count)
            if connection.output.readableBytes >= Self.writeLimit { writeOut() }
        }
        send()
        if channel.isWritable {
            connection.outputSent()
            if budget <= 0 { flushLater() }
            if !touched.isEmpty { finishRead() }
        }
        closeIfDone()
    }

    /// Counts bytes of responses that wait to be sent.
    func addOutbound(_ count: Int) {
        outboundBytes += count
        context.responseBytes += count
    }

    /// Bytes of responses that each connection may hold in any case.
    static let responseShare = 2 * HTTP2Stream.outboundLimit

    /// Whether the responses that wait to be sent exceed the share of the connection.
    var exceedsResponseShare: Bool { outboundBytes > Self.responseShare }

    /// Bytes of responses that wait to be sent, and of those that wait behind them in streams of upstreams.
    var waitingBytes: Int { streams.reduce(outboundBytes) { $0 + ($1?.exchange?.upstream?.heldBytes ?? 0) } }

    /// Whether a response of this size may be written at once, ahead of those that wait for a turn.
    func canSendNow(_ count: Int, on slot: Int) -> Bool {
        connection.canSend(count, on: slot) && hasRoom
    }

    /// Whether more output is encoded at once.
    var hasRoom: Bool { connection.output.readableBytes < Self.writeLimit && channel.isWritable }

    private func writeOut() {
        var bytes = ByteBuffer()
        swap(&bytes, &connection.output)
        if let handlerContext { client.write(bytes, from: handlerContext) }
    }

    /// Sends the output. Its storage is used again if the channel has sent all of it.
    func send() {
        guard let handlerContext else { return }
        guard connection.output.readableBytes > 0 else { return client.flush(from: handlerContext) }
        var bytes = ByteBuffer()
        swap(&bytes, &connection.output)
        client.writeAndFlush(bytes, from: handlerContext)
        guard connection.output.readableBytes == 0, bytes.capacity <= 2 * Self.writeLimit else { return }
        bytes.clear(minimumCapacity: 0)
        swap(&bytes, &connection.output)
    }
}
