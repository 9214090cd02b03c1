import NIOCore
import Tracing

/// The one place where an exchange leaves its event loop: a task does what takes time, and the exchange goes on where it
/// came from. How long the work may take is the work's own concern; it always ends.
enum OffLoop {
    /// - Parameters:
    ///   - work: Runs in a task of its own, below the exchange's span if it is sampled.
    ///   - resume: Is called on the exchange's event loop with what came of it.
    static func run<Result: Sendable>(
        _ exchange: Exchange, on eventLoop: any EventLoop, work: @escaping @Sendable () async -> Result,
        resume: @escaping @Sendable (Exchange, Result) -> Void
    ) {
        // What the work needs must not be given up before it is done, not even where the client is.
        let snapshot = exchange.snapshot
        snapshot.retain()
        let bound = NIOLoopBound((exchange: exchange, snapshot: snapshot), eventLoop: eventLoop)
        let span = exchange.trace.server?.context
        Task {
            let result =
                if let span { await ServiceContext.withValue(span) { await work() } } else { await work() }
            eventLoop.execute {
                resume(bound.value.exchange, result)
                bound.value.snapshot.release()
            }
        }
    }
}
