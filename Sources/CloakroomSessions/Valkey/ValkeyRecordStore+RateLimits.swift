import CloakroomCore

/// Shared rate limits. A settlement is one script for each of ``ValkeyKeys/rateSlots`` slots, all sent at once. It is not
/// confirmed by replicas of the server and not repeated: after a failover a key may have its burst again.
extension ValkeyRecordStore: RateLimitStore {
    /// How long a gateway counts after its last report, in milliseconds.
    private static let gatewayLifetime: Int64 = 5_000

    func countGateways(including id: UInt64) async throws(SessionStoreError) -> Int {
        let reply = try await run(
            RateLimitScripts.gateways, [keys.gateways], [.text("\(SessionID(id))"), .integer(Self.gatewayLifetime)])
        guard case .integer(let count) = reply else { throw SessionStoreError(.unavailable, reason: .protocolError) }
        return Int(count)
    }

    func settle(_ debts: [RateDebt]) async -> (ahead: [UInt64?], failure: SessionStoreError?) {
        let groups = Array(Dictionary(grouping: debts.indices) { debts[$0].key >> 32 % ValkeyKeys.rateSlots }.values)
        let calls = groups.map { group in
            ScriptCall(
                keys: group.map { keys.rate(debts[$0].key) },
                // Microseconds, rounded up.
                arguments: group.flatMap { [debts[$0].charge, debts[$0].most] }
                    .map { .integer(Int64(($0 + 999) / 1_000)) })
        }
        var ahead = [UInt64?](repeating: nil, count: debts.count)
        var failure: SessionStoreError?
        for (group, reply) in zip(groups, await run(RateLimitScripts.settle, calls)) {
            do throws(SessionStoreError) {
                let times = try Self.value(reply).elements ?? []
                guard times.count == group.count else { throw SessionStoreError(.unavailable, reason: .protocolError) }
                for (index, time) in zip(group, times) {
                    guard case .integer(let time) = time, time >= 0 else {
                        throw SessionStoreError(.unavailable, reason: .protocolError)
                    }
                    ahead[index] = UInt64(min(time, .max / 1_000)) * 1_000
                }
            } catch {
                failure = error
            }
        }
        return (ahead, failure)
    }
}

/// The scripts of shared rate limits. All times are by the server's clock, and gateways receive durations only, so that
/// no clocks are compared. A failover to a server whose clock is behind makes a key wait no longer than it may be ahead.
enum RateLimitScripts {
    private static let interval = RateLimitStorage.settlementInterval.wholeNanoseconds / 1_000

    /// KEYS: keys of one slot, each a hash with the microsecond up to which its requests are paid for. ARGV: for each the
    /// microseconds to add, and those that it may be ahead at most.
    /// - Returns: The microseconds that each key is ahead.
    ///
    /// The requests were permitted since the last settlement: a key without others was not at rest until now. Otherwise a
    /// client within a limit with a short burst would wait for what it has not used.
    ///
    /// No key is read, only incremented: the server would report each change of a key that was read to every gateway.
    static let settle = ValkeyScript(
        """
        local time = redis.call('TIME')
        local now = time[1] * 1000000 + time[2]
        local ahead = {}
        for number, key in ipairs(KEYS) do
          local charge, most = tonumber(ARGV[2 * number - 1]), tonumber(ARGV[2 * number])
          local left = redis.call('HINCRBY', key, 't', ARGV[2 * number - 1]) - now
          local right = math.min(math.max(left, charge - \(interval), 1), most)
          if right ~= left then redis.call('HSET', key, 't', string.format('%.0f', now + right)) end
          redis.call('PEXPIRE', key, string.format('%.0f', math.ceil(right / 1000)))
          ahead[number] = right
        end
        return ahead
        """)

    /// KEYS: the gateways, ordered by when they are forgotten. ARGV: the id of one, milliseconds to keep it.
    /// - Returns: Their number, at most 64.
    static let gateways = ValkeyScript(
        """
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
        redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[1])
        redis.call('PEXPIRE', KEYS[1], ARGV[2])
        return #redis.call('ZRANGE', KEYS[1], 0, 63)
        """)
}
