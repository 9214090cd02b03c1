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
        record.contents[0] = 3
        guard case .foreign = SessionSealer(secrets: secrets).open(record, ticket: ticket) else {
            Issue.record("the record is not recognized as another release's")
            return
        }
    }
}
