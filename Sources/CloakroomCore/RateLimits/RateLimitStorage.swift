import Synchronization

/// What the rate limits of the process have in common, for all configurations: the table, and the store that gateways
/// share. The table is made when a configuration has a rate limit for the first time, so that gateways without limits
/// need no memory for it.
///
/// Each gateway decides alone, by its table, and settles shared limits every ``settlementInterval``: it sends what it has
/// permitted, and raises the times of its table to those of the store. So a key may have one burst at each gateway
/// before the first settlement, and waits longer for it afterwards. What could not be settled is forgotten, because it is
/// unknown if the store has counted it. Meanwhile each gateway permits its part of the rate and of the burst.
public final class RateLimitStorage: Sendable {
    /// The time between two settlements.
    public static let settlementInterval = Duration.milliseconds(100)
    /// The maximum number of keys in a settlement. Those with the most requests are preferred, others are forgotten.
    static let maxDebts = 2_048
    /// The maximum number of gateways that are counted.
    static let maxGateways: UInt64 = 64
    private static let second: UInt64 = 1_000_000_000

    /// The hash for ``RateKey``.
    public let hash: KeyedHash
    /// `nil` if no gateways share limits.
    let store: (any RateLimitStore)?
    private let table = Mutex<RateLimitTable?>(nil)
    private let id = UInt64.random(in: .min ... .max)
    /// The number of gateways at the last report.
    private let gateways = Atomic<UInt64>(1)
    private let nextReport = Atomic<UInt64>(0)
    /// The time after which the other gateways are unknown: 2 s after the last settlement.
    private let settledUntil = Atomic<UInt64>(0)
    /// A key whose settlement failed, with the least charge. It is tried with each settlement until it succeeds: otherwise
    /// those of other keys would hide that a part of the store fails.
    private let failed = Mutex<RateDebt?>(nil)

    /// Creates a storage without a table.
    /// - Parameter hash: The same for all gateways at the store.
    public init(store: (any RateLimitStore)? = nil, hash: KeyedHash = RateKey.processHash) {
        self.store = store
        self.hash = hash
    }

    /// The table.
    /// - Parameter keys: ``LimitsConfiguration/rateKeys``, of the first call.
    public func table(keys: Int) -> RateLimitTable {
        table.withLock { table in
            let found = table ?? RateLimitTable(keys: keys)
            table = found
            return found
        }
    }

    /// How many parts of shared limits there are, of which this gateway has one: 1 while they are settled.
    func parts(now: UInt64) -> UInt64 {
        now <= settledUntil.load(ordering: .relaxed) ? 1 : gateways.load(ordering: .relaxed)
    }

    /// Settles shared limits. Not to be called again before it has returned.
    /// - Parameter now: Nanoseconds of the clock that the table is used with.
    /// - Returns: `false` if there was nothing to send.
    public func settle(
        _ limits: [RateBuckets], in table: RateLimitTable, now: @Sendable () -> UInt64
    ) async throws(SessionStoreError) -> Bool {
        guard let store, !limits.isEmpty else { return false }
        let all = limits.flatMap { limit in limit.takeUnsettled().map { (limit: limit, key: $0.key, count: $0.time) } }
        let largest = all.count > Self.maxDebts ? all.sorted { $0.count > $1.count }.prefix(Self.maxDebts) : all[...]
        let isReportDue = now() >= nextReport.load(ordering: .relaxed)
        guard isReportDue || !largest.isEmpty else { return false }
        if isReportDue {
            let count = try await store.countGateways(including: id)
            gateways.store(min(UInt64(max(count, 1)), Self.maxGateways), ordering: .relaxed)
            nextReport.store(now() + Self.second, ordering: .relaxed)
        }
        let count = gateways.load(ordering: .relaxed)
        var debts = largest.map { $0.limit.debt(of: $0.key, $0.count, gateways: count) }
        if let probe = failed.withLock({ $0 }) { debts.append(probe) }
        let begin = now()
        let (ahead, failure) = debts.isEmpty ? ([], nil) : await store.settle(debts)
        for (item, (debt, ahead)) in zip(largest, zip(debts, ahead)) {
            if let ahead { table.raise(item.key, item.limit.pace, to: begin + min(ahead, debt.most)) }
        }
        let unknown = zip(debts, ahead).first { $0.1 == nil }
        failed.withLock { $0 = unknown.map { RateDebt(key: $0.0.key, charge: 1, most: $0.0.most) } }
        if let failure { throw failure }
        settledUntil.store(now() + 2 * Self.second, ordering: .relaxed)
        return true
    }
}
