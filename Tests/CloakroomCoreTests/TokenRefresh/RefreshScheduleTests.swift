import CloakroomCore
import TestSupport
import Testing

@Suite("The schedule of a token refresh")
struct RefreshScheduleTests {
    private let start = WallTime(seconds: 1_000)

    private func times(life: Duration?, spread: UInt64 = 0, refreshToken: String? = "r") -> RefreshSchedule {
        RefreshSchedule(
            TokenSet(
                authorization: Secret("Bearer a"), refreshToken: refreshToken.map { Secret($0) },
                accessTokenExpiresAt: life.map { start + $0 }, obtainedAt: start), spread: spread)
    }

    @Test(
        "starts a fifth of the lifetime before expiry, and at most a minute",
        arguments: [(50, 10_000), (100, 20_000), (300, 60_000), (3_600, 60_000)])
    func window(_ seconds: Int, _ milliseconds: Int) {
        let life = Duration.seconds(seconds)
        let times = times(life: life)
        expect(times.refreshAfter, equals: start + life - .milliseconds(milliseconds))
        expect(times.refreshRequiredAt, equals: start + life - .milliseconds(milliseconds / 8))
    }

    @Test("is delayed by up to a fifth of the window, and requests do not wait earlier")
    func spread() {
        let without = times(life: .seconds(3_600))
        let with = times(life: .seconds(3_600), spread: 0xff)
        expect(without.refreshAfter - with.refreshAfter, equals: .milliseconds(11_953))
        expect(with.refreshRequiredAt, equals: without.refreshRequiredAt)
        expect(times(life: .seconds(3_600), spread: 0xab00), equals: without)
    }

    @Test("is empty without a refresh token or if the expiry of the access token is unknown")
    func never() {
        for times in [times(life: .seconds(10), refreshToken: nil), times(life: nil)] {
            expect(times.refreshAfter, equals: WallTime(milliseconds: .max))
            expect(times.urgency(at: WallTime(seconds: 4_000_000_000)), equals: .none)
        }
    }

    @Test(
        "Rule 37: never starts within 30 seconds after the tokens were issued, however short their lifetime",
        arguments: [-3_600, -1, 0, 1, 10, 29, 30, 35], [0, 0xff] as [UInt64])
    func minimumInterval(_ seconds: Int, spread: UInt64) {
        let times = times(life: .seconds(seconds), spread: spread)
        expect(times.urgency(at: start), equals: .none)
        expect(times.urgency(at: start + .milliseconds(29_999)), equals: .none)
        expect(times.urgency(at: start + .seconds(36)), equals: .required)
        #expect(times.refreshAfter <= times.refreshRequiredAt)
    }

    @Test("Rule 37: expiry triggers at most one refresh in 30 seconds, for any sequence of lifetimes")
    func refreshRate() {
        var now = start
        var refreshes: [WallTime] = []
        var obtainedAt = start
        while now < start + .seconds(600) {
            let life = Duration.seconds([0, 1, -5, 7, 20][refreshes.count % 5])
            let tokens = TokenSet(
                authorization: Secret("Bearer a"), refreshToken: Secret("r"), accessTokenExpiresAt: obtainedAt + life,
                obtainedAt: obtainedAt)
            if RefreshSchedule(tokens, spread: 0x7f).urgency(at: now) != .none {
                refreshes.append(now)
                obtainedAt = now
            }
            now = now + .milliseconds(100)
        }
        expect(zip(refreshes, refreshes.dropFirst()).allSatisfy { $1 - $0 >= .seconds(30) })
        expect((15...20).contains(refreshes.count))
    }

    @Test("An access token is aged in the last fifth of its lifetime and after it, regardless of the next refresh")
    func aged() {
        func session(life: Duration?) -> Session {
            Session(
                key: SessionKey(1, 2, 3, 4), user: UserProfile(json: [], account: AccountName(email: "a@b.c")),
                tokens: TokenSet(
                    authorization: Secret("Bearer a"), refreshToken: Secret("r"),
                    accessTokenExpiresAt: life.map { start + $0 }, obtainedAt: start),
                createdAt: start.sessionTime, expiresAt: start.sessionTime + .seconds(9_999),
                lastUsedAt: start.sessionTime)
        }
        let short = session(life: .seconds(10))
        expect(!short.hasAgedAccessToken(at: start + .milliseconds(7_999)))
        expect(short.hasAgedAccessToken(at: start + .milliseconds(8_000)))
        expect(short.hasAgedAccessToken(at: start + .seconds(60)))
        expect(!session(life: nil).hasAgedAccessToken(at: start + .seconds(9_999)))
    }

    @Test("reports the urgency")
    func need() {
        let times = times(life: .seconds(100))
        expect(times.urgency(at: start), equals: .none)
        expect(times.urgency(at: start + .milliseconds(79_999)), equals: .none)
        expect(times.urgency(at: start + .seconds(80)), equals: .background)
        expect(times.urgency(at: start + .milliseconds(97_499)), equals: .background)
        expect(times.urgency(at: start + .milliseconds(97_500)), equals: .required)
        expect(times.urgency(at: start + .seconds(200)), equals: .required)
    }

    @Test("handles lifetimes and clocks at the limits of their types")
    func limits() {
        let tokens = TokenSet(
            authorization: Secret("Bearer a"), refreshToken: Secret("r"),
            accessTokenExpiresAt: WallTime(milliseconds: .max),
            obtainedAt: WallTime(milliseconds: .min))
        let times = RefreshSchedule(tokens, spread: .max)
        #expect(times.refreshAfter <= times.refreshRequiredAt)
        expect(times.urgency(at: start), equals: .none)
    }
}
