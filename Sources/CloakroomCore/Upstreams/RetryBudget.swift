import Synchronization

/// Limits the retries to an upstream to a fraction of its requests, so that retries cannot multiply an overload.
///
/// Within any period: retries ≤ `budget` · requests + `perSecond` · seconds + cap. The cap is what one second adds, but at
/// least 10 retries. Tokens are counted in thousandths of a retry. One object per upstream, shared by all event loops.
public final class RetryBudget: Sendable {
    /// Thousandths of a retry that one retry costs.
    static let cost: Int64 = 1_000
    /// The minimum of the cap, in thousandths.
    static let minimumCap: Int64 = 10_000

    private let tokens: Atomic<Int64>
    private let deposit: Atomic<Int64>
    private let perSecond: Atomic<Int64>
    /// What requests added since the last tick.
    private let added = Atomic<Int64>(0)

    /// Creates a budget that is full.
    public init(_ configuration: RetryConfiguration) {
        let (deposit, perSecond) = Self.rates(of: configuration)
        self.deposit = Atomic(deposit)
        self.perSecond = Atomic(perSecond)
        tokens = Atomic(deposit == 0 && perSecond == 0 ? 0 : Self.minimumCap)
    }

    /// Applies other rates; the tokens stay.
    public func configure(_ configuration: RetryConfiguration) {
        let (deposit, perSecond) = Self.rates(of: configuration)
        self.deposit.store(deposit, ordering: .relaxed)
        self.perSecond.store(perSecond, ordering: .relaxed)
    }

    private static func rates(of configuration: RetryConfiguration) -> (deposit: Int64, perSecond: Int64) {
        let share = configuration.budget.isFinite ? min(max(configuration.budget, 0), 1) : 0
        return (Int64((share * 1_000).rounded()), Int64(min(max(configuration.perSecond, 0), 1_000)) * 1_000)
    }

    /// Adds the tokens of requests, as event loops report them at their tick.
    /// - Parameter firstAttempts: Requests that were sent for the first time since the last call.
    public func add(firstAttempts: Int) {
        let amount = Int64(clamping: firstAttempts).multipliedReportingOverflow(by: deposit.load(ordering: .relaxed))
        guard amount.partialValue > 0, !amount.overflow else { return }
        tokens.wrappingAdd(amount.partialValue, ordering: .relaxed)
        added.wrappingAdd(amount.partialValue, ordering: .relaxed)
    }

    /// Takes the tokens of one retry.
    /// - Returns: Whether there were enough.
    public func take() -> Bool {
        var old = tokens.load(ordering: .relaxed)
        while old >= Self.cost {
            let (exchanged, original) = tokens.compareExchange(
                expected: old, desired: old - Self.cost, ordering: .relaxed)
            if exchanged { return true }
            old = original
        }
        return false
    }

    /// Whether requests or time add tokens; otherwise no retry is ever charged successfully.
    public var isReplenished: Bool {
        deposit.load(ordering: .relaxed) != 0 || perSecond.load(ordering: .relaxed) != 0
    }

    /// Retries that are available now.
    public var available: Int { Int(max(tokens.load(ordering: .relaxed), 0) / Self.cost) }

    /// Adds the tokens of a period and applies the cap. Called about once a second.
    /// - Parameter elapsed: Nanoseconds since the last call.
    func tick(elapsed: UInt64) {
        let rate = perSecond.load(ordering: .relaxed)
        let milliseconds = Int64(min(elapsed / 1_000_000, 60_000))
        let time = rate * milliseconds / 1_000
        let requests = added.exchange(0, ordering: .relaxed)
        // The deposits of a longer period count as those of a second.
        let perSecond = milliseconds > 1_000 ? requests / milliseconds * 1_000 : requests
        let cap = rate == 0 && deposit.load(ordering: .relaxed) == 0 ? 0 : max(perSecond + rate, Self.minimumCap)
        let new = tokens.wrappingAdd(time, ordering: .relaxed).newValue
        if new > cap { tokens.wrappingSubtract(new - cap, ordering: .relaxed) }
    }
}
