import CloakroomCore
import TestSupport
import Testing

#if canImport(Glibc)
    import Glibc
#endif

@Suite("The provenance of a session")
struct SessionProvenanceTests {
    private let start = SessionTime(seconds: 1_000)

    private func provenance(subject: String = "canary-subject") -> SessionProvenance {
        SessionProvenance(
            identity: "company", issuer: "https://id.example.com", subject: subject, providerSession: "canary-sid",
            authenticatedAt: start.wallTime, acr: "canary-acr", nonceHash: [1, 2, 3],
            claims: Array(#"{"a":"canary"}"#.utf8),
            idToken: Secret("canary-token"))
    }

    private func session(_ provenance: SessionProvenance?) -> Session {
        let new = NewSession(
            user: UserProfile(json: [], account: AccountName(email: "jo@example.com")),
            tokens: TokenSet(
                authorization: Secret("Bearer a"), refreshToken: Secret("r"), obtainedAt: start.wallTime),
            provenance: provenance
        )
        return Session(
            new, key: SessionKey(1, 2, 3, 4), timeouts: SessionTimeouts(idle: .seconds(900), absolute: .seconds(3_600)),
            now: start)
    }

    @Test("is kept by a refresh that states none, and replaced as a whole by one that does")
    func refreshed() {
        let session = session(provenance())
        expect(session.provenance, equals: provenance())
        let kept = session.refreshed(with: SessionUpdate(userJSON: Array("{}".utf8)))
        expect(kept.provenance, equals: provenance())
        let next = SessionProvenance(
            identity: "company", issuer: "https://id.example.com", subject: "canary-subject", nonceHash: [], claims: [])
        expect(kept.refreshed(with: SessionUpdate(provenance: next)).provenance, equals: next)
        expect(self.session(nil).refreshed(with: SessionUpdate()).provenance, equals: nil)
    }

    @Test("prints nothing that it contains, and a session prints nothing of it")
    func redacted() {
        let session = session(provenance())
        var dumped = ""
        dump(session, to: &dumped)
        dump(session.provenance, to: &dumped)
        dump(session.provenance?.session, to: &dumped)
        let texts = [
            dumped, "\(provenance())", String(reflecting: provenance()), "\(String(describing: provenance().session))",
        ]
        for text in texts {
            expect(!text.contains("canary"))
            expect(!text.contains("id.example.com"))
        }
    }

    @Test("names an account by issuer and subject, and the provider's session by issuer and id, both unambiguously")
    func names() {
        let hasher = AccountHasher(KeyedHash(key0: 1, key1: 2), older: [KeyedHash(key0: 3, key1: 4)])
        let pairs = [("a", "bc"), ("ab", "c"), ("abc", ""), ("", "abc"), ("A", "bc"), ("a", "Bc")]
        let sessions = pairs.map { ProviderSession(issuer: $0.0, id: $0.1) }
        let accounts = pairs.map { AccountName(issuer: $0.0, subject: $0.1) }
        expect(Set(sessions.map(\.canonicalBytes)).count, equals: pairs.count)
        expect(Set(accounts).count, equals: pairs.count)
        // Both are hashed under the same keys.
        let hashes = sessions.map { hasher.hash($0) } + accounts.map { hasher.hash($0) }
        expect(Set(hashes).count, equals: 2 * pairs.count)
        for session in sessions {
            let all = hasher.candidateHashes(session)
            expect(all.count == 2 && all[0] == hasher.hash(session) && all[1] != all[0])
        }
        expect(provenance().account, equals: AccountName(issuer: "https://id.example.com", subject: "canary-subject"))
        expect(provenance().session, equals: ProviderSession(issuer: "https://id.example.com", id: "canary-sid"))
    }

    @Test("ends a session no later than its provider permits, whatever the tokens")
    func endsBy() {
        let timeouts = SessionTimeouts(idle: .seconds(900), absolute: .seconds(3_600))
        func end(_ endsBy: Int64?, accessEnd: Int64? = nil) -> SessionTime {
            let tokens = TokenSet(
                authorization: Secret("Bearer a"),
                accessTokenExpiresAt: accessEnd.map { start.wallTime + .seconds($0) },
                obtainedAt: start.wallTime)
            let new = NewSession(
                user: UserProfile(json: [], account: AccountName(email: "jo@example.com")), tokens: tokens,
                endsBy: endsBy.map { start.wallTime + .seconds($0) })
            return timeouts.end(of: new, madeAt: start)
        }
        expect(end(nil), equals: start + .seconds(3_600))
        expect(end(60), equals: start + .seconds(60))
        expect(end(7_200), equals: start + .seconds(3_600))
        expect(end(60, accessEnd: 30), equals: start + .seconds(30))
        expect(end(-5), equals: start - .seconds(5))
        expect(end(nil, accessEnd: 90), equals: start + .seconds(90))
    }

    #if canImport(Glibc)
        @Test("makes a session object no larger, with or without one")
        func memory() throws {
            // malloc.h is not part of the Glibc module.
            let symbol = try require(dlsym(nil, "malloc_usable_size"))
            let usableSize = unsafeBitCast(symbol, to: (@convention(c) (UnsafeMutableRawPointer) -> Int).self)
            // Before sessions had a provenance, an object had 140 bytes, for which malloc reserves 152.
            for session in [session(nil), session(provenance())] {
                #expect(usableSize(Unmanaged.passUnretained(session).toOpaque()) <= 152)
            }
        }
    #endif
}
