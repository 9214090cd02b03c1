import CloakroomCore
import Synchronization
import TestSupport
import Testing

@testable import CloakroomIdentity

/// Sign-ins whose results are unknown while others begin.
@Suite("Concurrent sign-ins", .timeLimit(.minutes(1)))
struct ConcurrentSignInTests {
    private let now = AccountControllerFixture.now
    private let wrong = Result<SignInResult, TokenClientError>.failure(TokenClientError(.rejected, in: .signIn))

    private let subject = AccountControllerFixture(signInsPerAddress: 0)
    private let undecided: UndecidedAttempts

    init() throws { undecided = try require(subject.endpoints.throttle).undecided }

    private var attempts: Int { subject.journal.all.count { $0.hasPrefix("signIn") } }

    /// Signs in with several accounts, or with one. The upstream responds only after `waiting` attempts wait.
    private func statuses(
        _ count: Int, waiting: Int, hasOneAccount: Bool = false
    ) async -> [Int: Int] {
        let isOpen = Mutex(false)
        subject.client.holdSignIns { [undecided] in
            while !isOpen.withLock({ $0 }) {
                if undecided.waitingCount >= waiting { isOpen.withLock { $0 = true } }
                await Task.yield()
            }
        }
        return await statuses(count, hasOneAccount: hasOneAccount)
    }

    private func statuses(_ count: Int, hasOneAccount: Bool = false) async -> [Int: Int] {
        await withTaskGroup(of: Int.self) { group in
            for number in 0..<count {
                group.addTask {
                    await subject.signIn(email: "jo\(hasOneAccount ? 0 : number)@example.com").status
                }
            }
            return await group.reduce(into: [:]) { $0[$1, default: 0] += 1 }
        }
    }

    @Test("64 right passwords from one address all succeed, with a linear number of store calls")
    func right() async {
        await expect(statuses(64, waiting: 34), equals: [200: 64])
        expect(empty: subject.store.throttleStates)
        // Those that wait behind others are not counted before.
        expect((64...(64 + 34)).contains(subject.store.throttleCalls))
        expect(undecided.keyCount, equals: 0)
    }

    @Test("64 right passwords of one account from one address all succeed")
    func oneAccount() async {
        await expect(statuses(64, waiting: 59, hasOneAccount: true), equals: [200: 64])
        #expect(subject.store.throttleCalls <= 2 * 64)
        expect(undecided.keyCount, equals: 0)
    }

    @Test("64 right passwords from one address all succeed if failures have left one attempt")
    func oneAttemptLeft() async {
        subject.client.response(wrong)
        for number in 0..<29 { await expect(subject.signIn(email: "al\(number)@example.com").status, equals: 401) }
        subject.client.response(.success(AccountControllerFixture.signedIn("1")))
        await expect(statuses(64, waiting: 63), equals: [200: 64])
        #expect(subject.store.throttleCalls <= 29 + 2 * 64)
    }

    @Test("Rule 32: of 64 wrong passwords from one address the upstream checks 30")
    func wrongPasswords() async {
        subject.client.response(wrong)
        await expect(statuses(64, waiting: 34), equals: [401: 30, 429: 34])
        expect(attempts, equals: 30)
        #expect(subject.store.throttleCalls <= 64 + 34)
        expect(undecided.keyCount, equals: 0)
    }

    @Test("Rule 32: of 64 wrong passwords of one account the upstream checks 5")
    func wrongPasswordsOfOne() async {
        subject.client.response(wrong)
        await expect(statuses(64, waiting: 59, hasOneAccount: true), equals: [401: 5, 429: 59])
        expect(attempts, equals: 5)
    }

    @Test("An attempt that failures delay is rejected at once, although others of its address are undecided")
    func failures() async throws {
        subject.client.response(wrong)
        for _ in 0..<5 { await expect(subject.signIn().status, equals: 401) }
        let (end, ender) = AsyncStream<Void>.makeStream()
        subject.client.holdSignIns { for await _ in end {} }
        async let other = subject.signIn(email: "al@example.com").status
        try await eventually("the other one is undecided") { attempts == 6 }
        await expect(subject.signIn().status, equals: 429)
        expect(undecided.waitingCount, equals: 0)
        ender.finish()
        await expect(other, equals: 401)
    }

    @Test("At most 64 attempts of an address wait; further ones are rejected at once, with Retry-After")
    func bound() async throws {
        let isOpen = Mutex(false)
        subject.client.holdSignIns { while !isOpen.withLock({ $0 }) { await Task.yield() } }
        try await withThrowingTaskGroup(of: Int.self) { group in
            for number in 0..<94 {
                group.addTask { await subject.signIn(email: "jo\(number)@example.com").status }
            }
            try await eventually("64 wait") { undecided.waitingCount == UndecidedAttempts.maxWaitingOfAddress }
            for number in 0..<10 {
                let response = await subject.signIn(email: "al\(number)@example.com")
                expect(response.problem, equals: Problem(.throttled, retryAfter: 600))
            }
            expect(undecided.waitingCount, equals: 64)
            isOpen.withLock { $0 = true }
            try await expect(group.reduce(0) { $0 + ($1 == 200 ? 1 : 0) }, equals: 94)
        }
        expect(undecided.keyCount, equals: 0)
    }

    @Test("If the store fails while attempts wait, they are rejected with 503, and none reaches the upstream")
    func storeFailure() async {
        let isOpen = Mutex(false)
        subject.client.holdSignIns { [subject, undecided] in
            while undecided.waitingCount < 34, !isOpen.withLock({ $0 }) { await Task.yield() }
            isOpen.withLock { $0 = true }
            subject.store.fail(.throttle, .unavailable)
        }
        await expect(statuses(64), equals: [200: 30, 503: 34])
        expect(attempts, equals: 30)
        expect(undecided.keyCount, equals: 0)
    }
}
