import CloakroomCore
import TestSupport
import Testing

@Suite("The client of a session")
struct SessionClientInfoTests {
    @Test(
        "names the family of a user agent, though most name others too",
        arguments: [
            ("Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0", .firefox),
            ("Mozilla/5.0 (iPhone) AppleWebKit/605.1.15 (KHTML, like Gecko) FxiOS/133.0 Mobile Safari/605", .firefox),
            ("Mozilla/5.0 (X11) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36", .chrome),
            ("Mozilla/5.0 (iPhone) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/131.0 Mobile Safari/604", .chrome),
            ("Mozilla/5.0 (Macintosh) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Safari/605.1", .safari),
            ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/131.0.0.0 Safari/537.36 Edg/131.0", .edge),
            ("Mozilla/5.0 (iPhone) AppleWebKit/605.1.15 EdgiOS/131.0 Mobile Safari/605.1.15", .edge),
            ("Mozilla/5.0 (X11) AppleWebKit/537.36 Chrome/130.0.0.0 Safari/537.36 OPR/115.0.0.0", .opera),
            ("curl/8.5.0", .curl), ("okhttp/4.12.0", .okhttp),
            ("Films/12 CFNetwork/1568.200.51 Darwin/24.1.0", .cfNetwork),
            ("python-requests/2.32.3", .python), ("Python/3.12 aiohttp/3.11", .python),
            ("", .other), ("Chrome", .other), ("Firefo", .other), ("Mozilla/5.0", .other), ("\u{0}\u{ff}é", .other),
        ] as [(String, UserAgentFamily)])
    func families(userAgent: String, family: UserAgentFamily) {
        expect(UserAgentFamily(userAgent: userAgent), equals: family)
    }

    @Test("has a readable name for every family, and stored values that never change")
    func names() {
        let names = UserAgentFamily.allCases.map(\.name)
        expect(Set(names).count, equals: names.count)
        expect(names.allSatisfy { !$0.isEmpty })
        expect(UserAgentFamily.allCases.map(\.rawValue), equals: Array(0...9))
    }
}
