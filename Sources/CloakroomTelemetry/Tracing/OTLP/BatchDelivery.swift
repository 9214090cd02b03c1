import CloakroomCore
import Logging
import Tracing

/// Sends one batch to the collector with the retries that the back-off allows.
struct SpanBatchSender: Sendable {
    let connection: OTLPHTTPClient
    let backOff: ExportRetryPolicy
    /// Closing the queue ends a pause.
    let queue: SpanQueue
    let dropped: CounterHandle
    let log: ExportFailureLog

    /// Sends a batch until it is accepted or abandoned. Spans that are not delivered are counted.
    func deliver(_ body: [UInt8], spans: Int) async {
        var attempt = 0
        while true {
            attempt += 1
            switch await connection.post(body) {
            case .accepted(let rejected):
                if rejected > 0 { drop(min(rejected, spans), reason: "rejected") }
                return
            case .rejected(let reason):
                return drop(spans, reason: reason)
            case .failed(let reason, let retryAfter):
                let pause = backOff.pause(
                    afterAttempt: attempt, retryAfter: retryAfter, jitter: .random(in: 0...1))
                guard let pause, !Task.isCancelled else { return drop(spans, reason: reason) }
                log.failed(reason: reason)
                await sleep(pause)
            }
        }
    }

    /// Shutdown ends the current pause: the next attempt starts immediately, further ones after pauses again.
    private func sleep(_ pause: Duration) async {
        if queue.isClosed {
            try? await Task.sleep(for: pause)
        } else {
            let closing = queue.closing()
            await race(pause) { for await _ in closing {} }
        }
    }

    private func drop(_ spans: Int, reason: String) {
        dropped.increment(by: Int64(spans))
        log.dropped(spans, reason: reason)
    }
}

/// Logs export failures, at most one line per 10 s of each kind.
struct ExportFailureLog: Sendable {
    private let logger: Logger
    private let failures = LogRateLimiter(interval: .seconds(10))
    private let losses = LogRateLimiter(interval: .seconds(10))

    init(logger: Logger) {
        self.logger = logger
    }

    /// An attempt failed and will be retried.
    func failed(reason: String) {
        guard let unlogged = failures.allow(at: now) else { return }
        logger.warning(
            "span export failed, retrying", metadata: ["reason": "\(reason)", "unlogged": "\(unlogged)"])
    }

    /// Spans were dropped.
    func dropped(_ count: Int, reason: String) {
        guard let unlogged = losses.allow(at: now) else { return }
        logger.warning(
            "spans were dropped",
            metadata: ["reason": "\(reason)", "count": "\(count)", "unlogged": "\(unlogged)"])
    }

    private var now: Timestamp {
        Timestamp(milliseconds: Int64(clamping: DefaultTracerClock.now.millisecondsSinceEpoch))
    }
}
