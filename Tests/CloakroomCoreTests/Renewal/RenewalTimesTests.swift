import CloakroomCore
import Testing

@Suite("The times of a renewal")
struct RenewalTimesTests {
    private let start = Timestamp(seconds: 1_000)

    private func times(life: Duration?, spread: UInt64 = 0, refreshToken: String? = "r") -> RenewalTimes {
        RenewalTimes(
            SessionTokens(
                authorization: Secret("Bearer a"), refreshToken: refreshToken.map { Secret($0) },
                accessExpiresAt: life.map { start + $0 }, obtainedAt: start), spread: spread)
    }

    @Test(
        "lie a fifth of the life before its end, and a minute at most",
        arguments: [(10, 2_000), (100, 20_000), (300, 60_000), (3_600, 60_000)])
    func window(_ seconds: Int, _ milliseconds: Int) {
        let life = Duration.seconds(seconds)
        let times = times(life: life)
        #expect(times.dueAt == start + life - .milliseconds(milliseconds))
        #expect(times.neededAt == start + life - .milliseconds(milliseconds / 8))
    }

    @Test("are spread over a fifth of the window more, and requests wait no sooner for that")
    func spread() {
        let without = times(life: .seconds(3_600))
        let with = times(life: .seconds(3_600), spread: 0xff)
        #expect(without.dueAt - with.dueAt == .milliseconds(11_953))
        #expect(with.neededAt == without.neededAt)
        #expect(times(life: .seconds(3_600), spread: 0xab00) == without)
    }

    @Test("never come where there is no refresh token, or nothing is known of the access token's end")
    func never() {
        for times in [times(life: .seconds(10), refreshToken: nil), times(life: nil)] {
            #expect(times.dueAt == Timestamp(milliseconds: .max))
            #expect(times.need(at: Timestamp(seconds: 4_000_000_000)) == .none)
        }
    }

    @Test("have come already for a token without a life", arguments: [0, -1, -3_600])
    func noLife(_ seconds: Int) {
        let times = times(life: .seconds(seconds))
        #expect(times.need(at: start) == .now)
        #expect(times.dueAt <= times.neededAt)
    }

    @Test("say how urgent it is")
    func need() {
        let times = times(life: .seconds(100))
        #expect(times.need(at: start) == .none)
        #expect(times.need(at: start + .milliseconds(79_999)) == .none)
        #expect(times.need(at: start + .seconds(80)) == .soon)
        #expect(times.need(at: start + .milliseconds(97_499)) == .soon)
        #expect(times.need(at: start + .milliseconds(97_500)) == .now)
        #expect(times.need(at: start + .seconds(200)) == .now)
    }

    @Test("bear lives and clocks at the limits of what can be counted")
    func limits() {
        let tokens = SessionTokens(
            authorization: Secret("Bearer a"), refreshToken: Secret("r"),
            accessExpiresAt: Timestamp(milliseconds: .max),
            obtainedAt: Timestamp(milliseconds: .min))
        let times = RenewalTimes(tokens, spread: .max)
        #expect(times.dueAt <= times.neededAt)
        #expect(times.need(at: start) == .none)
    }
}
