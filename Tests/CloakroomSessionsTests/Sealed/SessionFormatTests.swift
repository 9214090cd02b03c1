import CloakroomCore
import Testing

@testable import CloakroomSessions

/// What releases have written down, byte for byte: every later one has to open it. Never change a record here; a new
/// format gets one of its own beside it.
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

    @Test("of format 1 open, with everything in them")
    func format1() throws {
        let ticket = try Self.ticket()
        let secrets = try #require(
            GatewaySecrets([Secret("another one, which is the newest of the two"), Self.secret]))
        guard
            case .opened(let session, isCurrent: false) =
                SessionSealing(secrets: secrets).open(Self.record(ticket), ticket: ticket)
        else {
            Issue.record("it does not open")
            return
        }
        #expect(session.user.json == Array(#"{"name":"Jo"}"#.utf8))
        #expect(session.user.account == AccountName(email: "jo@example.com"))
        #expect(
            session.tokens
                == SessionTokens(
                    authorization: Secret("Bearer access"), refreshToken: Secret("refresh"),
                    accessExpiresAt: Self.start + .seconds(300), obtainedAt: Self.start))
        #expect(session.client == SessionClient(peer: "192.0.2.7", userAgent: .firefox))
        #expect(session.version == 7)
        #expect(secrets.accountHashes.all(session.user.account).contains(9_256_275_110_601_351_382))
    }

    @Test("and of later ones in a format that is not known are left alone")
    func laterFormat() throws {
        let ticket = try Self.ticket()
        let secrets = try #require(GatewaySecrets([Self.secret]))
        var record = Self.record(ticket)
        record.contents[0] = 2
        guard case .foreign = SessionSealing(secrets: secrets).open(record, ticket: ticket) else {
            Issue.record("it is not taken for another release's")
            return
        }
    }
}
