import CloakroomCore
import TestSupport
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
        try await expect(!one.hasMark([], now: now))
        try await expect(!one.hasMark([key] + siblings, now: now))
        try await expect(one.setMark([key], lifetime: hour, now: now))
        try await expect(!one.setMark([key], lifetime: hour, now: now))
        try await expect(!other.setMark([key], lifetime: hour, now: now))
        try await expect(other.hasMark([key], now: now))
        try await expect(other.hasMark(siblings + [key], now: now))
        try await expect(!other.hasMark(siblings, now: now))
        for sibling in siblings { try await expect(other.setMark([sibling], lifetime: hour, now: now)) }
        try await expect(one.hasMark(siblings, now: now))
        try await expect(one.setMark([MarkKey(.usedLogin, hash: 0)], lifetime: .seconds(1), now: now))
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
            expect(result, equals: isSet)
        }
        try await expect(other.latestMark([none, key], now: now), equals: WallTime(milliseconds: 1_800_000_000_001))
        try await expect(other.setMark(second, to: WallTime(milliseconds: -3), lifetime: hour, now: now))
        try await expect(one.latestMark([second], now: now), equals: WallTime(milliseconds: -3))
        try await expect(one.latestMark([second, key], now: now), equals: WallTime(milliseconds: 1_800_000_000_001))
        try await expect(one.latestMark([none], now: now), equals: nil)
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
        expect(wins, equals: 1)
    }
}
