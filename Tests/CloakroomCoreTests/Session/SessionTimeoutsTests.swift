import CloakroomCore
import TestSupport
import Testing

@Suite("The timeouts of a session")
struct SessionTimeoutsTests {
    private let timeouts = SessionTimeouts(idle: .seconds(900), absolute: .seconds(3_600))
    private let start = SessionTime(seconds: 1_000_000)

    private func expiry(lastUsed: Int64, now: Int64) -> SessionEndReason? {
        timeouts.expiry(
            expiresAt: timeouts.end(ofSessionMadeAt: start), lastUsedAt: start + .seconds(lastUsed),
            now: start + .seconds(now))
    }

    @Test("expire it exactly when the idle timeout is reached")
    func idle() {
        expect(expiry(lastUsed: 0, now: 899), equals: nil)
        expect(expiry(lastUsed: 0, now: 900), equals: .expiredIdle)
        expect(expiry(lastUsed: 100, now: 999), equals: nil)
    }

    @Test("end it at the absolute timeout, regardless of the last use")
    func absolute() {
        expect(expiry(lastUsed: 3_599, now: 3_599), equals: nil)
        expect(expiry(lastUsed: 3_599, now: 3_600), equals: .expiredAbsolute)
    }

    @Test("report the timeout that elapsed first, regardless of the time of the check")
    func reasonIsTheFirst() {
        expect(expiry(lastUsed: 0, now: 100_000), equals: .expiredIdle)
        expect(expiry(lastUsed: 3_000, now: 100_000), equals: .expiredAbsolute)
        expect(expiry(lastUsed: 2_700, now: 100_000), equals: .expiredAbsolute)
    }

    @Test("do not end it when the clock jumps back")
    func clockJumpsBack() {
        expect(expiry(lastUsed: 0, now: -5_000), equals: nil)
    }

    @Test("fix the end at creation, so a clock that jumps back does not move it")
    func endIsFixed() {
        expect(timeouts.end(ofSessionMadeAt: start), equals: start + .seconds(3_600))
        expect(
            timeouts.deadline(expiresAt: start + .seconds(3_600), lastUsedAt: start + .seconds(3_500)),
            equals: start + .seconds(3_600))
    }

    @Test("end a session without refresh token with its access token, and never later than others")
    func endWithTokens() {
        func tokens(refresh: Bool, accessEnd: Int64?) -> TokenSet {
            TokenSet(
                authorization: Secret("Bearer a"), refreshToken: refresh ? Secret("r") : nil,
                accessTokenExpiresAt: accessEnd.map { start.wallTime + .seconds($0) }, obtainedAt: start.wallTime)
        }
        func end(_ tokens: TokenSet) -> SessionTime { timeouts.end(ofSessionMadeAt: start, tokens: tokens) }
        expect(end(tokens(refresh: false, accessEnd: 60)), equals: start + .seconds(60))
        expect(end(tokens(refresh: false, accessEnd: 10_000)), equals: start + .seconds(3_600))
        expect(end(tokens(refresh: false, accessEnd: nil)), equals: start + .seconds(3_600))
        expect(end(tokens(refresh: true, accessEnd: 60)), equals: start + .seconds(3_600))
    }

    @Test("allow a refresh to bring the end of a session forward, never to postpone it")
    func endOfRefreshed() {
        func tokens(refresh: Bool, accessEnd: Int64) -> TokenSet {
            TokenSet(
                authorization: Secret("Bearer a"), refreshToken: refresh ? Secret("r") : nil,
                accessTokenExpiresAt: start.wallTime + .seconds(accessEnd), obtainedAt: start.wallTime)
        }
        // Created under a configuration with half the lifetime: the longer lifetime applies only to new sessions.
        let session = Session(
            key: SessionKey(1, 2, 3, 4), user: UserProfile(json: [], account: AccountName(email: "jo@example.com")),
            tokens: tokens(refresh: true, accessEnd: 60), createdAt: start, expiresAt: start + .seconds(1_800),
            lastUsedAt: start)
        func end(_ new: TokenSet?) -> SessionTime {
            timeouts.end(of: session, refreshedWith: SessionUpdate(tokens: new))
        }
        expect(end(nil), equals: start + .seconds(1_800))
        expect(end(tokens(refresh: true, accessEnd: 10_000)), equals: start + .seconds(1_800))
        expect(end(tokens(refresh: false, accessEnd: 10_000)), equals: start + .seconds(1_800))
        expect(end(tokens(refresh: false, accessEnd: 120)), equals: start + .seconds(120))
    }

    @Test("follow what the provider permits at a refresh, up to the absolute timeout")
    func endOfProvider() {
        let tokens = TokenSet(authorization: Secret("Bearer a"), refreshToken: Secret("r"), obtainedAt: start.wallTime)
        let session = Session(
            key: SessionKey(1, 2, 3, 4), user: UserProfile(json: [], account: AccountName(email: "jo@example.com")),
            tokens: tokens, createdAt: start, expiresAt: start + .seconds(100), lastUsedAt: start)
        func end(_ seconds: Int64?) -> SessionTime {
            timeouts.end(
                of: session,
                refreshedWith: SessionUpdate(tokens: tokens, endsBy: seconds.map { start.wallTime + .seconds($0) }))
        }
        expect(end(nil), equals: start + .seconds(100))
        expect(end(50), equals: start + .seconds(50))
        expect(end(200), equals: start + .seconds(200))
        expect(end(4_000), equals: start + .seconds(3_600))
    }

    @Test(
        "record at most one use per minute or tenth of the idle timeout, whichever is less",
        arguments: [(900, 60_000), (600, 60_000), (300, 30_000), (1, 100)] as [(Int64, Int64)])
    func granularity(idleSeconds: Int64, milliseconds: Int64) {
        let timeouts = SessionTimeouts(idle: .seconds(idleSeconds), absolute: .seconds(3_600))
        expect(timeouts.touchGranularity, equals: .milliseconds(milliseconds))
        let before = start + .milliseconds(milliseconds - 1)
        expect(!timeouts.isTouchDue(lastUsedAt: start, now: before))
        expect(timeouts.isTouchDue(lastUsedAt: start, now: start + .milliseconds(milliseconds)))
        expect(!timeouts.isTouchDue(lastUsedAt: start, now: start - .seconds(86_400)))
    }

    @Test(
        "of a shared store record at most one use per eighth of the idle timeout, and end no session early",
        arguments: [
            (900, 112_500, 1_000), (30 * 86_400, 324_000_000, 1_000), (8, 1_000, 1_000), (1, 125, 125),
        ] as [(Int64, Int64, Int64)])
    func shared(idleSeconds: Int64, granularity: Int64, interval: Int64) {
        let timeouts = SessionTimeouts(
            idle: .seconds(idleSeconds), absolute: .seconds(86_400 * 365), isShared: true)
        expect(timeouts.touchGranularity, equals: .milliseconds(granularity))
        expect(timeouts.touchWriteInterval, equals: .milliseconds(interval))
        expect(!timeouts.isTouchDue(lastUsedAt: start, now: start + .milliseconds(granularity - 1)))
        expect(timeouts.isTouchDue(lastUsedAt: start, now: start + .milliseconds(granularity)))
        let end = start + .milliseconds(idleSeconds * 1_000 + granularity + interval)
        let far = start + .seconds(86_400 * 365)
        expect(timeouts.expiry(expiresAt: far, lastUsedAt: start, now: end - .milliseconds(1)), equals: nil)
        expect(timeouts.expiry(expiresAt: far, lastUsedAt: start, now: end), equals: .expiredIdle)
    }

    @Test("do not overflow at the ends of time", arguments: [false, true])
    func extremes(isShared: Bool) {
        let timeouts = SessionTimeouts(
            idle: .seconds(Int64.max), absolute: .seconds(Int64.max), isShared: isShared)
        let last = SessionTime(milliseconds: .max)
        let first = SessionTime(milliseconds: .min)
        expect(timeouts.end(ofSessionMadeAt: start).milliseconds, equals: .max)
        expect(timeouts.expiry(expiresAt: last, lastUsedAt: last, now: first), equals: nil)
        expect(!timeouts.isTouchDue(lastUsedAt: last, now: first))
    }

    @Test("report the reason of each end to the client", arguments: SessionEndReason.allCases)
    func reasons(end: SessionEndReason) {
        let reported: [SessionEndReason: UnauthorizedReason] = [
            .signedOut: .revoked, .replaced: .revoked, .expiredIdle: .expiredIdle, .expiredAbsolute: .expiredAbsolute,
            .revoked: .revoked, .refreshRejected: .refreshRejected, .sourceRemoved: .revoked, .unreadable: .noSession,
        ]
        expect(reported[end], equals: end.unauthorizedReason)
    }
}
