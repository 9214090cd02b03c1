package import CloakroomCore
import Synchronization

/// A store of shared rate limits whose clock advances in steps. It starts far from that of any gateway.
package final class SteppedRateStore: RateLimitStore {
    private struct State {
        var now: UInt64 = 1 << 50
        var times: [UInt64: UInt64] = [:]
        var gateways: [UInt64: UInt64] = [:]
        var isAway = false
        var charged: UInt64 = 0
        var largest = 0
        var reply: UInt64?
        var failing: UInt64?
    }

    private let state = Mutex(State())

    package init() {}

    /// The keys that were ever charged.
    package var keys: Set<UInt64> { state.withLock { Set($0.times.keys) } }
    /// The sum of all charges in nanoseconds.
    package var charged: UInt64 { state.withLock { $0.charged } }
    /// The number of gateways that have reported.
    package var gatewayCount: Int { state.withLock { $0.gateways.count } }
    /// The number of keys of the largest settlement.
    package var largest: Int { state.withLock { $0.largest } }

    package func advance(_ nanoseconds: UInt64) { state.withLock { $0.now += nanoseconds } }

    /// Lets all calls fail.
    package func setAway(_ isAway: Bool) { state.withLock { $0.isAway = isAway } }

    /// Replies this for each key, whatever was charged.
    package func setReply(_ reply: UInt64) { state.withLock { $0.reply = reply } }

    /// Lets settlements of a key fail.
    package func setFailing(_ key: UInt64?) { state.withLock { $0.failing = key } }

    package func countGateways(including id: UInt64) async throws(SessionStoreError) -> Int {
        try state.withLock { state throws(SessionStoreError) in
            if state.isAway { throw SessionStoreError(.unavailable) }
            state.gateways[id] = state.now + 5_000_000_000
            return state.gateways.values.count { $0 > state.now }
        }
    }

    package func settle(_ debts: [RateDebt]) async -> (ahead: [UInt64?], failure: SessionStoreError?) {
        state.withLock { state in
            state.largest = max(state.largest, debts.count)
            let ahead = debts.map { debt -> UInt64? in
                guard !state.isAway, debt.key != state.failing else { return nil }
                state.charged += debt.charge
                let left = Int64((state.times[debt.key] ?? 0) + debt.charge) - Int64(state.now)
                let ahead = min(UInt64(max(left, Int64(debt.charge) - 100_000_000, 1_000)), debt.most)
                state.times[debt.key] = state.now + ahead
                return state.reply ?? ahead
            }
            return (ahead, ahead.contains(nil) ? SessionStoreError(.unavailable) : nil)
        }
    }
}
