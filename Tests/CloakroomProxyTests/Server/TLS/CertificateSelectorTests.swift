import Testing

@testable import CloakroomProxy

@Suite struct CertificateSelectorTests {
    private let table = CertificateSelector([
        ["default.test"], ["a.test", "*.a.test"], ["www.a.test"], ["*.a.test", "b.test", "a.test"],
    ])

    @Test(arguments: [
        ("default.test", 0), ("a.test", 1), ("b.test", 3), ("x.a.test", 1), ("www.a.test", 2), ("WWW.A.Test", 2),
    ])
    func theVeryNameComesBeforeAWildcardAndTheFirstBeforeTheRest(name: String, index: Int) {
        #expect(table.index(for: name) == index)
    }

    @Test(
        "RFC 9525 §6.3: a wildcard is one label, not none and not two",
        arguments: ["x.y.a.test", ".a.test", "*.b.test", "a.test.", "test", "", ".", "127.0.0.1", "c.test"])
    func noMatch(name: String) {
        #expect(table.index(for: name) == nil)
    }
}
