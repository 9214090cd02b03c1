import CloakroomCore
import TestSupport
import Testing

@Suite("A session")
struct SessionTests {
    private let start = SessionTime(seconds: 1_000)

    private func session() -> Session {
        Session(
            key: SessionKey(1, 2, 3, 4),
            user: UserProfile(
                json: Array(#"{"email":"canary@example.com"}"#.utf8), account: AccountName(email: "canary@example.com")),
            tokens: TokenSet(
                authorization: Secret("Bearer canary-access"), refreshToken: Secret("canary-refresh"),
                accessTokenExpiresAt: start.wallTime + .seconds(60), obtainedAt: start.wallTime),
            client: SessionClientInfo(peer: "192.0.2.1", userAgent: .firefox), createdAt: start,
            expiresAt: start + .seconds(3_600), lastUsedAt: start)
    }

    @Test("records at most one use per granularity interval")
    func touch() {
        let session = session()
        expect(!session.touch(at: start + .seconds(59), granularity: .seconds(60)))
        expect(session.lastUsedAt, equals: start)
        expect(session.touch(at: start + .seconds(60), granularity: .seconds(60)))
        expect(session.lastUsedAt, equals: start + .seconds(60))
        expect(!session.touch(at: start + .seconds(61), granularity: .seconds(60)))
    }

    @Test("never moves its last use backwards")
    func touchBackwards() {
        let session = session()
        expect(!session.touch(at: start - .seconds(600), granularity: .zero))
        expect(session.lastUsedAt, equals: start)
    }

    @Test("Rule 22: prints neither its tokens nor its user")
    func redacted() {
        let session = session()
        var dumped = ""
        dump(session, to: &dumped)
        let personal = ["canary@example.com", "canary-access", "canary-refresh"].map {
            "\(Array($0.utf8))".dropFirst().dropLast()
        }
        for text in [dumped, String(reflecting: session.tokens), "\(session.user)", String(reflecting: session.user)] {
            expect(!text.contains("canary"))
            for bytes in personal { expect(!text.contains(bytes)) }
        }
    }

    @Test("that is refreshed has the next version and the new contents")
    func refreshed() {
        let old = session()
        let tokens = TokenSet(authorization: Secret("Bearer next"), obtainedAt: start.wallTime + .seconds(9))
        let new = old.refreshed(with: SessionUpdate(tokens: tokens))
        expect(new.version, equals: old.version + 1)
        expect(new.tokens, equals: tokens)
        expect(!new.isRefreshable)
        expect(new.user, equals: old.user)
        expect(new.client, equals: old.client)
        expect(new.expiresAt, equals: old.expiresAt)
        let other = new.refreshed(with: SessionUpdate(userJSON: Array("{}".utf8)))
        expect(other.user.json, equals: Array("{}".utf8))
        expect(other.tokens, equals: tokens)
    }

    @Test("keeps the data of its store, also when it is refreshed, and next to all other fields")
    func storeData() {
        for count in [0, 1, 27, 255, 300] {
            let data = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
            let user = UserProfile(
                json: Array(#"{"id":1}"#.utf8), account: AccountName(email: "jo@example.com"),
                name: AccountName(email: "jo"))
            let session = Session(
                key: SessionKey(1, 2, 3, 4), user: user,
                tokens: TokenSet(
                    authorization: Secret("Bearer a"), refreshToken: Secret("canary-refresh"),
                    obtainedAt: start.wallTime),
                client: SessionClientInfo(peer: "192.0.2.1", userAgent: .firefox), createdAt: start,
                expiresAt: start + .seconds(60), lastUsedAt: start, storeData: data)
            expect(session.storeData, equals: Array(data.prefix(255)))
            expect(session.user, equals: user)
            expect(session.tokens.refreshToken, equals: Secret("canary-refresh"))
            expect(session.client, equals: SessionClientInfo(peer: "192.0.2.1", userAgent: .firefox))
            let next = session.refreshed(with: SessionUpdate(userJSON: Array("{}".utf8)))
            expect(next.storeData, equals: session.storeData)
            expect(next.user.json, equals: Array("{}".utf8))
            expect(next.user.name, equals: user.name)
        }
        expect(empty: session().storeData)
    }
}

@Suite("The packed fields of a session")
struct CompactSessionFieldsTests {
    private let start = SessionTime(seconds: 1_000)

    private func session(
        refreshToken: Secret?, json: [UInt8] = [], account: AccountName = AccountName(email: ""),
        client: SessionClientInfo = SessionClientInfo()
    ) -> Session {
        Session(
            key: SessionKey(1, 2, 3, 4), user: UserProfile(json: json, account: account),
            tokens: TokenSet(
                authorization: Secret("Bearer a"), refreshToken: refreshToken, obtainedAt: start.wallTime),
            client: client, createdAt: start, expiresAt: start + .seconds(60), lastUsedAt: start)
    }

    @Test("are restored unchanged, whether empty or large")
    func roundTrip() {
        let accounts = ["", "jo@example.com", "名@例え.jp", String(repeating: "é", count: 30_000)]
        let tokens: [Secret?] = [nil, Secret(""), Secret("t"), Secret(bytes: [UInt8](repeating: 0xff, count: 70_000))]
        for account in accounts.map(AccountName.init(email:)) {
            for token in tokens {
                for json in [[], Array("{}".utf8), [UInt8](repeating: 0, count: 70_000)] {
                    for family in UserAgentFamily.allCases {
                        let client = SessionClientInfo(peer: "2001:db8::1", userAgent: family)
                        let session = session(refreshToken: token, json: json, account: account, client: client)
                        expect(session.tokens.refreshToken, equals: token)
                        expect(session.isRefreshable, equals: token != nil)
                        expect(session.user, equals: UserProfile(json: json, account: account))
                        expect(session.client, equals: client)
                        expect(session.tokens.accessTokenExpiresAt, equals: nil)
                    }
                }
            }
        }
    }

    @Test("keep 255 bytes of an address without affecting other fields")
    func longPeer() {
        let json = Array(#"{"id":1}"#.utf8)
        let account = AccountName(email: "jo@example.com")
        for peer in [String(repeating: "a", count: 255), String(repeating: "a", count: 100_000)] {
            let session = session(
                refreshToken: Secret("t"), json: json, account: account, client: SessionClientInfo(peer: peer))
            expect(session.client.peer, equals: String(repeating: "a", count: 255))
            expect(session.user, equals: UserProfile(json: json, account: account))
        }
        let cut = session(
            refreshToken: nil, json: json, client: SessionClientInfo(peer: "a" + String(repeating: "é", count: 200)))
        expect(cut.client.peer.hasPrefix("aéé"))
        expect(cut.user.json, equals: json)
    }

    @Test("are part of a summary, except the tokens")
    func summary() {
        let client = SessionClientInfo(peer: "192.0.2.1", userAgent: .curl)
        let session = session(refreshToken: Secret("canary"), client: client)
        session.touch(at: start + .seconds(9), granularity: .zero)
        expect(
            session.summary,
            equals: SessionSummary(
                id: session.id, createdAt: start, lastUsedAt: start + .seconds(9), expiresAt: start + .seconds(60),
                client: client))
        expect(!String(reflecting: session.summary).contains("canary"))
    }
}

@Suite("A session's identifier")
struct SessionIDTests {
    @Test(
        "is 16 hexadecimal digits, and is parsed from them",
        arguments: [
            (0, "0000000000000000"), (1, "0000000000000001"), (0x0123_4567_89ab_cdef, "0123456789abcdef"),
            (.max, "ffffffffffffffff"),
        ] as [(UInt64, String)])
    func roundTrip(value: UInt64, text: String) {
        expect(SessionID(value).description, equals: text)
        expect(SessionID(text), equals: SessionID(value))
    }

    @Test(
        "Rule 20: is parsed only from its canonical form",
        arguments: [
            "", "0", "0123456789abcde", "0123456789abcdef0", "0123456789ABCDEF", "+123456789abcdef", "-123456789abcdef",
            "0x23456789abcdef", " 123456789abcdef", "0123456789abcdeg", "０123456789abcdef", "0123456789abcde\u{301}",
            "01234567%39abcde", String(repeating: "a", count: 100_000),
        ])
    func otherSpellings(text: String) {
        expect(SessionID(text), equals: nil)
    }

    @Test("is the first eight bytes of the store's key")
    func key() {
        expect(SessionKey(0x0123_4567_89ab_cdef, 1, 2, 3).id.description, equals: "0123456789abcdef")
    }
}
