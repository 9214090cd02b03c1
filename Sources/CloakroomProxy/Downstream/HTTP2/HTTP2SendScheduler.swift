import NIOHTTP2

/// A stream as ``HTTP2SendScheduler`` needs it.
protocol HTTP2ScheduledStream: AnyObject {
    /// Changed only by the scheduler.
    var scheduling: HTTP2StreamScheduling { get set }
    /// Whether there is anything to send.
    var hasOutput: Bool { get }
    /// Whether body data is to be sent.
    var hasBody: Bool { get }
    /// Whether sending is blocked by the stream's window.
    var isBlocked: Bool { get }
}

/// The scheduler's marks on a stream, which make its lookups constant in time.
struct HTTP2StreamScheduling {
    /// Whether the stream is in the send queue.
    fileprivate var isQueued = false
    /// Whether body was passed on since the upstream was last flushed.
    fileprivate var needsUpstreamFlush = false
}

/// Schedules the streams of an HTTP/2 connection: which may send, and how much (RFC 9113 §5.2).
///
/// Pure value, no I/O. Streams send in rounds, round robin: ``beginRound(budget:)``, then ``next(isWritable:)`` and
/// ``wrote(_:on:)`` until there is no next stream, then ``endRound()``. Streams that are queued meanwhile wait for the
/// next round.
struct HTTP2SendScheduler<Stream: HTTP2ScheduledStream> {
    /// A stream and the maximum number of body bytes that it may send.
    struct Turn {
        let stream: Stream
        let limit: Int
    }

    /// Maximum number of bytes that a stream sends per turn.
    let quantum: Int

    /// Remaining send window of the connection. Negative values cannot occur: only streams' windows can be reduced.
    private(set) var connectionWindow = 65_535
    /// Number of body bytes passed to swift-nio-http2.
    private var writtenBytes = 0
    /// Streams with data to send, in round-robin order.
    private var queue: [Stream] = []
    /// Streams of the current round, those with a further turn again at the end.
    private var turns: [Stream] = []
    private var nextTurn = 0
    /// Streams that could not send in the current round.
    private var blocked: [Stream] = []
    private var budget = 0
    private var isFlushDue = false
    private var streamsToFlush: [Stream] = []
    private var deferredResets: [HTTP2StreamID] = []

    init(quantum: Int) {
        self.quantum = quantum
    }

    // MARK: - Queue

    /// Queues a stream if it has data to send.
    mutating func enqueue(_ stream: Stream) {
        guard !stream.scheduling.isQueued, stream.hasOutput else { return }
        stream.scheduling.isQueued = true
        queue.append(stream)
    }

    /// Requests a round.
    /// - Returns: Whether it has to be scheduled, because no other is due.
    mutating func requestFlush() -> Bool {
        defer { isFlushDue = true }
        return !isFlushDue
    }

    /// - Parameter budget: Approximate number of bytes that may be sent in this round.
    mutating func beginRound(budget: Int) {
        assert(turns.isEmpty && blocked.isEmpty, "the previous round has not ended")
        isFlushDue = false
        self.budget = budget
        nextTurn = 0
        swap(&queue, &turns)
    }

    /// The next stream of the round.
    /// - Parameter isWritable: Whether the connection accepts more data.
    mutating func next(isWritable: @autoclosure () -> Bool) -> Turn? {
        while nextTurn < turns.count {
            let stream = turns[nextTurn]
            nextTurn += 1
            stream.scheduling.isQueued = false
            guard stream.hasOutput else { continue }
            // An empty END_STREAM frame needs no window.
            guard isWritable(), budget > 0, connectionWindow > 0 || !stream.hasBody else {
                blocked.append(stream)
                continue
            }
            return Turn(stream: stream, limit: min(quantum, connectionWindow))
        }
        return nil
    }

    /// A stream has used its turn.
    /// - Parameter count: Number of body bytes passed to swift-nio-http2.
    mutating func wrote(_ count: Int, on stream: Stream) {
        assert(count <= max(0, min(quantum, connectionWindow)))
        connectionWindow -= count
        writtenBytes &+= count
        budget -= count
        if stream.hasOutput, !stream.isBlocked { turns.append(stream) }
    }

    /// Queues the streams that could not send.
    /// - Returns: Whether the budget was used up, so that another round is due.
    mutating func endRound() -> Bool {
        assert(nextTurn == turns.count, "the round has further turns")
        turns.removeAll(keepingCapacity: true)
        for stream in blocked { enqueue(stream) }
        blocked.removeAll(keepingCapacity: true)
        return budget <= 0
    }

    /// The connection is closed.
    mutating func removeAll() {
        queue = []
        turns = []
        nextTurn = 0
        blocked = []
        streamsToFlush = []
        deferredResets = []
    }

    // MARK: - Connection window

    /// Whether the given number of bytes is within the connection's window.
    func hasWindow(for count: Int) -> Bool { count <= connectionWindow }

    /// The client has increased the connection's window.
    mutating func windowUpdate(_ increment: Int) { connectionWindow += increment }

    /// Returns the bytes of discarded frames to the window. Frames that swift-nio-http2 buffers are discarded when their
    /// stream is reset (RFC 9113 §5.2.2). Called when it buffers none.
    /// - Parameter sentBytes: Number of body bytes sent.
    mutating func reconcile(sentBytes: Int) {
        connectionWindow += writtenBytes &- sentBytes
        writtenBytes = sentBytes
    }

    // MARK: - Work after a read or a round

    /// Body of the stream's request was passed on: its upstream is flushed after the read.
    mutating func touch(_ stream: Stream) {
        guard !stream.scheduling.needsUpstreamFlush else { return }
        stream.scheduling.needsUpstreamFlush = true
        streamsToFlush.append(stream)
    }

    /// Removes the streams whose upstream has to be flushed.
    mutating func takeStreamsToFlush() -> [Stream] {
        var taken: [Stream] = []
        swap(&taken, &streamsToFlush)
        for stream in taken { stream.scheduling.needsUpstreamFlush = false }
        return taken
    }

    /// The response is complete but the client's side is open: the stream is reset after the response has been sent. An
    /// earlier reset would discard the frames that swift-nio-http2 still buffers.
    mutating func deferReset(_ id: HTTP2StreamID) { deferredResets.append(id) }

    /// Removes the streams that have to be reset. Called when everything is sent.
    mutating func takeDeferredResets() -> [HTTP2StreamID] {
        var taken: [HTTP2StreamID] = []
        swap(&taken, &deferredResets)
        return taken
    }
}
