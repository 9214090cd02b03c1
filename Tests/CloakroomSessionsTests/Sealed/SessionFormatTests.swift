import CloakroomCore
import Testing

@testable import CloakroomSessions

/// Records that releases have written, byte for byte: every later release has to open them. Never change a record here;
/// add one for each new format.
@Suite("Records of earlier releases")
struct SessionFormatTests {
    private static let secret = Secret("the secret of a gateway of long ago, kept for this test")
    private static let cookie = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
    private static let start = Timestamp(seconds: 1_700_000_000)
    private static let contents = """
        010d9ed032f335526c4ba93acc10cab18d920916eb010daa68d420052522938560f1936588397ccd83bfb4c07f201513051f65fd22685e732b\
        20cac3256700a7e00ef0050e0e786965b7ea62435db68df3fa89b1e77e45ef5a9a63bfefe05326cdce26b94c437118ea43b305f77883cd179c\
        423fe105b6ceaf
        """
    private static let client =
        "010d9ed032f087f8e6da2e8a47d19c29412e51b92f71f02dfa4f0b0b6f3f2dccb3ca5dd2f81c68870666301ca3c167e4f84879"

    private static func bytes(_ hex: String) -> [UInt8] {
        let digits = Array(hex.utf8)
        return stride(from: 0, to: digits.count - 1, by: 2).compactMap {
            UInt8(String(decoding: digits[$0...($0 + 1)], as: UTF8.self), radix: 16)
        }
    }

    private static func record(_ ticket: SessionTicket) -> SessionRecord {
        SessionRecord(
            key: SessionKey(ticket), account: 9_256_275_110_601_351_382, createdAt: start,
            expiresAt: start + .seconds(28_800), lastUsedAt: start, version: 7, contents: bytes(contents),
            client: bytes(client))
    }

    private static func ticket() throws -> SessionTicket {
        let cookie = Array(cookie.utf8)
        guard let ticket = SessionTicket(cookieValue: cookie.span) else { throw NoTicket() }
        return ticket
    }

    private struct NoTicket: Error {}

    @Test("of format 1 open, with all their contents")
    func format1() throws {
        let ticket = try Self.ticket()
        let secrets = try #require(
            SealingKeyring([Secret("another one, which is the newest of the two"), Self.secret]))
        guard
            case .opened(let session, isCurrent: false) =
                SessionSealer(secrets: secrets).open(Self.record(ticket), ticket: ticket)
        else {
            Issue.record("the record does not open")
            return
        }
        #expect(session.user.json == Array(#"{"name":"Jo"}"#.utf8))
        #expect(session.user.account == AccountName(email: "jo@example.com"))
        #expect(
            session.tokens
                == TokenSet(
                    authorization: Secret("Bearer access"), refreshToken: Secret("refresh"),
                    accessTokenExpiresAt: Self.start + .seconds(300), obtainedAt: Self.start))
        #expect(session.client == SessionClientInfo(peer: "192.0.2.7", userAgent: .firefox))
        #expect(session.version == 7)
        // Such a record names no source; the store determines it.
        #expect(session.source == .unknown)
        let unsourced = SessionSealer(secrets: secrets, unsourced: SessionSource(upstream: "api"))
        guard case .opened(let known, _) = unsourced.open(Self.record(ticket), ticket: ticket) else { return }
        #expect(known.source == SessionSource(upstream: "api"))
        #expect(secrets.accountHashes.candidateHashes(session.user.account).contains(9_256_275_110_601_351_382))
    }

    private static let contents2 =
        "020d9ed0326dd1ae954761d2db29a026c76ac5bbfc8713c03b7810c5a83471536470132979a0e352ff14eb55662a1892"
        + "daca2f97939517bc35356807476454ec5854b4b5a7318854f9be6db6bc249ddf7626cd3b45aaf14cc263d87a49eea936"
        + "77f670cce6a45257b4692f5026b28fc7f9cac29b052cea666dff8fb88e70477191be952a4dff5b732403cef6c61c1c49"
        + "78c87228c40ba6bb"
    private static let client2 =
        "020d9ed032a19a4243f1eb9722082b5c19630820f7e74b06863d6b3b24bb580aacbc063d3122d81e635027b329814e20"
        + "a031aa"

    /// A session of format 2 whose account is the upstream's user id.
    private static func record2(_ ticket: SessionTicket) -> SessionRecord {
        var record = record(ticket)
        (record.account, record.name) = (3_481_204_444_413_659_736, 9_256_275_110_601_351_382)
        (record.contents, record.client) = (bytes(contents2), bytes(client2))
        return record
    }

    @Test("of format 2 open, with their source and the typed name")
    func format2() throws {
        let ticket = try Self.ticket()
        let secrets = try #require(SealingKeyring([Self.secret]))
        let sealing = SessionSealer(secrets: secrets, unsourced: SessionSource(upstream: "another"))
        guard
            case .opened(let session, isCurrent: true) = sealing.open(Self.record2(ticket), ticket: ticket)
        else {
            Issue.record("the record does not open")
            return
        }
        let source = SessionSource(upstream: "api")
        #expect(session.source == source)
        #expect(session.user.json == Array(#"{"name":"Jo"}"#.utf8))
        #expect(session.user.account == AccountName(userID: "17", source: source))
        #expect(session.user.name == AccountName(email: "jo@example.com"))
        #expect(
            session.tokens
                == TokenSet(
                    authorization: Secret("Bearer access"), refreshToken: Secret("refresh"),
                    accessTokenExpiresAt: Self.start + .seconds(300), obtainedAt: Self.start))
        #expect(session.client == SessionClientInfo(peer: "192.0.2.7", userAgent: .firefox))
        #expect(secrets.accountHashes.candidateHashes(session.user.name).contains(9_256_275_110_601_351_382))
        // A record of one format does not open as the other.
        var relabelled = Self.record2(ticket)
        (relabelled.contents[0], relabelled.client[0]) = (1, 1)
        guard case .unreadable = sealing.open(relabelled, ticket: ticket) else {
            Issue.record("the record opens as format 1")
            return
        }
    }

    private static let contents3 =
        "030d9ed032f251641333d45cfe8807d60cd726b5e9c59dff669a1093b873e1f75492d7bf3dcd86fb62a35fab76d89b57"
        + "078aad60f42d9e941a1121771a49826f0d790113af2671dcc875575c77f7ce58f622b03d5efea4382f666a5638a9bc03"
        + "15c3fb7e5a5a4c3d4b27bf878a7688b77cb60fea96fb1ec1c93b419281e2ec1bfc06b1ce293ca724e9ceae73144803ff"
        + "19004cff20b71ff6aeacf80c806fbca27bc434100f6be43ff90ca07f1cad835be4eb2f23924d5cb250f7fbf5061f4450"
        + "aa94dffd3849bb420c97d0543c3a91bf229d9171ce4e616340796ac298d9ff0563b6ce98d4847ae97840eab614a5d201"
        + "35fc4ce6c283b9bf794bfb97ef306af143fe0b0537f34b6f13389b33af6645e5fe8c9266ef58ffb93ad55997840719c6"
        + "7fc1be01c92f3d19be2194ee5cde0b394503b384ef37ef7866acff0ad29392de9b19697ebe13899fe85846e3"
    private static let client3 =
        "020d9ed0323c2bf4a86bfc4b0a24cbf2a508f69f2ad26fbdfc96b0c32ff51e876b0eb1b2db5e88ef196b47d83502782c"
        + "753563"

    /// What the provider stated about the user of the record of format 3.
    private static let provenance = SessionProvenance(
        identity: "company", issuer: "https://id.example.com", subject: "Jo", providerSession: "sid",
        authenticatedAt: start - .seconds(5), acr: "urn:example:mfa", nonceHash: (0..<32).map { UInt8($0) },
        claims: Array(#"{"groups":["staff"]}"#.utf8), idToken: Secret("header.payload.signature"))

    /// A session of format 3, of a user who signed in at a provider.
    private static func record3(_ ticket: SessionTicket) -> SessionRecord {
        var record = record(ticket)
        let account: UInt64 = 7_284_671_035_947_806_694
        (record.account, record.name, record.provider) = (account, account, 5_456_854_996_307_929_691)
        (record.contents, record.client) = (bytes(contents3), bytes(client3))
        return record
    }

    @Test("of format 3 open, with their provenance")
    func format3() throws {
        let ticket = try Self.ticket()
        let secrets = try #require(SealingKeyring([Self.secret]))
        let record = Self.record3(ticket)
        guard
            case .opened(let session, isCurrent: true) = SessionSealer(secrets: secrets).open(record, ticket: ticket)
        else {
            Issue.record("the record does not open")
            return
        }
        let provenance = Self.provenance
        #expect(session.provenance == provenance)
        #expect(session.source == SessionSource(identity: "company", issuer: "https://id.example.com"))
        #expect(session.user.json == Array(#"{"name":"Jo"}"#.utf8))
        #expect(session.user.account == provenance.account)
        #expect(session.user.name == provenance.account)
        #expect(
            session.tokens
                == TokenSet(
                    authorization: Secret("Bearer access"), refreshToken: Secret("refresh"),
                    accessTokenExpiresAt: Self.start + .seconds(300), obtainedAt: Self.start))
        #expect(session.client == SessionClientInfo(peer: "192.0.2.7", userAgent: .firefox))
        #expect(secrets.accountHashes.candidateHashes(provenance.account) == [record.account])
        #expect(secrets.accountHashes.candidateHashes(try #require(provenance.session)) == [record.provider])
    }

    @Test("of format 2 have the bytes that the release before wrote")
    func writtenBytes() throws {
        let parts = SessionParts(
            user: UserProfile(json: Array("{}".utf8), account: AccountName(canonicalBytes: [97])),
            tokens: TokenSet(
                authorization: Secret("Bearer a"), refreshToken: Secret("r"),
                accessTokenExpiresAt: Timestamp(milliseconds: 1), obtainedAt: Timestamp(milliseconds: 2)),
            source: SessionSource(value: 3))
        #expect(parts.format == .two)
        let written =
            "00000008" + "4265617265722061" + "00000002" + "0172" + "00000008" + "0000000000000001" + "00000008"
            + "0000000000000002" + "00000002" + "7b7d" + "00000001" + "61" + "00000000" + "00000008"
            + "0000000000000003"
            + "00000000"
        #expect(parts.bytes == Self.bytes(written))
    }

    @Test("of format 3 have their provenance: every truncation of it is rejected, and so is an extension")
    func provenanceLayout() throws {
        let user = UserProfile(json: [], account: Self.provenance.account)
        let tokens = TokenSet(authorization: Secret("Bearer a"), obtainedAt: Self.start)
        let source = SessionSource(value: 3)
        let made = SessionParts(user: user, tokens: tokens, source: source, provenance: Self.provenance)
        #expect(made.format == .three)
        let whole = made.bytes
        let opened = try #require(SessionParts(whole, .three))
        #expect(opened.provenance == Self.provenance)
        #expect(opened.user == user && opened.tokens == tokens && opened.source == source)
        #expect(SessionParts(whole, .two)?.isOfLaterRelease == true)
        // The provenance is the last field: it is cut and extended together with its length.
        let start = SessionParts(user: user, tokens: tokens, source: source).bytes.count
        let provenance = Array(whole[start...])
        func read(_ last: [UInt8]) -> SessionParts? {
            SessionParts(
                Array(whole[..<(start - 4)]) + Array(UInt64(last.count).bigEndianBytes.suffix(4)) + last, .three)
        }
        #expect(read(provenance)?.provenance == Self.provenance)
        for count in 0..<provenance.count { #expect(read(Array(provenance.prefix(count))) == nil, "\(count)") }
        #expect(read(provenance + [0]) == nil)
        #expect(read(provenance + [0, 0, 0, 0]) == nil)
        for count in 0..<whole.count { #expect(SessionParts(Array(whole.prefix(count)), .three) == nil, "\(count)") }
    }

    @Test("of format 2 with a value in the field reserved for later releases are kept for those")
    func laterField() throws {
        let parts = SessionParts(
            user: UserProfile(json: [], account: AccountName(email: "a@b.c")),
            tokens: TokenSet(authorization: Secret("Bearer a"), obtainedAt: Self.start),
            source: SessionSource(upstream: "api"))
        var bytes = parts.bytes
        #expect(SessionParts(bytes, .two)?.isOfLaterRelease == false)
        bytes = Array(bytes.dropLast(4)) + [0, 0, 0, 1, 7]
        #expect(SessionParts(bytes, .two)?.isOfLaterRelease == true)
        #expect(SessionParts(bytes + [0], .two) == nil)
        #expect(SessionParts(bytes, .one) == nil)
    }

    @Test("of later releases in an unknown format are kept")
    func laterFormat() throws {
        let ticket = try Self.ticket()
        let secrets = try #require(SealingKeyring([Self.secret]))
        var record = Self.record(ticket)
        record.contents[0] = 4
        guard case .foreign = SessionSealer(secrets: secrets).open(record, ticket: ticket) else {
            Issue.record("the record is not recognized as another release's")
            return
        }
    }
}
