import CloakroomCore
import Crypto
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("The sealing of sessions")
struct SessionSealerTests {
    private let sealing = SessionSealer(secrets: Sample.secrets)
    private let ticket: SessionTicket

    init() {
        var generator = SystemRandomNumberGenerator()
        ticket = SessionTicket(using: &generator)
    }

    private func session(
        _ tokens: TokenSet = Sample.tokens(1), client: SessionClientInfo = Sample.client,
        provenance: SessionProvenance? = nil
    ) -> Session {
        Session(
            key: SessionKey(ticket), user: Sample.user(1), tokens: tokens, client: client, source: Sample.source,
            provenance: provenance, createdAt: Sample.start, expiresAt: Sample.start + .seconds(60),
            lastUsedAt: Sample.start + .seconds(5), version: 3)
    }

    private func isUnreadable(_ record: SessionRecord, _ sealing: SessionSealer? = nil) -> Bool {
        if case .opened = (sealing ?? self.sealing).open(record, ticket: ticket) { false } else { true }
    }

    private func opened(_ record: SessionRecord) throws -> Session {
        guard case .opened(let session, isCurrent: true) = sealing.open(record, ticket: ticket) else {
            throw NotOpened()
        }
        return session
    }

    private struct NotOpened: Error {}

    @Test("opens to the sealed contents, whichever optional parts are missing")
    func roundTrip() throws {
        var tokens = [Sample.tokens(1), Sample.tokens(1), Sample.tokens(1), Sample.tokens(1)]
        tokens[1].refreshToken = nil
        tokens[2].accessTokenExpiresAt = nil
        tokens[3].refreshToken = Secret("")
        for tokens in tokens {
            for client in [
                Sample.client, SessionClientInfo(), SessionClientInfo(peer: "2001:db8::1", userAgent: .curl),
            ] {
                let session = session(tokens, client: client)
                let found = try opened(try sealing.seal(session, ticket: ticket))
                expect(found.key, equals: session.key)
                expect(found.tokens, equals: tokens)
                expect(found.user, equals: session.user)
                expect(found.source, equals: session.source)
                expect(found.client, equals: client)
                expect(found.createdAt, equals: session.createdAt)
                expect(found.expiresAt, equals: session.expiresAt)
                expect(found.lastUsedAt, equals: session.lastUsedAt)
                expect(found.version, equals: 3)
            }
        }
    }

    @Test("Rule 13: is an AEAD with a new nonce each time: no two records are alike")
    func freshNonces() throws {
        let sealed = try (0..<50).map { _ in try sealing.seal(session(), ticket: ticket) }
        expect(Set(sealed.map(\.contents)).count, equals: 50)
        expect(Set(sealed.map { Array($0.contents[5..<17]) }).count, equals: 50)
        expect(Set(sealed.map(\.client)).count, equals: 50)
        expect(sealed.allSatisfy { $0.contents[0] == 1 })
    }

    @Test("Rule 13: does not open with any one bit changed, in the contents or the client")
    func everyBit() throws {
        let record = try sealing.seal(session(provenance: Sample.provenance(1)), ticket: ticket)
        for part in [\SessionRecord.contents, \SessionRecord.client] {
            for index in record[keyPath: part].indices {
                for bit in 0..<8 {
                    var changed = record
                    changed[keyPath: part][index] ^= 1 << UInt8(bit)
                    expect(isUnreadable(changed), "byte \(index), bit \(bit)")
                }
            }
        }
        expect(!isUnreadable(record))
    }

    @Test("does not open if truncated at any length or extended")
    func everyLength() throws {
        let record = try sealing.seal(session(), ticket: ticket)
        for part in [\SessionRecord.contents, \SessionRecord.client] {
            for count in 0..<record[keyPath: part].count {
                var changed = record
                changed[keyPath: part] = Array(record[keyPath: part].prefix(count))
                expect(isUnreadable(changed), "\(count) bytes")
                changed[keyPath: part] = Array(record[keyPath: part].suffix(count))
                expect(isUnreadable(changed), "the last \(count) bytes")
            }
            var longer = record
            longer[keyPath: part].append(0)
            expect(isUnreadable(longer))
        }
    }

    @Test("Rule 13: is bound to the record's name, account, times and version")
    func bindings() throws {
        let record = try sealing.seal(session(), ticket: ticket)
        let changes: [(inout SessionRecord) -> Void] = [
            { $0.key = SessionKey($0.key.word0 ^ 1, $0.key.word1, $0.key.word2, $0.key.word3) },
            { $0.key = SessionKey($0.key.word0, $0.key.word1, $0.key.word2, $0.key.word3 ^ 1) },
            { $0.account ^= 1 },
            { $0.name = ($0.name ?? 0) ^ 1 },
            { $0.name = nil },
            { $0.createdAt = $0.createdAt + .milliseconds(1) },
            { $0.expiresAt = $0.expiresAt + .milliseconds(1) },
            { $0.version += 1 },
        ]
        for change in changes {
            var changed = record
            change(&changed)
            expect(isUnreadable(changed))
        }
        let provided = try sealing.seal(session(provenance: Sample.provenance(1)), ticket: ticket)
        let moves: [(inout SessionRecord) -> Void] = [
            { $0.provider = ($0.provider ?? 0) ^ 1 }, { $0.provider = nil }, { $0.account ^= 1 }, { $0.name = nil },
        ]
        for change in moves {
            var changed = provided
            change(&changed)
            expect(isUnreadable(changed))
        }
        let withoutSession = try sealing.seal(session(provenance: Sample.provenance(1, sid: nil)), ticket: ticket)
        var changed = withoutSession
        changed.provider = 0
        expect(isUnreadable(changed))
        expect(!isUnreadable(withoutSession))
        var touched = record
        touched.lastUsedAt = touched.lastUsedAt + .seconds(60)
        try expect(opened(touched).lastUsedAt, equals: touched.lastUsedAt)
    }

    @Test("does not open with parts of another record, another ticket or another secret")
    func foreign() throws {
        let record = try sealing.seal(session(), ticket: ticket)
        var generator = SystemRandomNumberGenerator()
        let otherTicket = SessionTicket(using: &generator)
        let other = try sealing.seal(
            Session(
                key: SessionKey(otherTicket), user: Sample.user(2), tokens: Sample.tokens(2), createdAt: Sample.start,
                expiresAt: Sample.start + .seconds(60), lastUsedAt: Sample.start), ticket: otherTicket)
        var mixed = record
        mixed.contents = other.contents
        expect(isUnreadable(mixed))
        mixed = record
        mixed.client = other.client
        expect(isUnreadable(mixed))
        expect(isUnreadable(other))
        mixed = record
        (mixed.contents, mixed.client) = (record.client, record.contents)
        expect(isUnreadable(mixed))
        let stranger = SessionSealer(secrets: SealingKeyring(Sample.olderSecret))
        guard case .foreign = stranger.open(record, ticket: ticket) else {
            Issue.record("an unknown secret must be distinguishable from damage")
            return
        }
    }

    @Test("does not crash on arbitrary bytes")
    func noise() throws {
        var record = try sealing.seal(session(), ticket: ticket)
        let header = Array(record.contents.prefix(5))
        for count in 0..<300 {
            let noise = (0..<count).map { _ in UInt8.random(in: 0...255) }
            record.contents = noise
            expect(isUnreadable(record))
            record.contents = header + noise
            expect(isUnreadable(record))
        }
    }

    @Test("opens under an older secret, and reports that it is older")
    func rotation() throws {
        let old = SessionSealer(secrets: SealingKeyring(Sample.olderSecret))
        let both = SessionSealer(secrets: SealingKeyring(Sample.secret, older: [Sample.olderSecret]))
        let record = try old.seal(session(), ticket: ticket)
        guard case .opened(let session, isCurrent: false) = both.open(record, ticket: ticket) else {
            Issue.record("the record does not open")
            return
        }
        let anew = try both.seal(session, ticket: ticket)
        expect(anew.account != record.account)
        expect(isUnreadable(anew, old))
        expect(!isUnreadable(anew))
        expect(
            both.secrets.accountHashes.candidateHashes(session.user.account), equals: [anew.account, record.account])
    }

    @Test("reveals no secret when printed")
    func redacted() {
        let secrets = Sample.secrets
        let text = "\(secrets) \(String(reflecting: secrets)) \(SessionSealer(secrets: secrets))"
        expect(!text.contains("gateway's secret"))
        expect(text.contains("<redacted>"))
    }

    @Test("Rule 22: a stolen store contains neither tokens nor user nor ticket nor secret in clear text")
    func canaries() async throws {
        let server = RecordServer()
        let store = SealedSessionStore(
            InMemoryRecords(server), configuration: Sample.configuration, secrets: Sample.secrets)
        let canary = "canary-7f3a"
        let new = NewSession(
            user: UserProfile(
                json: Array(#"{"name":"\#(canary)-name"}"#.utf8), account: AccountName(email: "\(canary)@example.com")),
            tokens: TokenSet(
                authorization: Secret("Bearer \(canary)-access"), refreshToken: Secret("\(canary)-refresh"),
                obtainedAt: Sample.start.wallTime),
            client: SessionClientInfo(peer: "192.0.2.99", userAgent: .curl),
            provenance: SessionProvenance(
                identity: "\(canary)-identity", issuer: "https://\(canary).example.com", subject: "\(canary)-subject",
                providerSession: "\(canary)-sid", acr: "\(canary)-acr", nonceHash: Array("\(canary)-nonce".utf8),
                claims: Array(#"{"a":"\#(canary)"}"#.utf8), idToken: Secret("\(canary)-id-token")))
        let (ticket, session) = try await store.create(new, now: Sample.start)
        let lease = try await require(store.lease(session.key, for: .seconds(30), now: Sample.start).lease)
        let refresh = SessionUpdate(
            tokens: TokenSet(authorization: Secret("Bearer \(canary)-next"), obtainedAt: Sample.start.wallTime))
        _ = try await store.save(refresh, ticket: ticket, over: session, under: lease, now: Sample.start)
        let dump = server.dump
        #expect(dump.count > 200)
        for secret in [canary, ticket.cookieValue, "Bearer", "192.0.2.99", "example.com", "gateway's secret"] {
            expect(!contains(dump, Array(secret.utf8)), "\(secret.count) bytes of a secret")
        }
        expect(!contains(dump, ticket.bytes))
        expect(!contains(dump, Array(ticket.bytes.prefix(8))))
    }

    private func contains(_ bytes: [UInt8], _ part: [UInt8]) -> Bool {
        guard let first = part.first else { return true }
        return bytes.indices.contains { index in
            bytes[index] == first && bytes[index...].starts(with: part)
        }
    }
}
