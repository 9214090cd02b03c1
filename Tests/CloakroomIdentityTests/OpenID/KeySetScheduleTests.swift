import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

/// Rule 14 of the design of identities.
@Suite("When keys of a provider are fetched")
struct KeySetScheduleTests {
    private static let second: UInt64 = 1_000_000_000
    private static let hour = 3_600 * second
    private static let day = 24 * hour

    /// A schedule that has fetched keys at 0, with a lifetime of an hour.
    private func started() -> KeySetSchedule {
        var schedule = KeySetSchedule(now: 0)
        expect(schedule.timerFired(now: 0), equals: true)
        schedule.fetched(lifetime: .seconds(3_600), now: 0)
        return schedule
    }

    @Test("Keys are fetched at the start, and then at the end of each lifetime")
    func rotationNeedsNoRestart() {
        var schedule = started()
        expect(schedule.nextTimer, equals: Self.hour)
        expect(schedule.timerFired(now: Self.hour - 1), equals: false)
        expect(schedule.timerFired(now: Self.hour), equals: true)
        expect(schedule.nextTimer, equals: nil)
        expect(schedule.timerFired(now: Self.hour), equals: false)
        schedule.fetched(lifetime: .seconds(300), now: Self.hour)
        expect(schedule.nextTimer, equals: Self.hour + 300 * Self.second)
    }

    @Test("An unknown key causes one fetch a second for sign-ins")
    func earlyFetches() {
        var schedule = started()
        expect(schedule.keyMissing(for: .tokenEndpoint, now: 10), equals: .fetch)
        expect(schedule.keyMissing(for: .tokenEndpoint, now: 11), equals: .wait)
        schedule.fetched(lifetime: .seconds(3_600), now: 12)
        let next = 10 + Self.second
        expect(schedule.keyMissing(for: .tokenEndpoint, now: 13), equals: .reject(until: next))
        expect(schedule.keyMissing(for: .tokenEndpoint, now: next - 1), equals: .reject(until: next))
        expect(schedule.keyMissing(for: .tokenEndpoint, now: next), equals: .fetch)
    }

    @Test("A logout token with an unknown key causes one fetch a minute")
    func backChannelFetches() {
        var schedule = started()
        expect(schedule.keyMissing(for: .backChannel, now: 0), equals: .fetch)
        schedule.fetched(lifetime: .seconds(3_600), now: 0)
        let next = 60 * Self.second
        expect(schedule.keyMissing(for: .backChannel, now: next - 1), equals: .reject(until: next))
        expect(schedule.keyMissing(for: .backChannel, now: next), equals: .fetch)
    }

    @Test("Identity rule 14: logout tokens with forged kids do not delay a sign-in after a rotation")
    func forgedKidsDoNotStarveRotation() {
        var schedule = started()
        var fetches = 0
        for now in stride(from: 0, to: Self.hour - Self.second, by: Int(Self.second / 100)) {
            if schedule.keyMissing(for: .backChannel, now: now) == .fetch {
                fetches += 1
                schedule.fetched(lifetime: .seconds(86_400), now: now)
            }
        }
        expect(fetches, equals: 60)
        expect(schedule.keyMissing(for: .tokenEndpoint, now: Self.hour), equals: .fetch)
    }

    @Test("Identity rule 14: a sign-in that waited for another fetch may still cause its own")
    func ownFetchAfterWaiting() {
        var schedule = started()
        expect(schedule.keyMissing(for: .backChannel, now: 0), equals: .fetch)
        expect(schedule.keyMissing(for: .tokenEndpoint, now: 1), equals: .wait)
        schedule.fetched(lifetime: .seconds(3_600), now: 2)
        expect(schedule.keyMissing(for: .tokenEndpoint, now: 3), equals: .fetch)
    }

    @Test("A provider that was unavailable at the start is fetched again with increasing delays of at most 60 s")
    func unavailableAtTheStart() throws {
        var schedule = KeySetSchedule(now: 0)
        var now: UInt64 = 0
        var delays: [UInt64] = []
        for _ in 0..<10 {
            expect(schedule.timerFired(now: now), equals: true)
            expect(schedule.usability(now: now), equals: .none)
            schedule.failed(random: 0, now: now)
            let next = try require(schedule.nextTimer)
            delays.append((next - now) / Self.second)
            now = next
        }
        expect(delays, equals: [1, 2, 4, 8, 16, 32, 60, 60, 60, 60])
        expect(schedule.timerFired(now: now), equals: true)
        schedule.fetched(lifetime: .seconds(3_600), now: now)
        expect(schedule.usability(now: now), equals: .fresh)
    }

    @Test("Identity rule 14: keys remain in use for a day while the provider is unavailable")
    func staleKeys() {
        var schedule = started()
        expect(schedule.usability(now: Self.hour - 1), equals: .fresh)
        expect(schedule.timerFired(now: Self.hour), equals: true)
        schedule.failed(random: .max, now: Self.hour)
        expect(schedule.usability(now: Self.hour), equals: .stale)
        expect(schedule.usability(now: Self.hour + Self.day - 1), equals: .stale)
        expect(schedule.usability(now: Self.hour + Self.day), equals: .none)
    }

    @Test("An unsuccessful early fetch uses its budget and changes no regular fetch")
    func failedEarlyFetch() {
        var schedule = started()
        expect(schedule.keyMissing(for: .tokenEndpoint, now: 0), equals: .fetch)
        schedule.failed(random: 0, now: 1)
        expect(schedule.nextTimer, equals: Self.hour)
        expect(schedule.usability(now: 1), equals: .fresh)
        expect(schedule.keyMissing(for: .tokenEndpoint, now: 2), equals: .reject(until: Self.second))
    }

    @Test("Times near the end of the clock do not overflow")
    func clockLimits() {
        var schedule = KeySetSchedule(now: .max)
        expect(schedule.keyMissing(for: .backChannel, now: .max), equals: .fetch)
        schedule.fetched(lifetime: .seconds(86_400), now: .max)
        expect(schedule.usability(now: .max), equals: .none)
        expect(schedule.keyMissing(for: .tokenEndpoint, now: .max), equals: .fetch)
        schedule.failed(random: .max, now: .max)
        expect(schedule.nextTimer, equals: .max)
    }

    @Test(
        "The lifetime is max-age between 5 minutes and a day, and an hour without it",
        arguments: [
            (nil, 3_600), ("", 3_600), ("public", 3_600), ("max-age=1800", 1_800), ("public, Max-Age=1800", 1_800),
            ("max-age=\"1800\"", 1_800), ("max-age=0", 300), ("max-age=299", 300), ("max-age=86401", 86_400),
            ("max-age=99999999999999999999999", 86_400), ("max-age=9223372036854775807", 86_400),
            ("no-store", 300), ("no-cache, max-age=7200", 300), ("max-age=900, max-age=7200", 900),
            ("max-age=-5", 3_600), ("max-age=", 3_600), ("max-age=1e3", 3_600), ("max-age=\"", 3_600),
            ("s-maxage=600", 3_600), ("max-age=٣٠٠", 3_600), (",,,", 3_600),
        ])
    func lifetime(field: String?, seconds: Int) {
        expect(KeySetSchedule.lifetime(cacheControl: field.map { Array($0.utf8) }), equals: .seconds(seconds))
    }

    @Test("A directive costs linear time, also a text that is slow to normalize")
    func linear() {
        for start in ["", "max-age="] {
            let ratio = LinearTime.ratio(ofMarks: {
                _ = KeySetSchedule.lifetime(cacheControl: Array("\(start)\($0)".utf8))
            })
            #expect(ratio < 4, "\(ratio)")
        }
    }

    @Test("Keys of an earlier configuration are used at once, fetched again at once, and then with the usual delays")
    func continued() throws {
        var schedule = KeySetSchedule(freshUntil: Self.hour, now: Self.second)
        expect(schedule.usability(now: Self.second), equals: .fresh)
        expect(schedule.nextTimer, equals: Self.second)
        expect(schedule.timerFired(now: Self.second), equals: true)
        schedule.failed(random: 0, now: Self.second)
        // No fetch follows at once: the provider is unavailable.
        #expect(try require(schedule.nextTimer) > Self.second)
        expect(schedule.usability(now: 2 * Self.second), equals: .fresh)
        expect(schedule.usability(now: Self.hour), equals: .stale)
    }
}
