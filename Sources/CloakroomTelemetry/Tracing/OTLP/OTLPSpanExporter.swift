import CloakroomCore
public import Logging
import ServiceLifecycle
import Tracing

/// Sends finished spans to a collector: OTLP over HTTP with protobuf bodies.
///
/// Ending a span never blocks: the span is added to a bounded queue, or dropped and counted if the queue is full.
/// ``run(logger:)`` removes batches, one at a time. While a batch is retried, memory is bounded by the queue.
///
/// Folder `OTLP/`: queues spans, encodes them, and sends them to a collector with retries.
public final class OTLPSpanExporter: SpanExporter {
    /// The maximum time that ``run(logger:)`` continues after shutdown begins.
    public static let shutdownTimeout = Duration.seconds(5)

    private let configuration: OTLPConfiguration
    private let resource: OTelResource
    private let dropped: CounterHandle
    private let queue: SpanQueue
    private let backOff: ExportRetryPolicy
    private let shutdownTimeout: Duration

    /// Creates an exporter; spans are sent only by ``run(logger:)``.
    ///
    /// - Parameters:
    ///   - configuration: The collector and the limits.
    ///   - resource: The resource of every batch.
    ///   - dropped: Counts the undelivered spans.
    init(
        _ configuration: OTLPConfiguration, resource: OTelResource, dropped: CounterHandle,
        backOff: ExportRetryPolicy = ExportRetryPolicy(), shutdownTimeout: Duration = OTLPSpanExporter.shutdownTimeout
    ) {
        self.configuration = configuration
        self.resource = resource
        self.dropped = dropped
        self.backOff = backOff
        self.shutdownTimeout = shutdownTimeout
        queue = SpanQueue(limit: configuration.queueLimit)
    }

    /// The number of queued spans.
    var waitingCount: Int { queue.count }

    /// Adds a span to the queue.
    public func export(_ span: FinishedSpan) {
        if !queue.append(span) { dropped.increment() }
    }

    /// Sends batches until the task is cancelled or a graceful shutdown begins, then flushes the queue within
    /// ``shutdownTimeout``. Remaining spans are dropped and counted. Call it once.
    public func run(logger: Logger) async {
        let connection: OTLPHTTPClient
        do {
            connection = try OTLPHTTPClient(configuration, version: resource.version)
        } catch {
            // The file was valid at start and has changed since.
            logger.error("span exporter could not be started", metadata: ["reason": "\(error)"])
            closeUnsent()
            // Returning would end the process.
            try? await gracefulShutdown()
            return
        }
        let delivery = SpanBatchSender(
            connection: connection, backOff: backOff, queue: queue, dropped: dropped,
            log: ExportFailureLog(logger: logger))
        // Runs in a task that is cancelled only by the flush timeout, so a batch in flight can complete.
        let work = Task { await deliverUntilClosed(delivery) }
        try? await gracefulShutdown()
        let droppedBefore = dropped.value
        queue.close()
        let bound = Task { [shutdownTimeout] in
            try await Task.sleep(for: shutdownTimeout)
            work.cancel()
        }
        await work.value
        bound.cancel()
        await connection.shutdown()
        closeUnsent()
        let lost = dropped.value - droppedBefore
        if lost > 0 { logger.warning("spans were dropped at shutdown", metadata: ["count": .stringConvertible(lost)]) }
    }

    private func closeUnsent() {
        queue.close()
        dropped.increment(by: Int64(queue.take(atMost: .max).count))
    }

    private func deliverUntilClosed(_ delivery: SpanBatchSender) async {
        while !Task.isCancelled {
            for await _ in queue.reaches(1) {}
            // Waits for further spans of the same interval.
            let others = queue.reaches(configuration.batchLimit)
            try? await TimeLimit.run(configuration.interval) { for await _ in others {} }
            guard !Task.isCancelled else { return }
            let batch = queue.take(atMost: max(1, configuration.batchLimit))
            // The queue is empty here only if it is closed.
            guard !batch.isEmpty else { return }
            await delivery.deliver(OTLPRequest.body(batch, resource: resource), spans: batch.count)
        }
    }
}
