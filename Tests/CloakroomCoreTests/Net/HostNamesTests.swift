import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Tables of host names")
struct HostNamesTests {
    private let table = HostNames([
        ["default.test"], ["a.test", "*.a.test"], ["www.a.test"], ["*.a.test", "b.test", "a.test"],
        ["[::1]", "10.0.0.1"],
    ])

    private func value(_ authority: String) -> Int? { HostNames.folded(authority).flatMap(table.value) }

    @Test(
        "An exact name precedes a wildcard, and the first of equal names counts",
        arguments: [
            ("default.test", 0), ("a.test", 1), ("b.test", 3), ("x.a.test", 1), ("www.a.test", 2),
            ("xn--bcher-kva.a.test", 1),
            ("10.0.0.1", 4), ("[::1]", 4),
        ])
    func found(name: String, index: Int) {
        expect(value(name), equals: index)
    }

    @Test(
        "Case, port and final dot of an authority do not matter",
        arguments: ["WWW.A.Test", "www.a.test.", "www.a.test:8443", "www.a.test.:1", "www.a.test:", "wWw.a.test:00443"])
    func folded(authority: String) {
        expect(value(authority), equals: 2)
        expect(HostNames.folded("[::1]:443"), equals: "[::1]")
    }

    @Test(
        "RFC 9525 §6.3: a wildcard is one label, not none and not two",
        arguments: [
            "x.y.a.test", ".a.test", "*.a.test", "*.b.test", "a.test..", "..a.test", "test", "", ".", "127.0.0.1",
            "c.test",
            "a.test.evil", "xa.test", "a.test@b.test", "a.test,b.test", "a.test:1:2", "a.test:999999", " a.test",
            "[::2]",
            "ä.a.test", "a.test%2e", "a%2etest", "a.test/", "::1", String(repeating: "a", count: 250) + ".a.test",
        ])
    func noMatch(name: String) {
        expect(value(name), equals: nil)
    }

    @Test("A name covers itself and what its wildcard matches")
    func covers() {
        expect(HostNames.covers("a.test", "a.test") && HostNames.covers("*.a.test", "x.a.test"))
        expect(HostNames.covers("*.a.test", "*.a.test") && !HostNames.covers("x.a.test", "*.a.test"))
        expect(!HostNames.covers("*.test", "*.a.test") && !HostNames.covers("*.a.test", "a.test"))
    }

    @Test(
        "Rule 100: hosts of this machine are localhost, the names below it, 127.0.0.0/8 and [::1]",
        arguments: [
            ("localhost", true), ("localhost:8080", true), ("LocalHost.", true), ("app.localhost:1", true),
            ("a.b.LOCALHOST.", true), ("127.0.0.1", true), ("127.255.0.9:80", true), ("[::1]:8080", true),
            ("[0:0:0:0:0:0:0:1]", true), ("", false), (":80", false), (".localhost", false), ("localhost..", false),
            ("localhost.example", false), ("notlocalhost", false), ("localhost%2e", false), ("127.0.0.1.", true),
            ("127.0.0.1.example", false), ("127.1", false), ("2130706433", false), ("0x7f.0.0.1", false),
            ("0.0.0.0", false), ("128.0.0.1", false), ("::1", false), ("[::2]", false), ("[::ffff:127.0.0.1]", false),
            ("[::1", false), ("localhost@evil.example", false), ("evil.example:80", false), ("10.0.0.1", false),
        ])
    func localHosts(authority: String, isLocal: Bool) {
        expect(HostNames.folded(authority).map(HostNames.isLocal) ?? false, equals: isLocal)
    }
}
