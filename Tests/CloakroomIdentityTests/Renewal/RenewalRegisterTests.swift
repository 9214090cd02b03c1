import CloakroomCore
import Testing

@testable import CloakroomIdentity

@Suite("What is remembered of renewals")
struct RenewalRegisterTests {
    private let now = Upstreams.now

    private func session(_ number: UInt64) -> Session {
        Session(
            key: SessionKey(number, number, number, number),
            user: UserProfile(json: [], account: AccountName(email: "jo@example.com")),
            tokens: SessionTokens(
                authorization: Secret("Bearer a"), refreshToken: Secret("r"), accessExpiresAt: now, obtainedAt: now),
            createdAt: now, expiresAt: now + .seconds(3_600), lastUsedAt: now)
    }

    private func fail(_ number: UInt64, in register: inout RenewalRegister, now: Timestamp) throws {
        let begun = register.begin(session(number), cause: .expiry, now: now)
        let id = try #require(begun)
        _ = register.land(id, .unavailable(status: 502, retryAfter: 1), isTransient: true, now: now)
        register.leave(id, now: now)
    }

    @Test("is nothing once a renewal has succeeded")
    func success() throws {
        var register = RenewalRegister(RenewalBounds())
        for number in 0..<5_000 {
            let session = session(UInt64(number))
            let begun = register.begin(session, cause: .expiry, now: now)
            let id = try #require(begun)
            _ = register.land(id, .live(session), isRenewed: true, now: now)
            register.leave(id, now: now)
        }
        #expect(register.count == 0 && register.flightCount == 0)
    }

    @Test("is forgotten some time after the last failure")
    func sweep() throws {
        var register = RenewalRegister(RenewalBounds())
        for number in 0..<5_000 { try fail(UInt64(number), in: &register, now: now) }
        #expect(register.count == 5_000)
        for number in 5_000..<12_000 { try fail(UInt64(number), in: &register, now: now + .seconds(62)) }
        #expect(register.count == 7_000)
    }

    @Test("has a bound, whatever fails")
    func bound() throws {
        var register = RenewalRegister(RenewalBounds(remembered: 100))
        for number in 0..<5_000 { try fail(UInt64(number), in: &register, now: now) }
        #expect(register.count == 100)
    }

    @Test("does not mix up a flight that has landed with the one after it")
    func successor() throws {
        var register = RenewalRegister(RenewalBounds())
        let session = session(1)
        let begunFirst = register.begin(session, cause: .expiry, now: now)
        let first = try #require(begunFirst)
        #expect(register.begin(session, cause: .expiry, now: now) == nil)
        _ = register.land(first, .live(session), isRenewed: true, now: now)
        register.leave(first, now: now)
        let begunSecond = register.begin(session, cause: .expiry, now: now)
        let second = try #require(begunSecond)
        #expect(first != second)
        _ = register.land(first, .ended(.revoked), now: now)
        #expect(register.begin(session, cause: .expiry, now: now) == nil)
        _ = register.land(second, .live(session), now: now)
        register.leave(second, now: now)
        #expect(register.count == 0)
    }
}

@Suite("The rest after a failed renewal")
struct CoolOffTests {
    private let now = Upstreams.now
    private let failure = RenewalOutcome.unavailable(status: 502, retryAfter: 1)

    @Test("is jittered by a quarter at most, downwards", arguments: [0, 1, 128, 255] as [UInt64])
    func jitter(spread: UInt64) throws {
        var coolOff = CoolOff()
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            coolOff.note(failure, spread: spread, now: now)
            let rest = coolOff.until - now
            #expect(rest <= .seconds(seconds) && rest >= .milliseconds(seconds * 750))
            #expect(spread != 0 || rest == .seconds(seconds))
            #expect(coolOff.answer(at: now) != nil)
            #expect(coolOff.answer(at: coolOff.until) == nil)
        }
    }

    @Test("says how long it lasts, in whole seconds, one at least")
    func retryAfter() {
        var coolOff = CoolOff()
        #expect(coolOff.answer(at: now) == nil)
        for _ in 0..<3 { coolOff.note(failure, spread: 0, now: now) }
        #expect(coolOff.answer(at: now)?.unavailable == [502, 4])
        #expect(coolOff.answer(at: now + .milliseconds(2_999))?.unavailable == [502, 2])
        #expect(coolOff.answer(at: now + .milliseconds(3_999))?.unavailable == [502, 1])
        #expect(coolOff.answer(at: now + .seconds(4)) == nil)
    }

    @Test("does not grow by failures of the store, which looks after itself")
    func store() {
        var coolOff = CoolOff()
        for _ in 0..<5 { coolOff.note(.storeUnavailable(retryAfter: 1), spread: 0, now: now) }
        #expect(coolOff.answer(at: now)?.storeRetryAfter == 1)
        #expect(coolOff.until == now + .seconds(1))
    }

    @Test("begins anew after a while without failures")
    func forgotten() {
        var coolOff = CoolOff()
        for _ in 0..<6 { coolOff.note(failure, spread: 0, now: now) }
        coolOff.note(failure, spread: 0, now: now + .seconds(60))
        #expect(coolOff.failures == 1)
    }

    @Test("is over when the clock jumps back")
    func clock() {
        var coolOff = CoolOff()
        coolOff.note(failure, spread: 0, now: now)
        #expect(coolOff.answer(at: now - .seconds(3_600)) == nil)
    }
}
