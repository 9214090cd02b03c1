/// Selects the exchanges to log if a route logs only a fraction of them.
///
/// The decision depends on the random request id, so no random number is generated and the decision can be reproduced
/// from the id.
struct AccessLogSampling {
    /// The number of logged values, out of 2³², of the last 32 bits of an id, by route.
    private let thresholds: [UInt64]

    /// - Parameter ratios: The fraction per route, 0...1, indexed by ``ExchangeRecord/routeIndex``. Routes without an
    ///   entry and unmatched requests are logged completely.
    init(ratios: [Double]) {
        thresholds = ratios.map { ratio in
            // NaN must not suppress lines.
            let share = ratio.isNaN ? 1 : min(max(ratio, 0), 1)
            return UInt64(share * 0x1_0000_0000)
        }
    }

    /// Whether an exchange is logged. Failures and requests rejected as forged or not allowed are always logged,
    /// because operators search for them. Requests without a session are sampled: they dominate a flood of requests and
    /// occur daily because of expired sessions.
    func shouldLog(_ record: borrowing ExchangeRecord) -> Bool {
        guard thresholds.indices.contains(record.routeIndex) else { return true }
        return record.requestID.low & 0xffff_ffff < thresholds[record.routeIndex] || record.errorType != nil
            || record.status >= 500 || record.decision == .csrfRejected || record.decision == .forbidden
    }
}
