import CloakroomCore
import Testing

/// The contract of every store of timed marks.
struct MarkContract {
    let now: SessionTime
    private let hour = Duration.seconds(3_600)

    init(now: SessionTime) {
        self.now = now
    }

    /// - Parameters: Two interfaces of the same store.
    func check(_ one: any MarkStore, _ other: any MarkStore) async throws {
        let key = MarkKey(.usedLogin, hash: .max)
        // The same hash in another scope is another mark.
        let siblings = [MarkKey(.logoutToken, hash: .max), MarkKey(.endedAtProvider, hash: .max)]
        #expect(try await !one.hasMark([], now: now))
        #expect(try await !one.hasMark([key] + siblings, now: now))
        #expect(try await one.setMark([key], lifetime: hour, now: now))
        #expect(try await !one.setMark([key], lifetime: hour, now: now))
        #expect(try await !other.setMark([key], lifetime: hour, now: now))
        #expect(try await other.hasMark([key], now: now))
        #expect(try await other.hasMark(siblings + [key], now: now))
        #expect(try await !other.hasMark(siblings, now: now))
        for sibling in siblings { #expect(try await other.setMark([sibling], lifetime: hour, now: now)) }
        #expect(try await one.hasMark(siblings, now: now))
        #expect(try await one.setMark([MarkKey(.usedLogin, hash: 0)], lifetime: .seconds(1), now: now))
    }

    /// A mark keeps its latest time.
    func raise(_ one: any MarkStore, _ other: any MarkStore) async throws {
        let key = MarkKey(.endedAtProvider, hash: 9)
        let none = MarkKey(.endedAtProvider, hash: 10)
        let second = MarkKey(.endedAtProvider, hash: 11)
        for (time, isSet) in [(5, true), (5, false), (4, false), (1_800_000_000_001, true), (6, false)]
            as [(Int64, Bool)]
        {
            let result = try await one.setMark(
                key, to: WallTime(milliseconds: time), lifetime: hour, now: now)
            #expect(result == isSet)
        }
        #expect(try await other.latestMark([none, key], now: now) == WallTime(milliseconds: 1_800_000_000_001))
        #expect(try await other.setMark(second, to: WallTime(milliseconds: -3), lifetime: hour, now: now))
        #expect(try await one.latestMark([second], now: now) == WallTime(milliseconds: -3))
        #expect(try await one.latestMark([second, key], now: now) == WallTime(milliseconds: 1_800_000_000_001))
        #expect(try await one.latestMark([none], now: now) == nil)
    }

    /// Sets one mark a hundred times concurrently: once with success.
    func race(_ one: any MarkStore, _ other: any MarkStore) async throws {
        let key = MarkKey(.usedLogin, hash: 3)
        let now = now
        let wins = try await withThrowingTaskGroup(of: Bool.self) { group in
            for index in 0..<100 {
                group.addTask {
                    try await (index % 2 == 0 ? one : other).setMark([key], lifetime: .seconds(60), now: now)
                }
            }
            return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(wins == 1)
    }
}
