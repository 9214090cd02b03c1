import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("What sentinels reply")
struct SentinelVotesTests {
    private static let start = ContinuousClock.now
    private static let (old, new) = (HostAndPort(host: "10.0.0.1", port: 1), HostAndPort(host: "10.0.0.2", port: 2))

    /// One letter for each sentinel: `o` and `n` name the old and the new server, `0` knows none, `-` does not respond.
    private func votes(_ letters: String) -> SentinelVotes {
        var votes = SentinelVotes(count: letters.count)
        for (index, letter) in letters.enumerated() {
            switch letter {
            case "o": votes.replied(index, Self.old, askedAt: Self.start)
            case "n": votes.replied(index, Self.new, askedAt: Self.start)
            case "0": votes.replied(index, nil, askedAt: Self.start)
            default: votes.failed(index)
            }
        }
        return votes
    }

    @Test(
        "Rule 76: a server is used if at least half of the sentinels name it, or if none names another one",
        arguments: [
            ("o", .confirmed, "old"), ("n", .contradicted, "new"), ("-", .unconfirmed, "none"),
            ("0", .unconfirmed, "none"),
            ("o-", .confirmed, "old"), ("on", .contradicted, "none"), ("n-", .contradicted, "new"),
            ("ooo", .confirmed, "old"), ("oon", .confirmed, "old"), ("onn", .contradicted, "new"),
            ("on-", .contradicted, "none"), ("o--", .unconfirmed, "old"), ("n--", .contradicted, "new"),
            ("---", .unconfirmed, "none"), ("o0-", .unconfirmed, "old"), ("oonn", .contradicted, "none"),
            ("oo--", .confirmed, "old"), ("on---", .contradicted, "none"), ("ooonn", .confirmed, "old"),
        ] as [(String, SentinelVotes.Verdict, String)])
    func verdicts(_ letters: String, _ expected: SentinelVotes.Verdict, _ choice: String) {
        let votes = votes(letters)
        expect(votes.verdict(on: Self.old, now: Self.start), equals: expected)
        let server = ["old": Self.old, "new": Self.new][choice]
        expect(votes.choice(now: Self.start), equals: server)
        expect(votes.isComplete)
    }

    @Test("Rule 76: a reply counts for 3 s after its question was sent, also if the sentinel fails later")
    func period() {
        var votes = votes("oon")
        votes.failed(0)
        expect(votes.verdict(on: Self.old, now: Self.start + .milliseconds(2_999)), equals: .confirmed)
        votes.replied(2, Self.new, askedAt: Self.start + .seconds(2))
        expect(votes.verdict(on: Self.old, now: Self.start + .seconds(3)), equals: .contradicted)
        expect(votes.choice(now: Self.start + .seconds(3)), equals: Self.new)
        expect(votes.verdict(on: Self.old, now: Self.start + .seconds(6)), equals: .unconfirmed)
        expect(!votes.hasNames(now: Self.start + .seconds(6)))
    }

    @Test("A confirmation is as old as the oldest question of those that are just half")
    func confirmation() {
        var votes = votes("oo---")
        expect(votes.confirmation(of: Self.old, now: Self.start), equals: nil)
        votes.replied(2, Self.old, askedAt: Self.start + .seconds(1))
        expect(votes.confirmation(of: Self.old, now: Self.start + .seconds(1)), equals: Self.start)
        votes.replied(3, Self.old, askedAt: Self.start + .seconds(2))
        votes.replied(4, Self.new, askedAt: Self.start + .seconds(2))
        votes.replied(0, Self.old, askedAt: Self.start + .seconds(2))
        expect(votes.confirmation(of: Self.old, now: Self.start + .seconds(2)), equals: Self.start + .seconds(1))
        expect(votes.confirmation(of: Self.new, now: Self.start + .seconds(2)), equals: nil)
    }

    @Test("The votes are complete when each sentinel has replied or failed")
    func completeness() {
        var votes = SentinelVotes(count: 2)
        votes.replied(0, Self.old, askedAt: Self.start)
        expect(!votes.isComplete)
        votes.failed(1)
        expect(votes.isComplete)
    }
}
