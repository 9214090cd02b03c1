import DequeModule
import Synchronization

/// Finished spans that wait to be exported: a bounded number of them, in the order in which they came. One reader takes
/// them out in batches.
final class SpanQueue: Sendable {
    private struct State {
        var waiting = Deque<FinishedSpan>()
        var isClosed = false
        /// The reader, and for how many it waits.
        var watch: (count: Int, continuation: AsyncStream<Never>.Continuation)?
    }

    private let limit: Int
    private let state = Mutex(State())

    init(limit: Int) {
        self.limit = max(1, limit)
    }

    /// How many wait.
    var count: Int { state.withLock { $0.waiting.count } }

    /// Whether it takes nothing in any more.
    var isClosed: Bool { state.withLock { $0.isClosed } }

    /// Takes one in; never waits for room.
    /// - Returns: Whether there was room, and the queue is open.
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
        // Once for a batch, not for every span, and outside of the lock.
        reader?.finish()
        return isTaken
    }

    /// Takes the first ones out; fewer, or none, if there are not that many.
    func take(atMost count: Int) -> [FinishedSpan] {
        state.withLock { state in
            let batch = Array(state.waiting.prefix(count))
            state.waiting.removeFirst(batch.count)
            return batch
        }
    }

    /// Takes nothing in from here on. What waits stays to be taken out.
    func close() {
        let reader = state.withLock { state in
            state.isClosed = true
            defer { state.watch = nil }
            return state.watch?.continuation
        }
        reader?.finish()
    }

    /// Ends once that many wait, and when the queue is closed; at once if either is so. Only the latest of these is
    /// kept, for there is one reader.
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

    /// Ends when the queue is closed.
    func closing() -> AsyncStream<Never> { reaches(.max) }
}
