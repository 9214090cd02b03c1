import CloakroomCore
import Testing

@Suite("The packed fields of a session")
struct CompactSessionFieldsTests {
    private let start = Timestamp(seconds: 1_000)

    private func session(
        refreshToken: Secret?, json: [UInt8] = [], account: AccountName = AccountName(email: ""),
        client: SessionClientInfo = SessionClientInfo()
    ) -> Session {
        Session(
            key: SessionKey(1, 2, 3, 4), user: UserProfile(json: json, account: account),
            tokens: TokenSet(
                authorization: Secret("Bearer a"), refreshToken: refreshToken, obtainedAt: start),
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
                        #expect(session.tokens.refreshToken == token)
                        #expect(session.isRefreshable == (token != nil))
                        #expect(session.user == UserProfile(json: json, account: account))
                        #expect(session.client == client)
                        #expect(session.tokens.accessTokenExpiresAt == nil)
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
            #expect(session.client.peer == String(repeating: "a", count: 255))
            #expect(session.user == UserProfile(json: json, account: account))
        }
        let cut = session(
            refreshToken: nil, json: json, client: SessionClientInfo(peer: "a" + String(repeating: "é", count: 200)))
        #expect(cut.client.peer.hasPrefix("aéé"))
        #expect(cut.user.json == json)
    }

    @Test("are part of a summary, except the tokens")
    func summary() {
        let client = SessionClientInfo(peer: "192.0.2.1", userAgent: .curl)
        let session = session(refreshToken: Secret("canary"), client: client)
        session.touch(at: start + .seconds(9), granularity: .zero)
        #expect(
            session.summary
                == SessionSummary(
                    id: session.id, createdAt: start, lastUsedAt: start + .seconds(9), expiresAt: start + .seconds(60),
                    client: client))
        #expect(!String(reflecting: session.summary).contains("canary"))
    }
}
