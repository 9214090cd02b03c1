/// Where gateways settle what they have permitted of shared limits. Nothing waits for it but the next settlement.
public protocol RateLimitStore: Sendable {
    /// Reports that a gateway runs.
    /// - Parameter id: A random number of the gateway.
    /// - Returns: The number of gateways that have reported in the last 5 s.
    func countGateways(including id: UInt64) async throws(SessionStoreError) -> Int
    /// Adds requests to what their keys have used, by the clock of the store.
    /// - Returns: The nanoseconds up to which the requests of each key are paid for, by all gateways; `nil` and a failure
    ///   for those of a part of the store that has failed, which may have added them.
    func settle(_ debts: [RateDebt]) async -> (ahead: [UInt64?], failure: SessionStoreError?)
}

/// The requests of a key that a gateway has permitted since its last settlement.
public struct RateDebt: Sendable, Equatable {
    /// The key at its limit, a hash.
    public let key: UInt64
    /// Nanoseconds that the requests take at the rate of the limit, at least 1.
    public let charge: UInt64
    /// The nanoseconds up to which a key may be charged in advance.
    public let most: UInt64
}
