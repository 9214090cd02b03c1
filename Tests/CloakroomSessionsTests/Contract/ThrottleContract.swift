import CloakroomCore
import Testing

/// The contract of every throttle store.
struct ThrottleContract {
    let now: Timestamp

    private func state(_ count: UInt32) -> ThrottleState {
        ThrottleState(count: count, since: now, notBefore: now + .milliseconds(Int64(count)))
    }

    /// - Parameters: Two interfaces of the same store.
    func check(_ one: any ThrottleStore, _ other: any ThrottleStore) async throws {
        let key = ThrottleKey(.account, hash: .max)
        let sibling = ThrottleKey(.address, hash: .max)
        let hour = Duration.seconds(3_600)
        #expect(try await one.throttleStates([key, sibling], now: now) == [nil, nil])
        #expect(try await one.throttleStates([], now: now).isEmpty)
        #expect(try await !one.replaceThrottleState(key, state(1), with: state(2), lifetime: hour, now: now))
        #expect(try await one.replaceThrottleState(key, nil, with: state(1), lifetime: hour, now: now))
        #expect(try await !other.replaceThrottleState(key, nil, with: state(9), lifetime: hour, now: now))
        #expect(try await other.replaceThrottleState(key, state(1), with: state(2), lifetime: hour, now: now))
        #expect(try await one.throttleStates([sibling, key], now: now) == [nil, state(2)])
        #expect(try await one.replaceThrottleState(key, state(2), with: nil, lifetime: hour, now: now))
        #expect(try await other.throttleStates([key], now: now) == [nil])
        #expect(try await other.replaceThrottleState(key, nil, with: nil, lifetime: hour, now: now))
        #expect(try await one.replaceThrottleState(key, nil, with: state(.max), lifetime: hour, now: now))
        #expect(try await one.throttleStates([key], now: now) == [state(.max)])
    }

    /// Counts a hundred concurrent attempts: none is lost.
    func race(_ one: any ThrottleStore, _ other: any ThrottleStore) async throws {
        let key = ThrottleKey(.accountAndAddress, hash: 3)
        let wins = try await withThrowingTaskGroup(of: Bool.self) { group in
            for index in 0..<100 {
                group.addTask {
                    try await (index % 2 == 0 ? one : other).replaceThrottleState(
                        key, nil, with: state(UInt32(index)), lifetime: .seconds(60), now: now)
                }
            }
            return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(wins == 1)
    }
}
