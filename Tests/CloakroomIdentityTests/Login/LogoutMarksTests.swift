import CloakroomCore
import Testing

@testable import CloakroomIdentity

@Suite("The marks of logouts")
struct LogoutMarksTests {
    private let marks = LogoutMarks(hashes: AccountHasher(KeyedHash(key0: 1, key1: 2)))

    private func logout(_ target: LogoutToken.Target, at second: Int64) -> LogoutToken {
        LogoutToken(
            target: target, issuer: LoginFixture.issuer, id: "jti", issuedAt: Timestamp(seconds: second),
            replayableUntil: Timestamp(seconds: second + 120))
    }

    private func stated(subject: String = "jo", sid: String? = nil, issuer: String = LoginFixture.issuer)
        -> SessionProvenance
    {
        SessionProvenance(
            identity: "company", issuer: issuer, subject: subject, providerSession: sid, nonceHash: [], claims: [])
    }

    private func set(_ logout: LogoutToken, receivedAt: Timestamp? = nil) -> Set<MarkKey> {
        Set(marks.marks(logout, receivedAt: receivedAt ?? logout.issuedAt, skew: .zero))
    }

    /// - Parameters: Milliseconds.
    private func checked(_ provenance: SessionProvenance, from first: Int64, through last: Int64) -> Set<MarkKey> {
        Set(
            marks.marks(
                ending: provenance, from: Timestamp(milliseconds: first), to: Timestamp(milliseconds: last)))
    }

    @Test("A duration is covered exactly, by few units")
    func cover() {
        var generator = CountingGenerator(state: 5)
        for _ in 0..<2_000 {
            let first = Int64.random(in: 0...5_000_000, using: &generator)
            let last = first + Int64.random(in: 0...3_600_000, using: &generator)
            let parts = LogoutMarks.cover(from: first, through: last)
            #expect(parts.count <= 70)
            var next = first
            for part in parts {
                #expect(part.index * part.unit == next)
                next += part.unit
            }
            #expect(next == last + 1)
        }
        #expect(LogoutMarks.cover(from: 5, through: 4).isEmpty)
        #expect(LogoutMarks.cover(from: -10, through: -5).isEmpty)
    }

    @Test("A logout of a subject is found by exactly the logins during which it took place")
    func subject() {
        var generator = CountingGenerator(state: 6)
        for _ in 0..<500 {
            let time = Int64.random(in: 1_800_000_000_000...1_800_000_900_000, using: &generator)
            let set = set(
                logout(.subject("jo"), at: time / 1_000), receivedAt: Timestamp(milliseconds: time))
            #expect(set.count == 11)
            let first = time + Int64.random(in: -700_000...700_000, using: &generator)
            let last = first + Int64.random(in: 0...700_000, using: &generator)
            let isFound = !set.isDisjoint(with: checked(stated(), from: first, through: last))
            #expect(isFound == (first...last).contains(time))
        }
        let set = set(logout(.subject("jo"), at: 1_800_000_000), receivedAt: Timestamp(milliseconds: 1_800_000_000_400))
        #expect(!set.isDisjoint(with: checked(stated(), from: 1_800_000_000_400, through: 1_800_000_030_000)))
        #expect(set.isDisjoint(with: checked(stated(), from: 1_800_000_000_401, through: 1_800_000_030_000)))
    }

    @Test("The time of a logout is in the second of iat, which is rounded down, and not after the token was received")
    func time() {
        let token = logout(.subject("jo"), at: 1_800_000_000)
        for (received, skew, end) in [
            (400, 0, 400), (999, 0, 999), (1_000, 0, 999), (60_000, 0, 999), (-5_000, 0, -5_000),
            // The provider's clock may be behind by the skew.
            (10_400, 30, 10_400), (60_000, 30, 30_999),
        ] as [(Int64, Int64, Int64)] {
            let time = LogoutMarks.end(
                of: token, receivedAt: Timestamp(milliseconds: 1_800_000_000_000 + received), skew: .seconds(skew))
            #expect(time == Timestamp(milliseconds: 1_800_000_000_000 + end))
        }
    }

    @Test("Other subjects, sessions and issuers have other marks")
    func others() {
        let set = set(logout(.subject("jo"), at: 1_800_000_000))
        for provenance in [
            stated(subject: "jO"), stated(issuer: "https://id.example.co"), stated(subject: "m", sid: "jo"),
        ] {
            #expect(set.isDisjoint(with: checked(provenance, from: 1_799_999_999_000, through: 1_800_000_001_000)))
        }
        let session = self.set(logout(.session(id: "s", subject: "jo"), at: 1_800_000_000))
        #expect(session.count == 1)
        #expect(session.isSubset(of: checked(stated(subject: "al", sid: "s"), from: 0, through: 1)))
        #expect(
            session.isDisjoint(with: checked(stated(sid: "S"), from: 1_799_999_999_000, through: 1_800_000_001_000)))
        #expect(session.isDisjoint(with: checked(stated(), from: 1_799_999_999_000, through: 1_800_000_001_000)))
    }

    @Test("The number of marks is bounded, however long the login and whatever the clocks are")
    func bounded() {
        #expect(checked(stated(sid: "s"), from: 0, through: 1_800_000_000_000).count <= 70)
        #expect(checked(stated(), from: 1_800_000_000_000, through: 0).isEmpty)
    }

    @Test("A mark has a key for each secret, so that replicas find it while secrets are rotated")
    func rotation() {
        let both = LogoutMarks(
            hashes: AccountHasher(KeyedHash(key0: 9, key1: 9), older: [KeyedHash(key0: 1, key1: 2)]))
        let set = Set(
            both.marks(
                logout(.session(id: "s", subject: nil), at: 0), receivedAt: Timestamp(milliseconds: 0), skew: .zero))
        #expect(set.count == 2)
        #expect(!set.isDisjoint(with: checked(stated(sid: "s"), from: 0, through: 1)))
    }
}
