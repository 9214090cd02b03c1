import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("The sealing of cookies")
struct CookieSealerTests {
    private let secrets = ["a", "b", "c"].map { Secret(String(repeating: $0, count: 32)) }
    private let content = Array("content".utf8)

    private func sealer(_ secrets: Secret...) -> CookieSealer {
        var generator = SystemRandomNumberGenerator()
        return CookieSealer(secrets, using: &generator)
    }

    @Test("opens what it sealed, for the same name only")
    func names() throws {
        let sealer = sealer(secrets[0])
        let sealed = try require(sealer.seal(content, name: "sid-login-AAAAAAAA"))
        expect(sealer.open(sealed, name: "sid-login-AAAAAAAA"), equals: content)
        for name in ["sid-login-AAAAAAAB", "sid-login-AAAAAAA", "", "SID-login-AAAAAAAA"] {
            expect(sealer.open(sealed, name: name), equals: nil)
        }
    }

    @Test("adds 32 bytes, and never the same ones")
    func size() throws {
        let sealer = sealer(secrets[0])
        var seen: Set<[UInt8]> = []
        for _ in 0..<100 {
            let sealed = try require(sealer.seal(content, name: "a"))
            expect(sealed.count, equals: content.count + 32)
            expect(seen.insert(sealed).inserted)
        }
    }

    @Test("A secret can be rotated without invalidating a login, and a removed one opens nothing")
    func rotation() throws {
        let sealed = try require(sealer(secrets[0]).seal(content, name: "a"))
        expect(sealer(secrets[1], secrets[0]).open(sealed, name: "a"), equals: content)
        expect(sealer(secrets[1], secrets[2]).open(sealed, name: "a"), equals: nil)
        let new = try require(sealer(secrets[1], secrets[0]).seal(content, name: "a"))
        expect(sealer(secrets[1]).open(new, name: "a"), equals: content)
        expect(sealer(secrets[0]).open(new, name: "a"), equals: nil)
    }

    @Test("Every changed bit and every other length is rejected")
    func tampering() throws {
        let sealer = sealer(secrets[0])
        let sealed = try require(sealer.seal(content, name: "a"))
        for bit in 0..<sealed.count * 8 {
            var bad = sealed
            bad[bit / 8] ^= 1 << UInt8(bit % 8)
            expect(sealer.open(bad, name: "a"), equals: nil, "\(bit)")
        }
        for count in 0..<sealed.count { expect(sealer.open(Array(sealed.prefix(count)), name: "a"), equals: nil) }
        expect(sealer.open(sealed + [0], name: "a"), equals: nil)
    }

    @Test("Without secrets each sealer has a random one, and none shares a key with another purpose")
    func randomSecret() throws {
        let (one, two) = (sealer(), sealer())
        let sealed = try require(one.seal(content, name: "a"))
        expect(one.open(sealed, name: "a"), equals: content)
        expect(two.open(sealed, name: "a"), equals: nil)
        let keyring = SealingKeyring(secrets[0])
        let ticket = SessionTicket(cookieValue: Array(repeating: UInt8(ascii: "A"), count: 43).span)
        expect(keyring.newestCookieKey(name: "a") != keyring.newestRecordKey(ticket: try require(ticket), .one))
        expect(keyring.newestCookieKey(name: "a") != keyring.newestClientKey(SessionKey(1, 2, 3, 4), .one))
        expect(keyring.newestCookieKey(name: "a") != keyring.newestCookieKey(name: "b"))
    }
}
