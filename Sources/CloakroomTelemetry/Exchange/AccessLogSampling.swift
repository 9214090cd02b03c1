/// Which exchanges the access log tells of, where a route asks for a share of them only.
///
/// The request id decides. It is random, so no number has to be drawn, and whoever knows an id can tell whether its line
/// was written.
struct AccessLogSampling {
    /// For each route, how many of the 2³² values of an id's last 32 bits are written.
    private let thresholds: [UInt64]

    /// - Parameter ratios: For each route a share, 0...1, in the order of ``ExchangeRecord/routeIndex``. Routes that are
    ///   not in it are written whole, and so is what no route matched.
    init(ratios: [Double]) {
        thresholds = ratios.map { ratio in
            // What is no number is no reason to lose lines.
            let share = ratio.isNaN ? 1 : min(max(ratio, 0), 1)
            return UInt64(share * 0x1_0000_0000)
        }
    }

    /// Whether an exchange is written. Failures always are, and so is what was refused as forged or not allowed: those
    /// are the ones that somebody will look for. Requests that lack a session are not among them: they are what a flood
    /// of requests mostly consists of, and expired sessions bring them along every day.
    func shouldLog(_ record: borrowing ExchangeRecord) -> Bool {
        guard thresholds.indices.contains(record.routeIndex) else { return true }
        return record.requestID.low & 0xffff_ffff < thresholds[record.routeIndex] || record.errorType != nil
            || record.status >= 500 || record.decision == .csrfRejected || record.decision == .forbidden
    }
}
