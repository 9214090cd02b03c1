import CloakroomCore
import Logging
import Tracing

/// Brings one batch to the collector, in as many attempts as that takes and the back-off allows.
struct SpanBatchSender: Sendable {
    let connection: OTLPHTTPClient
    let backOff: ExportRetryPolicy
    /// Its closing ends a pause.
    let queue: SpanQueue
    let dropped: CounterHandle
    let log: ExportFailureLog

    /// Sends a batch until it is accepted or given up. Spans that do not arrive are counted.
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

    /// At shutdown there is no time for the pause that is under way: the next attempt comes at once, and those after it
    /// with pauses again.
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

/// Tells that spans do not arrive, one line in ten seconds of each kind at most.
struct ExportFailureLog: Sendable {
    private let logger: Logger
    private let failures = LogRateLimiter(interval: .seconds(10))
    private let losses = LogRateLimiter(interval: .seconds(10))

    init(logger: Logger) {
        self.logger = logger
    }

    /// An attempt came to nothing; there will be another.
    func failed(reason: String) {
        guard let unlogged = failures.allow(at: now) else { return }
        logger.warning(
            "spans cannot be exported at the moment", metadata: ["reason": "\(reason)", "unlogged": "\(unlogged)"])
    }

    /// Spans are lost.
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
