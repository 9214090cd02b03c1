import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("The marks of logouts")
struct LogoutMarksTests {
    private let marks = LogoutMarks(hashes: AccountHasher(KeyedHash(key0: 1, key1: 2)))

    private func logout(_ target: LogoutTarget, at second: Int64) -> LogoutToken {
        LogoutToken(
            session: target.session, subject: target.subject, issuer: LoginFixture.issuer, id: "jti",
            issuedAt: WallTime(seconds: second),
            replayableUntil: WallTime(seconds: second + 120))
    }

    private func stated(subject: String = "jo", sid: String? = nil, issuer: String = LoginFixture.issuer)
        -> SessionProvenance
    {
        SessionProvenance(
            identity: "company", issuer: issuer, subject: subject, providerSession: sid, nonceHash: [], claims: [])
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
                of: token, receivedAt: WallTime(milliseconds: 1_800_000_000_000 + received), skew: .seconds(skew))
            expect(time, equals: WallTime(milliseconds: 1_800_000_000_000 + end))
        }
    }

    @Test("A logout sets a mark for its session or subject, and one for the sessions of its subject without a name")
    func keys() {
        let both = marks.keys(of: logout(.session(id: "s", subject: "jo"), at: 1))
        let session = marks.keys(of: logout(.session(id: "s", subject: nil), at: 1))
        let subject = marks.keys(of: logout(.subject("jo"), at: 1))
        expect(session.count == 1 && subject.count == 1)
        expect(Set(marks.keys(ending: stated(sid: "s"))), equals: Set(session + subject))
        expect(both.count == 2 && both[0] == session[0])
        expect(Set(marks.keys(ending: stated())), equals: Set(subject + [both[1]]))
        expect(marks.keys(ending: stated(subject: "al", sid: "s")).contains(session[0]))
    }

    @Test("Other subjects, sessions and issuers have other marks")
    func others() {
        let set =
            marks.keys(of: logout(.subject("jo"), at: 1))
            + marks.keys(of: logout(.session(id: "s", subject: nil), at: 1))
        for provenance in [
            stated(subject: "jO", sid: "S"), stated(sid: "s", issuer: "https://id.example.co"),
            stated(subject: "s", sid: "jo"),
        ] {
            expect(Set(set).isDisjoint(with: marks.keys(ending: provenance)))
        }
    }

    @Test("A mark has a key for each secret, so that replicas find it while secrets are rotated")
    func rotation() {
        let both = LogoutMarks(
            hashes: AccountHasher(KeyedHash(key0: 9, key1: 9), older: [KeyedHash(key0: 1, key1: 2)]))
        let set = both.keys(of: logout(.session(id: "s", subject: nil), at: 0))
        expect(set.count, equals: 2)
        expect(!Set(set).isDisjoint(with: marks.keys(ending: stated(sid: "s"))))
    }
}
