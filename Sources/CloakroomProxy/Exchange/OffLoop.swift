import NIOCore
import Tracing

/// Runs asynchronous work for an exchange off its event loop and returns to that loop. The work limits its own duration
/// and always completes.
enum OffLoop {
    /// - Parameters:
    ///   - work: Runs in its own task, with the exchange's span as parent if it is sampled.
    ///   - resume: Called on the exchange's event loop with the result.
    static func run<Result: Sendable>(
        _ exchange: Exchange, on eventLoop: any EventLoop, work: @escaping @Sendable () async -> Result,
        resume: @escaping @Sendable (Exchange, Result) -> Void
    ) {
        // Retain the snapshot until the work is done, even if the client disconnects.
        let snapshot = exchange.snapshot
        snapshot.retain()
        let bound = NIOLoopBound((exchange: exchange, snapshot: snapshot), eventLoop: eventLoop)
        let span = exchange.telemetry.spanContext
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
