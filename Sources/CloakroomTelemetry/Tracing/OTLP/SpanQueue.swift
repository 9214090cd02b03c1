import DequeModule
import Synchronization

/// A bounded FIFO queue of finished spans. One reader removes them in batches.
final class SpanQueue: Sendable {
    private struct State {
        var waiting = Deque<FinishedSpan>()
        var isClosed = false
        /// The waiting reader and its requested count.
        var watch: (count: Int, continuation: AsyncStream<Never>.Continuation)?
    }

    private let limit: Int
    private let state = Mutex(State())

    init(limit: Int) {
        self.limit = max(1, limit)
    }

    var count: Int { state.withLock { $0.waiting.count } }

    var isClosed: Bool { state.withLock { $0.isClosed } }

    /// Adds a span; never blocks.
    /// - Returns: Whether the span was added: there was room and the queue is open.
    func append(_ span: FinishedSpan) -> Bool {
        let (isTaken, reader) = state.withLock { state in
            guard !state.isClosed, state.waiting.count < limit else {
                return (false, AsyncStream<Never>.Continuation?.none)
            }
            state.waiting.append(span)
            guard let watch = state.watch, state.waiting.count >= watch.count else { return (true, nil) }
            state.watch = nil
            return (true, watch.continuation)
        }
        // Resumed once per batch, not per span, and outside of the lock.
        reader?.finish()
        return isTaken
    }

    /// Removes the first spans; fewer, or none, if the queue has fewer.
    func take(atMost count: Int) -> [FinishedSpan] {
        state.withLock { state in
            let batch = Array(state.waiting.prefix(count))
            state.waiting.removeFirst(batch.count)
            return batch
        }
    }

    /// Closes the queue. Queued spans can still be removed.
    func close() {
        let reader = state.withLock { state in
            state.isClosed = true
            defer { state.watch = nil }
            return state.watch?.continuation
        }
        reader?.finish()
    }

    /// Returns once this many spans are queued or the queue is closed, immediately if so. Only the latest waiter is
    /// kept, because there is one reader.
    func reaches(_ count: Int) -> AsyncStream<Never> {
        let (stream, continuation) = AsyncStream.makeStream(of: Never.self)
        let isThere = state.withLock { state in
            if state.isClosed || state.waiting.count >= count { return true }
            state.watch = (count, continuation)
            return false
        }
        if isThere { continuation.finish() }
        return stream
    }

    /// Returns when the queue is closed.
    func closing() -> AsyncStream<Never> { reaches(.max) }
}
