import CloakroomCore
import Synchronization
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("The login cookies")
struct LoginCookiesTests {
    private let cookies = LoginFixture.cookies()

    private func cookie(_ seed: UInt64, at time: WallTime = LoginFixture.now) throws -> ReceivedCookie {
        LoginFixture.received(
            try require(cookies.setCookieValue(LoginFixture.login(LoginFixture.secrets(seed), startedAt: time))))
    }

    @Test("Identity rule 2: have the attributes that the way back requires")
    func attributes() throws {
        let value = try require(cookies.setCookieValue(LoginFixture.login(LoginFixture.secrets(1))))
        expect(value.hasPrefix("__Host-sid-login-"))
        expect(value.hasSuffix("; Path=/; HttpOnly; Secure; SameSite=Lax; Max-Age=600"))
        let name = LoginFixture.received(value).name
        expect(name.utf8.count, equals: "__Host-sid-login-".utf8.count + 8)
        expect(
            cookies.clearCookieValue(name: name), equals: "\(name)=; Path=/; HttpOnly; Secure; SameSite=Lax; Max-Age=0")
    }

    @Test("Rule 101: are for this host only, although the session cookie is for a domain")
    func domain() throws {
        let shared = LoginFixture.cookies(name: "__Secure-sid", domain: "example.com")
        let login = LoginFixture.login(LoginFixture.secrets(1))
        expect(shared.setCookieValue(login), equals: cookies.setCookieValue(login))
        expect(shared.signOutName, equals: "__Host-sid-login-out")
    }

    @Test("Identity rule 2: have every field of the login, unchanged")
    func contents() throws {
        var login = LoginFixture.login(LoginFixture.secrets(1))
        login.route = "invoice"
        login.replaces = SessionKey(1, 2, 3, .max)
        login.isPersistent = true
        login.isSilent = true
        login.subjectHash = PendingLogin.hash(ofIssuer: "https://a", subject: "jo")
        let received = LoginFixture.received(try require(cookies.setCookieValue(login)))
        expect(cookies.open(received), equals: login)
    }

    @Test("Identity rule 2: are at most 1 KiB long with every text at its limit, and are not made beyond it")
    func size() throws {
        var login = LoginFixture.login(LoginFixture.secrets(1))
        login.identity = String(repeating: "i", count: 64)
        login.route = String(repeating: "r", count: 64)
        login.replaces = SessionKey(1, 2, 3, 4)
        login.isPersistent = true
        login.subjectHash = PendingLogin.hash(ofIssuer: "a", subject: "b")
        login.returnTarget = "/" + String(repeating: "p", count: PendingLogin.maxReturnTarget - 1)
        // AES-256-GCM adds 32 bytes, the sealing of the tests 8.
        let content = login.bytes.count + 32
        #expect((content * 4 + 2) / 3 <= LoginCookies.maxValueLength)
        expect(cookies.setCookieValue(login) != nil)
        login.returnTarget += "p"
        expect(cookies.setCookieValue(login), equals: nil)
    }

    @Test("Identity rule 4: a callback of another browser is rejected")
    func callbackOfAnotherBrowserIsRefused() throws {
        let state = LoginFixture.secrets(1).state
        expect(cookies.login(forState: state, among: [], now: LoginFixture.now), equals: nil)
        expect(cookies.login(forState: state, among: [try cookie(2)], now: LoginFixture.now), equals: nil)
    }

    @Test("Identity rule 2: a value is invalid under another name, also with the content of another login")
    func isBoundToItsName() throws {
        let (one, two) = (try cookie(1), try cookie(2))
        expect(cookies.open(ReceivedCookie(name: two.name, value: one.value)), equals: nil)
        let moved = ReceivedCookie(name: two.name, value: one.value)
        let state = LoginFixture.secrets(2).state
        expect(cookies.login(forState: state, among: [moved], now: LoginFixture.now), equals: nil)
    }

    @Test("Every changed, missing or added character makes a cookie invalid")
    func tampering() throws {
        let good = try cookie(1)
        expect(cookies.open(good) != nil)
        for index in good.value.indices {
            var bad = good
            bad.value[index] = bad.value[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            expect(cookies.open(bad), equals: nil, "\(index)")
        }
        for value in [[], good.value.dropLast(), good.value + [UInt8(ascii: "A")], good.value + good.value] {
            expect(cookies.open(ReceivedCookie(name: good.name, value: Array(value))), equals: nil)
        }
    }

    @Test(
        "Identity rule 4: a login is valid until its timeout, and not if it began in the future",
        arguments: [(0, true), (600, true), (601, false), (-60, true), (-61, false), (1_000_000, false)])
    func expiry(seconds: Int64, isValid: Bool) throws {
        let now = LoginFixture.now + .seconds(seconds)
        let state = LoginFixture.secrets(1).state
        expect(cookies.login(forState: state, among: [try cookie(1)], now: now) != nil, equals: isValid)
    }

    @Test("Identity rule 3: the oldest pending login makes way, unreadable and expired ones first")
    func oldestPendingLoginMakesWay() throws {
        let ages: [Int64] = [30, 20, 10]
        let valid = try ages.enumerated().map { try cookie(UInt64($0 + 1), at: LoginFixture.now - .seconds($1)) }
        expect(cookies.namesToClear([], now: LoginFixture.now), equals: [])
        expect(cookies.namesToClear(Array(valid.prefix(2)), now: LoginFixture.now), equals: [])
        expect(cookies.namesToClear(valid.reversed(), now: LoginFixture.now), equals: [valid[0].name])
        let unreadable = ReceivedCookie(name: "__Host-sid-login-AAAAAAAA", value: Array("x".utf8))
        let expired = try cookie(9, at: LoginFixture.now - .seconds(601))
        expect(
            cookies.namesToClear([valid[1], unreadable, valid[2], expired], now: LoginFixture.now),
            equals: [unreadable.name, expired.name])
        expect(
            cookies.namesToClear(valid + [unreadable], now: LoginFixture.now), equals: [unreadable.name, valid[0].name])
    }

    @Test("No number of other cookies hides the one of a callback; a new login removes at most 64")
    func manyOthers() throws {
        let others = (0..<500).map { ReceivedCookie(name: "__Host-sid-login-\($0)", value: Array("junk".utf8)) }
        let state = LoginFixture.secrets(1).state
        expect(cookies.login(forState: state, among: others + [try cookie(1)], now: LoginFixture.now) != nil)
        expect(cookies.namesToClear(others, now: LoginFixture.now), equals: others.prefix(64).map(\.name))
    }

    @Test("Identity rule 3: 40 tabs leave at most as many cookies as the limit", arguments: [1, 3, 5])
    func manyTabs(limit: Int) throws {
        let cookies = LoginFixture.cookies(pending: limit)
        var jar: [ReceivedCookie] = []
        for tab in 0..<40 {
            let now = LoginFixture.now + .seconds(Int64(tab))
            let cleared = cookies.namesToClear(jar, now: now)
            jar.removeAll { cleared.contains($0.name) }
            let login = LoginFixture.login(LoginFixture.secrets(UInt64(tab + 1)), startedAt: now)
            jar.append(LoginFixture.received(try require(cookies.setCookieValue(login))))
            #expect(jar.count <= limit)
            let state = LoginFixture.secrets(UInt64(tab + 1)).state
            expect(cookies.login(forState: state, among: jar, now: now) != nil, "the newest login always works")
        }
        expect(jar.count, equals: limit)
    }

    /// Opens nothing, and counts that.
    private final class CountingSealing: CookieSealing {
        let count = Atomic(0)

        func seal(_ content: [UInt8], name: String) -> [UInt8]? { content }

        func open(_ sealed: [UInt8], name: String) -> [UInt8]? {
            count.wrappingAdd(1, ordering: .relaxed)
            return nil
        }
    }

    @Test("Of any number of cookies with one name at most four are opened")
    func manyOfOneName() {
        let sealing = CountingSealing()
        let cookies = LoginFixture.cookies(sealing: sealing)
        let secrets = LoginFixture.secrets(1)
        func jar(_ name: String) -> [ReceivedCookie] {
            (0..<500).map { _ in ReceivedCookie(name: name, value: Array("AAAA".utf8)) }
        }
        let now = LoginFixture.now
        expect(
            cookies.login(
                forState: secrets.state, among: jar(cookies.name(ofStateHash: secrets.stateHash)), now: now),
            equals: nil)
        expect(cookies.signOutURL(among: jar(cookies.signOutName), now: now), equals: nil)
        let login = LoginFixture.login(secrets)
        expect(!cookies.hasVerifier(of: login, among: jar(cookies.verifierName), now: now))
        expect((12...24).contains(sealing.count.load(ordering: .relaxed)))
    }

    @Test("Any bytes decode to nothing or to a login that encodes to the same bytes")
    func fuzzedContent() throws {
        var generator = CountingGenerator(state: 7)
        let good = LoginFixture.login(LoginFixture.secrets(1)).bytes
        expect(PendingLogin(bytes: good)?.bytes, equals: good)
        for _ in 0..<5_000 {
            var bytes = good
            for _ in 0..<Int.random(in: 1...4, using: &generator) where !bytes.isEmpty {
                let index = Int.random(in: bytes.indices, using: &generator)
                switch Int.random(in: 0..<3, using: &generator) {
                case 0: bytes[index] = UInt8.random(in: 0...255, using: &generator)
                case 1: bytes.removeSubrange(index...)
                default: bytes.insert(UInt8.random(in: 0...255, using: &generator), at: index)
                }
            }
            if let login = PendingLogin(bytes: bytes) { expect(login.bytes, equals: bytes) }
        }
    }
}
