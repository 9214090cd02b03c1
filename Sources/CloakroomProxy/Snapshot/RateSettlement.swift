import CloakroomCore
import CloakroomTelemetry
import Logging

/// Settles shared rate limits with the other gateways. Requests never wait for it, and no failure of it rejects one.
struct RateSettlement: Sendable {
    let metrics: ClientLimitMetrics
    let time: LoopTime
    let logger: Logger
    private let lines = LogRateLimiter(interval: .seconds(60))

    /// Settles until the task is cancelled.
    /// - Parameter rates: The limits of the current configuration.
    func run(_ rates: () -> RateLimits?) async {
        while !Task.isCancelled {
            let rates = rates()
            let isShared = rates.map { !$0.shared.isEmpty } ?? false
            if let rates, isShared { await settle(rates) }
            // `sleep` throws only on cancellation, which ends the loop. A reload may add a shared limit.
            try? await Task.sleep(for: isShared ? RateLimitStorage.settlementInterval : .seconds(1))
        }
    }

    private func settle(_ rates: RateLimits) async {
        do throws(SessionStoreError) {
            if try await rates.storage.settle(rates.shared, in: rates.table, now: { time.now() }) {
                metrics.settlements[.done]?.increment()
            }
        } catch {
            guard !Task.isCancelled else { return }
            metrics.settlements[.failed]?.increment()
            guard let suppressed = lines.allow(at: time.now()) else { return }
            logger.warning(
                "shared rate limits cannot be settled: each gateway permits its part of them",
                metadata: [
                    "event": "rate_settlement_failed", "reason": "\(error.reason.rawValue)",
                    "suppressed": .stringConvertible(suppressed),
                ])
        }
    }
}
