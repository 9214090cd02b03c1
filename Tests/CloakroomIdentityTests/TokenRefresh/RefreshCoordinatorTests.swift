import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("The refresh coordinator's record of a session")
struct RefreshCoordinatorTests {
    private let now = Upstreams.now

    private func session(_ number: UInt64) -> Session {
        Session(
            key: SessionKey(number, number, number, number),
            user: UserProfile(json: [], account: AccountName(email: "jo@example.com")),
            tokens: TokenSet(
                authorization: Secret("Bearer a"), refreshToken: Secret("r"), accessTokenExpiresAt: now, obtainedAt: now
            ),
            createdAt: now.sessionTime, expiresAt: now.sessionTime + .seconds(3_600), lastUsedAt: now.sessionTime)
    }

    private func fail(_ number: UInt64, in register: inout RefreshCoordinator, now: WallTime) throws {
        let started = register.begin(session(number), cause: .expired, now: now)
        let id = try require(started)
        _ = register.complete(id, .unavailable(status: 502, retryAfter: 1), isTransient: true, now: now)
        register.finish(id, now: now)
    }

    @Test("is removed after a successful refresh")
    func success() throws {
        var register = RefreshCoordinator(RefreshLimits())
        for number in 0..<5_000 {
            let session = session(UInt64(number))
            let started = register.begin(session, cause: .expired, now: now)
            let id = try require(started)
            _ = register.complete(id, .active(session), isRefreshed: true, now: now)
            register.finish(id, now: now)
        }
        expect(register.count == 0 && register.inFlightCount == 0)
    }

    @Test("expires some time after the last failure")
    func sweep() throws {
        var register = RefreshCoordinator(RefreshLimits())
        for number in 0..<5_000 { try fail(UInt64(number), in: &register, now: now) }
        expect(register.count, equals: 5_000)
        for number in 5_000..<12_000 { try fail(UInt64(number), in: &register, now: now + .seconds(62)) }
        expect(register.count, equals: 7_000)
    }

    @Test("is bounded in number, whatever fails")
    func bound() throws {
        var register = RefreshCoordinator(RefreshLimits(trackedSessions: 100))
        for number in 0..<5_000 { try fail(UInt64(number), in: &register, now: now) }
        expect(register.count, equals: 100)
    }

    @Test("does not confuse a completed refresh with the following one")
    func successor() throws {
        var register = RefreshCoordinator(RefreshLimits())
        let session = session(1)
        let startedFirst = register.begin(session, cause: .expired, now: now)
        let first = try require(startedFirst)
        expect(register.begin(session, cause: .expired, now: now), equals: nil)
        _ = register.complete(first, .active(session), isRefreshed: true, now: now)
        register.finish(first, now: now)
        let startedSecond = register.begin(session, cause: .expired, now: now)
        let second = try require(startedSecond)
        expect(first != second)
        _ = register.complete(first, .ended(.revoked), now: now)
        expect(register.begin(session, cause: .expired, now: now), equals: nil)
        _ = register.complete(second, .active(session), now: now)
        register.finish(second, now: now)
        expect(register.count, equals: 0)
    }
}

@Suite("The back-off after a failed refresh")
struct RefreshBackoffTests {
    private let now = Upstreams.now
    private let failure = Problem(.unreachable)

    @Test("is jittered downwards by at most a quarter", arguments: [0, 1, 128, 255] as [UInt64])
    func jitter(spread: UInt64) throws {
        var coolOff = RefreshBackoff()
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            coolOff.note(failure, spread: spread, now: now)
            let rest = coolOff.until - now
            expect(rest <= .seconds(seconds) && rest >= .milliseconds(seconds * 750))
            expect(spread != 0 || rest == .seconds(seconds))
            expect(coolOff.result(at: now) != nil)
            expect(coolOff.result(at: coolOff.until), equals: nil)
        }
    }

    @Test("reports its length in whole seconds, at least one")
    func retryAfter() {
        var coolOff = RefreshBackoff()
        expect(coolOff.result(at: now), equals: nil)
        for _ in 0..<3 { coolOff.note(failure, spread: 0, now: now) }
        expect(coolOff.result(at: now), equals: Problem(.unreachable, retryAfter: 4))
        expect(coolOff.result(at: now + .milliseconds(2_999)), equals: Problem(.unreachable, retryAfter: 2))
        expect(coolOff.result(at: now + .milliseconds(3_999)), equals: Problem(.unreachable, retryAfter: 1))
        expect(coolOff.result(at: now + .seconds(4)), equals: nil)
    }

    @Test("does not grow with store failures, which have their own retries")
    func store() {
        var coolOff = RefreshBackoff()
        for _ in 0..<5 { coolOff.note(Problem(.storeUnavailable), spread: 0, now: now) }
        expect(coolOff.result(at: now), equals: Problem(.storeUnavailable, retryAfter: 1))
        expect(coolOff.until, equals: now + .seconds(1))
    }

    @Test("is over if the clock jumps back")
    func clock() {
        var coolOff = RefreshBackoff()
        coolOff.note(failure, spread: 0, now: now)
        expect(coolOff.result(at: now - .seconds(3_600)), equals: nil)
    }
}
