import CloakroomCore
import Testing

@testable import CloakroomAdmin

@Suite("Failed identity calls on the status page")
struct IdentityCallsPageTests {
    private func page(_ failures: [IdentityCallFailure]) throws -> String {
        var made = SampleStatus()
        made.identityCalls = failures.map { .init(time: SampleStatus.now - .seconds(75), failure: $0) }
        return try #require(StatusPage(made.document()).html())
    }

    @Test("A call has its request, upstream, status, reason, hint, key, duration and time")
    func facts() throws {
        let html = try page([
            IdentityCallFailure(
                call: .signIn, source: .upstream("api"), method: "POST", server: "api.test:443", path: "/login",
                status: 200,
                defect: .init(
                    "member_missing", key: "signIn.accessToken", expected: "access_token", found: ["jwt", "user"]),
                nanoseconds: 12_000_000)
        ])
        for text in [
            "Failed identity calls", ">sign in<", "POST api.test:443/login", ">api<", ">200<", "member missing",
            "set signIn.accessToken to the member",
            ">signIn.accessToken<", "expected access_token; found jwt, user", "12\u{202F}ms",
            "2027-01-15 07:58:45 UTC", "1\u{202F}min 15\u{202F}s ago", "data-label=\"Key\"",
        ] {
            #expect(html.contains(text), "\(text)")
        }
    }

    @Test("A call without a response to a provider, and one to no target")
    func withoutResponse() throws {
        let html = try page([
            IdentityCallFailure(
                call: .discovery, source: .identity("company"), method: "GET", server: "", path: "/.well-known",
                defect: .init("unreachable"), nanoseconds: 1_000_000)
        ])
        for text in [">discovery<", ">company<", ">provider<", ">None<", ">no response<", "GET /.well-known"] {
            #expect(html.contains(text), "\(text)")
        }
    }

    @Test("The section is absent without failures, and text of the server does not become markup")
    func escaping() throws {
        #expect(!(try page([])).contains("Failed identity calls"))
        let html = try page([
            IdentityCallFailure(
                call: .user, source: .upstream("<b>"), method: "GET", server: "<b>", path: "/<script>",
                defect: .init("unreachable", key: "<b>", expected: "<b>", found: ["<b>"]), nanoseconds: 0)
        ])
        #expect(!html.contains("<script") && !html.contains("<b>&") && !html.contains("><b><"))
        #expect(html.contains("/&lt;script&gt;"))
    }
}
