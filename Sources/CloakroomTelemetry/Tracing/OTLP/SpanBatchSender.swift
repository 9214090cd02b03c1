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
                    afterAttempt: attempt, retryAfter: retryAfter, random: .random(in: .min ... .max))
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
            try? await TimeLimit.run(pause) { for await _ in closing {} }
        }
    }

    private func drop(_ spans: Int, reason: String) {
        dropped.increment(by: Int64(spans))
        log.dropped(spans, reason: reason)
    }
}

/// Logs export failures, at most one line per 10 s of each kind.
struct ExportFailureLog: Sendable {
    let logger: Logger
    private let failures = LogRateLimiter()
    private let losses = LogRateLimiter()

    /// An attempt failed and will be retried.
    func failed(reason: String) {
        guard let suppressed = failures.allow(at: now) else { return }
        logger.warning(
            "span export failed, retrying",
            metadata: ["reason": "\(reason)", "suppressed": .stringConvertible(suppressed)])
    }

    /// Spans were dropped.
    func dropped(_ count: Int, reason: String) {
        guard let suppressed = losses.allow(at: now) else { return }
        logger.warning(
            "spans were dropped",
            metadata: [
                "reason": "\(reason)", "count": .stringConvertible(count), "suppressed": .stringConvertible(suppressed),
            ])
    }

    private var now: WallTime {
        WallTime(milliseconds: Int64(clamping: DefaultTracerClock.now.millisecondsSinceEpoch))
    }
}

/// The retry policy for batches.
struct ExportRetryPolicy: Sendable {
    /// The delay before the second attempt; doubled for each further one.
    var first = Duration.seconds(1)
    /// The maximum delay, unless the collector requests more.
    var longest = Duration.seconds(30)
    /// The maximum delay that a collector can request.
    var maxRetryAfter = Duration.seconds(60)
    /// The maximum number of attempts.
    var attempts = 8

    /// The delay after a failed attempt; `nil` if the batch is abandoned.
    ///
    /// - Parameters:
    ///   - attempt: The number of the failed attempt, from 1.
    ///   - retryAfter: The delay requested by the collector.
    ///   - random: Shortens the delay by up to half.
    func pause(afterAttempt attempt: Int, retryAfter: Duration?, random: UInt64) -> Duration? {
        guard attempt < attempts else { return nil }
        let backoff = ExponentialBackoff(initial: first, maximum: longest, jitter: 0.5)
        let pause = backoff.delay(afterFailures: attempt, random: random)
        guard let retryAfter else { return pause }
        return max(pause, min(retryAfter, maxRetryAfter))
    }
}

/// The field `Retry-After` (RFC 9110 §10.2.3).
enum RetryAfter {
    /// Parses the delay, given in seconds or as a date. A past date is zero; an invalid value is `nil`, and the
    /// gateway's own delay applies.
    static func read(_ value: String, now: WallTime) -> Duration? {
        // Characters of a long text may cost more than linear time.
        guard value.utf8.count <= 64 else { return nil }
        let value = value.drop { $0 == " " || $0 == "\t" }
        // Compared as bytes: a digit with a combining mark sorts between two digits.
        if value.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
            guard !value.isEmpty else { return nil }
            // A number that overflows means a long delay.
            return .seconds(UInt32(value) ?? .max)
        }
        return HTTPDate.parse(value).map { max(.zero, $0 - now) }
    }
}
