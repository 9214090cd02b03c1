import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

/// A record of each format, byte for byte: every later release has to open them. Once released, never change a record
/// here; add one for each new format.
@Suite("Records of each format")
struct SessionFormatTests {
    private static let secret = Secret("the secret of a gateway of long ago, kept for this test")
    private static let cookie = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
    private static let start = SessionTime(seconds: 1_700_000_000)
    private static let contents =
        "010d9ed032000102030405060708090a0bf1b3ce83caf6658debc9908001b0412559e051c125877067a1d5e0ee606672"
        + "288c1250fffceef73e87bbd18b97b4acf70c052d846cb41c988361a98d486342077e52afd019e6397a7c908b470fba3a"
        + "8dd92e0b9bd3f7782d05f23f3dcd8ad3f219e535b5a1f6b9056ebc695b36595cd1c02b0e23188396ff9e6467883f9ace"
        + "63ce87143ad5dbd9aea6293840a2cb3765be5e4e878d7b8f014d2873ef64e8ea3e954c7faafb8e44ac380b39090d1b41"
        + "2cb55e223c7d06e0a26ccc585b0f0759c66952885bcecb185e1b05cb4b3b89f553f1afba48c97db717f6461ae9315742"
        + "a9d94c3bfb1cb57ba7ab54281c6e9d13b48711efd19ebf20b14e3fb710a18e1ca0f994d2b7cebd50d67e9394ba79478e"
        + "16912efff14e660a8c4944debb29c99a8fc16ef26e40a3d4910fc90e879c42cee9f7eee0f04c31dbeb1118a1"
    private static let client =
        "010d9ed0320c0d0e0f1011121314151617352fd8f5c56474e167370f3a1501279f5a42a0311ba402414abf35e2004a3a"
        + "347f7c"

    /// Of the same session, with a key of its device and the terms of an app.
    private static let contents4 =
        "040d9ed032000102030405060708090a0b70654b92104d066f71b9546d08c3d97f941fa65e026bc0443b7e409ccdd70f"
        + "f7d25aa093e7224a95246b21895762f329be2fe46f20b4f77b47a9d580213dbfae1b2fa34b27d8206f5b7c91709e747b"
        + "de182a19651104b780506f298baee4e6279d3b6868154a6a4f0b8624ac615e02ebe32799c4a11ac83624565f4f01dddc"
        + "7ad07dec24105aa396d361671b14a4846fb8556bbc90938ec7d6b96c9f098326ace15f82d6f5b18da44bd28c0714568c"
        + "4d17c2acafa33197388bea84102255257258d4332dde21b0b5b7df9b99005f0e6ec7e25dd496f36119afd77d5aabaa50"
        + "620ab4512e23500ca8f21c529b113d12da5151c0fdd2a2015459116d8560f55d0324de98e48170d21aaa0930134057cb"
        + "8a0e353afe0b925a0f2170ef633ac6e322f5fe87933d3dc79944f373cca51171609cd086bf2ca20e29f7745eb3bf48c6"
        + "80d7daecfd84a295c5eacbc4895bafcd13fab41ccc60db6d63b4fc6a6e674bf491f65c86d0cde837d987c63884f700a5"
        + "420b0c6ff489f53609c26136529f5fa0cf8a87cdedf2e1a9c6236534"
    private static let client4 =
        "040d9ed0320c0d0e0f1011121314151617797043606ecccf0375151b65f8e1e9f52e68d87ad965519b5516f55bcfc5f8"
        + "efff6a70c51afc91b824ec2c20cd72672c53fc809c91bdcba55727e76e9f38b7c14ab8febf659a"

    private static func bytes(_ hex: String) -> [UInt8] {
        let digits = Array(hex.utf8)
        return stride(from: 0, to: digits.count - 1, by: 2).compactMap {
            UInt8(String(decoding: digits[$0...($0 + 1)], as: UTF8.self), radix: 16)
        }
    }

    private static let account: UInt64 = 7_284_671_035_947_806_694

    private static func record(_ ticket: SessionTicket) -> SessionRecord {
        SessionRecord(
            key: SessionKey(ticket), account: account, name: account, provider: 5_456_854_996_307_929_691,
            createdAt: start, expiresAt: start + .seconds(28_800), lastUsedAt: start, version: 7,
            contents: bytes(contents), client: bytes(client))
    }

    private static func ticket() throws -> SessionTicket {
        let cookie = Array(cookie.utf8)
        guard let ticket = SessionTicket(cookieValue: cookie.span) else { throw NoTicket() }
        return ticket
    }

    private struct NoTicket: Error {}

    /// What the provider stated about the user of the record.
    private static let provenance = SessionProvenance(
        identity: "company", issuer: "https://id.example.com", subject: "Jo", providerSession: "sid",
        authenticatedAt: start.wallTime - .seconds(5), acr: "urn:example:mfa", nonceHash: (0..<32).map { UInt8($0) },
        claims: Array(#"{"groups":["staff"]}"#.utf8), idToken: Secret("header.payload.signature"))

    @Test("of format 1 open, with all their contents")
    func format1() throws {
        let ticket = try Self.ticket()
        let secrets = try require(SealingKeyring([Self.secret]))
        let record = Self.record(ticket)
        guard
            case .opened(let session, isCurrent: true) = SessionSealer(secrets: secrets).open(record, ticket: ticket)
        else {
            Issue.record("the record does not open")
            return
        }
        let provenance = Self.provenance
        expect(session.provenance, equals: provenance)
        expect(session.version, equals: 7)
        expect(session.source, equals: SessionSource(identity: "company", issuer: "https://id.example.com"))
        expect(session.user.json, equals: Array(#"{"name":"Jo"}"#.utf8))
        expect(session.user.account, equals: provenance.account)
        expect(session.user.name, equals: provenance.account)
        expect(
            session.tokens,
            equals: TokenSet(
                authorization: Secret("Bearer access"), refreshToken: Secret("refresh"),
                accessTokenExpiresAt: Self.start.wallTime + .seconds(300), obtainedAt: Self.start.wallTime))
        expect(session.client, equals: SessionClientInfo(peer: "192.0.2.7", userAgent: .firefox))
        expect(secrets.accountHashes.candidateHashes(provenance.account), equals: [record.account])
        expect(secrets.accountHashes.candidateHashes(try require(provenance.session)), equals: [record.provider])
    }

    @Test("of format 4 open, with the key of the device and the terms of the app")
    func format4() throws {
        let ticket = try Self.ticket()
        let secrets = try require(SealingKeyring([Self.secret]))
        var record = Self.record(ticket)
        record.expiresAt = Self.start + .seconds(180 * 86_400)
        (record.contents, record.client) = (Self.bytes(Self.contents4), Self.bytes(Self.client4))
        let sealer = SessionSealer(secrets: secrets)
        guard case .opened(let session, isCurrent: true) = sealer.open(record, ticket: ticket) else {
            Issue.record("the record does not open")
            return
        }
        let boundAt = Self.start.wallTime + .seconds(5)
        expect(session.device, equals: DeviceBinding(key: (0..<64).map { UInt8($0) }, boundAt: boundAt))
        let terms = SessionTerms(idle: .seconds(30 * 86_400), absolute: .seconds(180 * 86_400), device: .required)
        expect(session.terms == terms && sealer.terms(of: record) == terms && SessionSealer.isBound(record))
        expect(session.provenance == Self.provenance && session.client.userAgent == .firefox)
        // Written before records had the name of the app.
        expect(session.app, equals: nil)
    }

    @Test("of format 1 have these contents; without provenance the last field is empty")
    func writtenBytes() throws {
        let parts = SessionParts(
            user: UserProfile(json: Array("{}".utf8), account: AccountName(canonicalBytes: [97])),
            tokens: TokenSet(
                authorization: Secret("Bearer a"), refreshToken: Secret("r"),
                accessTokenExpiresAt: WallTime(milliseconds: 1), obtainedAt: WallTime(milliseconds: 2)),
            source: SessionSource(value: 3))
        let written =
            "00000008" + "4265617265722061" + "00000002" + "0172" + "00000008" + "0000000000000001" + "00000008"
            + "0000000000000002" + "00000002" + "7b7d" + "00000001" + "61" + "00000000" + "00000008"
            + "0000000000000003"
            + "00000000"
        expect(parts.bytes, equals: Self.bytes(written))
    }

    @Test("with provenance: every truncation of it is rejected, and so is an extension")
    func provenanceLayout() throws {
        let user = UserProfile(json: [], account: Self.provenance.account)
        let tokens = TokenSet(authorization: Secret("Bearer a"), obtainedAt: Self.start.wallTime)
        let source = SessionSource(value: 3)
        let made = SessionParts(user: user, tokens: tokens, source: source, provenance: Self.provenance)
        let whole = made.bytes
        let opened = try require(SessionParts(whole))
        expect(opened.provenance, equals: Self.provenance)
        expect(opened.user == user && opened.tokens == tokens && opened.source == source)
        // The provenance is the last field: it is cut and extended together with its length.
        let start = SessionParts(user: user, tokens: tokens, source: source).bytes.count
        let provenance = Array(whole[start...])
        func read(_ last: [UInt8]) -> SessionParts? {
            SessionParts(
                Array(whole[..<(start - 4)]) + Array(UInt64(last.count).bigEndianBytes.suffix(4)) + last)
        }
        expect(read(provenance)?.provenance, equals: Self.provenance)
        for count in 1..<provenance.count { expect(read(Array(provenance.prefix(count))), equals: nil, "\(count)") }
        expect(read(provenance + [0]), equals: nil)
        expect(read(provenance + [0, 0, 0, 0]), equals: nil)
        for count in 0..<whole.count { expect(SessionParts(Array(whole.prefix(count))), equals: nil, "\(count)") }
    }

    @Test("of later releases in an unknown format are kept")
    func laterFormat() throws {
        let ticket = try Self.ticket()
        let secrets = try require(SealingKeyring([Self.secret]))
        var record = Self.record(ticket)
        record.contents[0] = 5
        guard case .foreign = SessionSealer(secrets: secrets).open(record, ticket: ticket) else {
            Issue.record("the record is not recognized as another release's")
            return
        }
    }
}
