public import CloakroomCore
public import Logging
import ServiceLifecycle
import Tracing

/// Sends finished spans to a collector: OTLP over HTTP with protobuf bodies.
///
/// Whoever ends a span never waits: it goes into a bounded queue, or is dropped and counted where that is full. ``run(logger:)``
/// takes batches out, one at a time; while one is sent again and again the queue fills up and no more than that.
public final class OTLPSpanExporter: SpanExporter {
    /// How long ``run(logger:)`` goes on after it was told to stop.
    public static let shutdownTimeout = Duration.seconds(5)

    private let configuration: OTLPConfiguration
    private let resource: OTelResource
    private let dropped: CounterHandle
    private let queue: SpanQueue
    private let backOff: ExportRetryPolicy
    private let shutdownTimeout: Duration

    /// Makes an exporter; nothing is sent before ``run(logger:)``.
    ///
    /// - Parameters:
    ///   - plan: the collector, and the bounds.
    ///   - resource: what goes with every batch.
    ///   - dropped: counts the spans that never arrived.
    public convenience init(_ configuration: OTLPConfiguration, resource: OTelResource, dropped: CounterHandle) {
        self.init(
            configuration, resource: resource, dropped: dropped, backOff: ExportRetryPolicy(),
            shutdownTimeout: Self.shutdownTimeout)
    }

    init(
        _ configuration: OTLPConfiguration, resource: OTelResource, dropped: CounterHandle, backOff: ExportRetryPolicy,
        shutdownTimeout: Duration
    ) {
        self.configuration = configuration
        self.resource = resource
        self.dropped = dropped
        self.backOff = backOff
        self.shutdownTimeout = shutdownTimeout
        queue = SpanQueue(limit: configuration.queueLimit)
    }

    /// How many spans wait for their batch.
    var waitingCount: Int { queue.count }

    /// Puts a span into the queue.
    public func export(_ span: FinishedSpan) {
        if !queue.append(span) { dropped.increment() }
    }

    /// Sends batches until the task is cancelled or a graceful shutdown begins; then what waits, within
    /// ``shutdownTimeout``. What is left is dropped and counted. To be called once.
    public func run(logger: Logger) async {
        let connection: OTLPHTTPClient
        do {
            connection = try OTLPHTTPClient(configuration, version: resource.version)
        } catch {
            // The file is checked before the start; since then it has changed.
            logger.error("spans cannot be sent", metadata: ["reason": "\(error)"])
            closeUnsent()
            // Its end would be that of the process.
            try? await gracefulShutdown()
            return
        }
        let delivery = SpanBatchSender(
            connection: connection, backOff: backOff, queue: queue, dropped: dropped,
            log: ExportFailureLog(logger: logger))
        // In a task that only the flush's bound cancels: a batch that is on its way must arrive.
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
        if lost > 0 { logger.warning("spans were dropped at shutdown", metadata: ["count": "\(lost)"]) }
    }

    private func closeUnsent() {
        queue.close()
        dropped.increment(by: Int64(queue.take(atMost: .max).count))
    }

    private func deliverUntilClosed(_ delivery: SpanBatchSender) async {
        while !Task.isCancelled {
            for await _ in queue.reaches(1) {}
            // The others that come within the interval travel with it.
            let others = queue.reaches(configuration.batchLimit)
            await race(configuration.interval) { for await _ in others {} }
            guard !Task.isCancelled else { return }
            let batch = queue.take(atMost: max(1, configuration.batchLimit))
            // Only a queue that was closed is empty now.
            guard !batch.isEmpty else { return }
            await delivery.deliver(OTLPRequest.body(batch, resource: resource), spans: batch.count)
        }
    }
}

/// Waits for a time to pass or for something to happen, whatever comes first.
func race(_ time: Duration, _ event: @escaping @Sendable () async -> Void) async {
    await withTaskGroup { group in
        group.addTask { await event() }
        group.addTask { try? await Task.sleep(for: time) }
        await group.next()
        group.cancelAll()
    }
}
