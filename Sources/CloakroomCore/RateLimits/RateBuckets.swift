/// The buckets of a limit, one for each key.
public final class RateBuckets: Sendable {
    /// The rate and the burst.
    public let pace: RatePace
    private let storage: RateLimitStorage
    /// The number of requests of each key that are not settled; `nil` if the limit is not shared. If there are more than
    /// ``RateLimitStorage/maxDebts`` keys, those with the fewest requests are forgotten.
    private let unsettled: RateLimitTable?

    /// - Parameter factor: How many times the limit.
    public init(_ limit: RateLimit, times factor: UInt64 = 1, storage: RateLimitStorage) {
        pace = RatePace(limit, times: factor)
        self.storage = storage
        unsettled =
            limit.isShared && storage.store != nil ? RateLimitTable(keys: RateLimitStorage.maxDebts) : nil
    }

    /// Whether gateways share them.
    public var areShared: Bool { unsettled != nil }

    /// Charges a request to a key if the limit permits it, as ``RateLimitTable/charge(_:_:now:)``.
    public func charge(_ key: UInt64, in table: RateLimitTable, now: UInt64) -> RateLimitTable.Charge {
        guard let unsettled else { return table.charge(key, pace, now: now) }
        let charge = table.charge(key, pace.divided(by: storage.parts(now: now)), now: now)
        if charge.wait == 0 { _ = unsettled.charge(key, .counting, now: 0) }
        return charge
    }

    /// Takes a charge back. One that is settled already still counts at the other gateways.
    public func refund(_ key: UInt64, in table: RateLimitTable, now: UInt64) {
        guard let unsettled else { return table.refund(key, pace) }
        table.refund(key, pace.divided(by: storage.parts(now: now)))
        unsettled.refund(key, .counting)
    }

    /// Removes and returns the number of requests of each key.
    func takeUnsettled() -> [(key: UInt64, time: UInt64)] { unsettled?.drain() ?? [] }

    /// A key may be ahead by what all gateways, and one that has just ended, permit before they know of each other: a
    /// burst, and the requests of two settlements.
    func debt(of key: UInt64, _ count: UInt64, gateways: UInt64) -> RateDebt {
        let each = pace.burstTime + 2 * RateLimitStorage.settlementInterval.wholeNanoseconds
        let most = Self.product(each, gateways + 1)
        return RateDebt(key: key, charge: min(Self.product(count, pace.cost), most), most: most)
    }

    /// At most 36 years, more than which would overflow the times.
    private static func product(_ one: UInt64, _ other: UInt64) -> UInt64 {
        let (result, isTooLarge) = one.multipliedReportingOverflow(by: other)
        return isTooLarge ? 1 << 60 : min(result, 1 << 60)
    }
}
