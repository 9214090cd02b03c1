import CloakroomCore
import Synchronization
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("Attempts that wait for undecided ones", .timeLimit(.minutes(1)))
struct UndecidedAttemptsTests {
    /// Attempts whose waiting has no end of its own.
    private let attempts = UndecidedAttempts(sleep: { _ in try await Task.sleep(for: .seconds(3_600)) })

    /// The accounts that were resumed, in their order.
    private final class Resumed: Sendable {
        let accounts = Mutex<[UInt64]>([])
    }

    /// The keys of an account from an address.
    private func keys(_ account: UInt64, address: UInt64 = 1) -> [ThrottleKey] {
        [
            ThrottleKey(.accountAndAddress, hash: account << 32 | address, group: address),
            ThrottleKey(.address, hash: address),
        ]
    }

    private func delayed(
        _ attempts: UndecidedAttempts, _ account: UInt64, address: UInt64 = 1, by index: Int = 1,
        elapsed: Duration = .zero
    ) async -> UndecidedAttempts.Turn? {
        let keys = keys(account, address: address)
        let turn = await attempts.begin(keys)
        return await attempts.delayed(turn, by: [keys[index]], elapsed: elapsed)
    }

    private func counted(_ attempts: UndecidedAttempts, _ account: UInt64, address: UInt64 = 1) async {
        attempts.counted(await attempts.begin(keys(account, address: address)))
    }

    @Test("are resumed one by one, in their order, by those that did not fail")
    func order() async throws {
        for account in 0..<3 as Range<UInt64> { await counted(attempts, account) }
        let resumed = Resumed()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for account in 10..<15 as Range<UInt64> {
                group.addTask {
                    // Attempts that begin later wait without being counted first.
                    let keys = keys(account)
                    var turn = await attempts.begin(keys)
                    if account == 10, let next = await attempts.delayed(turn, by: [keys[1]], elapsed: .zero) {
                        turn = next
                    }
                    resumed.accounts.withLock { $0.append(account) }
                    attempts.counted(turn)
                }
                try await eventually("it waits") { attempts.waitingCount == Int(account) - 9 }
            }
            // A failure resumes none.
            attempts.decided(keys(0), isReleased: false)
            expect(attempts.waitingCount, equals: 5)
            attempts.decided(keys(1), isReleased: true)
            try await eventually("one is resumed") { resumed.accounts.withLock { $0 } == [10] }
            expect(attempts.waitingCount, equals: 4)
            attempts.decided(keys(10), isReleased: true)
            try await eventually("another one is resumed") { resumed.accounts.withLock { $0 } == [10, 11] }
            // The last ones that are undecided have failed, so all are resumed.
            attempts.decided(keys(11), isReleased: false)
            expect(attempts.waitingCount, equals: 3)
            attempts.decided(keys(2), isReleased: false)
            try await group.waitForAll()
            for account in 12..<15 as Range<UInt64> { attempts.decided(keys(account), isReleased: false) }
        }
        expect(Set(resumed.accounts.withLock { $0 }), equals: [10, 11, 12, 13, 14])
        expect(attempts.waitingCount == 0 && attempts.keyCount == 0)
    }

    @Test("do not miss one that did not fail while they were being counted")
    func race() async throws {
        await counted(attempts, 1)
        await counted(attempts, 2)
        let turn = await attempts.begin(keys(3))
        attempts.decided(keys(1), isReleased: true)
        let next = try await require(attempts.delayed(turn, by: [keys(3)[1]], elapsed: .zero))
        // What was released is used up: now it waits.
        async let another = attempts.delayed(next, by: [keys(3)[1]], elapsed: .zero)
        try await eventually("it waits") { attempts.waitingCount == 1 }
        attempts.decided(keys(2), isReleased: false)
        let last = try await require(another)
        await expect(attempts.delayed(last, by: [keys(3)[1]], elapsed: .zero) == nil)
        expect(attempts.keyCount, equals: 0)
    }

    @Test("are counted again if the only other one did not fail while they were being counted")
    func lastRace() async throws {
        await counted(attempts, 1)
        let turn = await attempts.begin(keys(3))
        attempts.decided(keys(1), isReleased: true)
        let next = try await require(attempts.delayed(turn, by: [keys(3)[1]], elapsed: .zero))
        attempts.counted(next)
        attempts.decided(keys(3), isReleased: true)
        expect(attempts.waitingCount == 0 && attempts.keyCount == 0)
    }

    @Test("pass on what they do not need because another key delays them")
    func otherKey() async throws {
        await counted(attempts, 1)
        await counted(attempts, 2)
        async let first = delayed(attempts, 3)
        try await eventually("one waits") { attempts.waitingCount == 1 }
        async let second = attempts.begin(keys(4))
        try await eventually("two wait") { attempts.waitingCount == 2 }
        attempts.decided(keys(1), isReleased: true)
        let turn = try await require(first)
        expect(attempts.waitingCount, equals: 1)
        await expect(attempts.delayed(turn, by: [keys(3)[0]], elapsed: .zero) == nil)
        attempts.counted(await second)
        attempts.decided(keys(2), isReleased: false)
        attempts.decided(keys(4), isReleased: false)
        expect(attempts.keyCount, equals: 0)
    }

    @Test("are counted a last time after five seconds")
    func expiry() async throws {
        let slept = Mutex<[(Duration, CheckedContinuation<Void, Never>)]>([])
        let attempts = UndecidedAttempts(sleep: { duration in
            await withCheckedContinuation { continuation in slept.withLock { $0.append((duration, continuation)) } }
            try Task.checkCancellation()
        })
        await counted(attempts, 1)
        async let delayed = delayed(attempts, 2, elapsed: .seconds(2))
        try await eventually("it waits") { slept.withLock { $0.count } == 1 }
        let (duration, timer) = try require(slept.withLock { $0.first })
        expect(duration, equals: UndecidedAttempts.maxWait - .seconds(2))
        timer.resume()
        let turn = try await require(delayed)
        expect(attempts.waitingCount, equals: 0)
        // It may not wait again, and one that has waited that long does not begin to.
        await expect(attempts.delayed(turn, by: [keys(2)[1]], elapsed: .seconds(5)) == nil)
        let late = await attempts.begin(keys(3))
        await expect(attempts.delayed(late, by: [keys(3)[1]], elapsed: .seconds(5)) == nil)
        attempts.decided(keys(1), isReleased: true)
        expect(attempts.keyCount, equals: 0)
    }

    @Test("are at most 64 of an address and 1,024 of the process")
    func bounds() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for address in 1...17 as ClosedRange<UInt64> {
                await counted(attempts, 0, address: address)
                let before = attempts.waitingCount
                let room = min(64, 1_024 - before)
                for account in 1...70 as ClosedRange<UInt64> {
                    group.addTask {
                        let turn = await attempts.begin(keys(account, address: address))
                        let next = await attempts.delayed(
                            turn, by: [keys(account, address: address)[1]], elapsed: .zero)
                        guard let next else { return }
                        attempts.counted(next)
                        attempts.decided(next.keys, isReleased: false)
                    }
                }
                try await eventually("the address has no more room") { attempts.waitingCount == before + room }
            }
            expect(attempts.waitingCount, equals: UndecidedAttempts.maxWaiting)
            for address in 1...17 as ClosedRange<UInt64> {
                attempts.decided(keys(0, address: address), isReleased: false)
            }
            try await group.waitForAll()
        }
        expect(attempts.waitingCount == 0 && attempts.keyCount == 0)
    }

    @Test("are at most 256 of an IPv6 /48")
    func boundOfNetwork() async throws {
        @Sendable func keys(_ number: UInt64) -> [ThrottleKey] {
            self.keys(number, address: number) + [ThrottleKey(.network, hash: 1_000)]
        }
        attempts.counted(await attempts.begin(keys(0)))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 1...256 as ClosedRange<UInt64> {
                group.addTask {
                    let turn = await attempts.begin(keys(number))
                    let next = await attempts.delayed(turn, by: [keys(number)[2]], elapsed: .zero)
                    guard let next else { return }
                    attempts.counted(next)
                    attempts.decided(next.keys, isReleased: false)
                }
            }
            try await eventually("256 wait") { attempts.waitingCount == 256 }
            let turn = await attempts.begin(keys(257))
            await expect(attempts.delayed(turn, by: [keys(257)[2]], elapsed: .zero) == nil)
            attempts.decided(keys(0), isReleased: false)
            try await group.waitForAll()
        }
        expect(attempts.waitingCount == 0 && attempts.keyCount == 0)
    }

    @Test("wait for none that they do not observe: beyond the maximum number of attempts")
    func tooMany() async {
        let attempts = UndecidedAttempts()
        for number in 0..<UInt64(UndecidedAttempts.maxAttempts) { await counted(attempts, 1, address: number) }
        let keyCount = attempts.keyCount
        let turn = await attempts.begin(keys(1, address: 1))
        expect(empty: turn.keys)
        await expect(attempts.delayed(turn, by: [keys(1)[1]], elapsed: .zero) == nil)
        expect(attempts.keyCount, equals: keyCount)
    }
}
