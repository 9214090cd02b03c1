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

    private func attempts(_ subject: AccountControllerFixture) -> Int {
        subject.journal.all.count { $0.hasPrefix("signIn") }
    }

    private func undecided(_ subject: AccountControllerFixture) throws -> UndecidedAttempts {
        try #require(subject.endpoints.throttle).undecided
    }

    /// Signs in with several accounts, or with one. The upstream responds only after `waiting` attempts wait.
    private func statuses(
        _ count: Int, _ subject: AccountControllerFixture, waiting: Int, hasOneAccount: Bool = false
    ) async throws -> [Int: Int] {
        let undecided = try undecided(subject)
        let isOpen = Mutex(false)
        subject.client.holdSignIns {
            while !isOpen.withLock({ $0 }) {
                if undecided.waitingCount >= waiting { isOpen.withLock { $0 = true } }
                await Task.yield()
            }
        }
        return await withTaskGroup(of: Int.self) { group in
            for number in 0..<count {
                group.addTask {
                    await subject.signIn(email: "jo\(hasOneAccount ? 0 : number)@example.com").status
                }
            }
            return await group.reduce(into: [:]) { $0[$1, default: 0] += 1 }
        }
    }

    @Test("64 right passwords from one address all succeed, with a linear number of store calls")
    func right() async throws {
        let subject = AccountControllerFixture(signInsPerAddress: 0)
        #expect(try await statuses(64, subject, waiting: 34) == [200: 64])
        #expect(subject.store.throttleStates.isEmpty)
        // Those that wait behind others are not counted before.
        #expect((64...(64 + 34)).contains(subject.store.throttleCalls))
        #expect(try undecided(subject).keyCount == 0)
    }

    @Test("64 right passwords of one account from one address all succeed")
    func oneAccount() async throws {
        let subject = AccountControllerFixture(signInsPerAddress: 0)
        #expect(try await statuses(64, subject, waiting: 59, hasOneAccount: true) == [200: 64])
        #expect(subject.store.throttleCalls <= 2 * 64)
        #expect(try undecided(subject).keyCount == 0)
    }

    @Test("64 right passwords from one address all succeed if failures have left one attempt")
    func oneAttemptLeft() async throws {
        let subject = AccountControllerFixture(signInsPerAddress: 0)
        subject.client.response(wrong)
        for number in 0..<29 { #expect(await subject.signIn(email: "al\(number)@example.com").status == 401) }
        subject.client.response(.success(AccountControllerFixture.signedIn("1")))
        #expect(try await statuses(64, subject, waiting: 63) == [200: 64])
        #expect(subject.store.throttleCalls <= 29 + 2 * 64)
    }

    @Test("Rule 32: of 64 wrong passwords from one address the upstream checks 30")
    func wrongPasswords() async throws {
        let subject = AccountControllerFixture(signInsPerAddress: 0)
        subject.client.response(wrong)
        #expect(try await statuses(64, subject, waiting: 34) == [401: 30, 429: 34])
        #expect(attempts(subject) == 30)
        #expect(subject.store.throttleCalls <= 64 + 34)
        #expect(try undecided(subject).keyCount == 0)
    }

    @Test("Rule 32: of 64 wrong passwords of one account the upstream checks 5")
    func wrongPasswordsOfOne() async throws {
        let subject = AccountControllerFixture(signInsPerAddress: 0)
        subject.client.response(wrong)
        #expect(try await statuses(64, subject, waiting: 59, hasOneAccount: true) == [401: 5, 429: 59])
        #expect(attempts(subject) == 5)
    }

    @Test("An attempt that failures delay is rejected at once, although others of its address are undecided")
    func failures() async throws {
        let subject = AccountControllerFixture(signInsPerAddress: 0)
        subject.client.response(wrong)
        for _ in 0..<5 { #expect(await subject.signIn().status == 401) }
        let (end, ender) = AsyncStream<Void>.makeStream()
        subject.client.holdSignIns { for await _ in end {} }
        async let other = subject.signIn(email: "al@example.com").status
        try await eventually("the other one is undecided") { attempts(subject) == 6 }
        #expect(await subject.signIn().status == 429)
        #expect(try undecided(subject).waitingCount == 0)
        ender.finish()
        #expect(await other == 401)
    }

    @Test("At most 64 attempts of an address wait; further ones are rejected at once, with Retry-After")
    func bound() async throws {
        let subject = AccountControllerFixture(signInsPerAddress: 0)
        let isOpen = Mutex(false)
        subject.client.holdSignIns { while !isOpen.withLock({ $0 }) { await Task.yield() } }
        let undecided = try undecided(subject)
        try await withThrowingTaskGroup(of: Int.self) { group in
            for number in 0..<94 {
                group.addTask { await subject.signIn(email: "jo\(number)@example.com").status }
            }
            try await eventually("64 wait") { undecided.waitingCount == UndecidedAttempts.maxWaitingOfAddress }
            for number in 0..<10 {
                let response = await subject.signIn(email: "al\(number)@example.com")
                #expect(response.problem == Problem(.throttled, retryAfter: 600))
            }
            #expect(undecided.waitingCount == 64)
            isOpen.withLock { $0 = true }
            #expect(try await group.reduce(0) { $0 + ($1 == 200 ? 1 : 0) } == 94)
        }
        #expect(undecided.keyCount == 0)
    }

    @Test("If the store fails while attempts wait, they are rejected with 503, and none reaches the upstream")
    func storeFailure() async throws {
        let subject = AccountControllerFixture(signInsPerAddress: 0)
        let undecided = try undecided(subject)
        let isOpen = Mutex(false)
        subject.client.holdSignIns {
            while undecided.waitingCount < 34, !isOpen.withLock({ $0 }) { await Task.yield() }
            isOpen.withLock { $0 = true }
            subject.store.fail(.throttle, .unavailable)
        }
        let statuses = await withTaskGroup(of: Int.self) { group in
            for number in 0..<64 {
                group.addTask { await subject.signIn(email: "jo\(number)@example.com").status }
            }
            return await group.reduce(into: [:]) { $0[$1, default: 0] += 1 }
        }
        #expect(statuses == [200: 30, 503: 34])
        #expect(attempts(subject) == 30)
        #expect(undecided.keyCount == 0)
    }
}
