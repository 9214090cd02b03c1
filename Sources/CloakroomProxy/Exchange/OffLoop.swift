import NIOCore
import Tracing

/// Runs asynchronous work off an event loop and returns to that loop. The work limits its own duration and always
/// completes.
enum OffLoop {
    /// - Parameters:
    ///   - snapshot: Retained until the work is done, even if the client disconnects.
    ///   - span: Parent of the work's spans; `nil` if they are not sampled.
    ///   - work: Runs in its own task.
    ///   - resume: Called on the event loop with the result.
    static func run<Result: Sendable>(
        on eventLoop: any EventLoop, snapshot: LoopSnapshot, span: ServiceContext?,
        work: @escaping @Sendable () async -> Result, resume: @escaping (Result) -> Void
    ) {
        snapshot.retain()
        let bound = NIOLoopBound((snapshot: snapshot, resume: resume), eventLoop: eventLoop)
        Task {
            let result =
                if let span { await ServiceContext.withValue(span) { await work() } } else { await work() }
            eventLoop.execute {
                bound.value.resume(result)
                bound.value.snapshot.release()
            }
        }
    }
}
