import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Links to a login")
struct LoginLinksTests {
    private func links(_ identities: [SignInSource], upstream: Int? = nil, prefix: String = "/auth") -> LoginLinks {
        LoginLinks(AccountsConfiguration(prefix: prefix, upstream: upstream, identities: identities))
    }

    @Test("A browser without a session continues at the only provider, or at the sign-in page")
    func signIn() {
        let target = Array("/a b?c=d&e=/f%2F".utf8)
        expect(
            links([.provider(0)]).signIn(returnTo: target),
            equals: "/auth/login?returnTo=%2Fa+b%3Fc%3Dd%26e%3D%2Ff%252F")
        expect(
            links([.provider(0), .upstream(0)], upstream: 0, prefix: "/x/y").signIn(returnTo: Array("/".utf8)),
            equals: "/x/y/page?returnTo=%2F")
    }

    @Test("A step-up names the route, and continues at a provider whatever else there is")
    func stepUp() {
        let links = links([.provider(0), .upstream(0)], upstream: 0)
        expect(links.stepUp(for: "a.b"), equals: "/auth/login?for=a.b")
        expect(links.stepUp(for: "pay", returnTo: Array("/pay".utf8)), equals: "/auth/login?for=pay&returnTo=%2Fpay")
    }

    @Test("A target that is longer than a login can keep is left out")
    func tooLong() {
        let links = links([.provider(0)])
        let most = Array(("/" + String(repeating: "a", count: 383)).utf8)
        expect(links.signIn(returnTo: most).hasSuffix("aaa"))
        expect(links.signIn(returnTo: most + [0x61]), equals: "/auth/login")
        expect(links.stepUp(for: "r", returnTo: most + [0x61]), equals: "/auth/login?for=r")
    }
}
