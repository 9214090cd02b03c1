import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("The pages of the login")
struct LoginPageTests {
    private func text(_ page: AccountResponse) -> String {
        if case .html(let body, _) = page.content { String(decoding: body, as: UTF8.self) } else { "" }
    }

    @Test("have no script, cannot be framed and send no referrer")
    func isInert() {
        for page in [
            LoginPage.failure(Problem(.loginFailed), home: "/"), LoginPage.continuation(at: "/episodes"),
            LoginPage.continuation(at: "/auth/login", isAutomatic: false),
        ] {
            let policy = page.fields.first { $0.name == "Content-Security-Policy" }?.value ?? ""
            expect(policy.contains("default-src 'none'"))
            expect(policy.contains("frame-ancestors 'none'"))
            expect(!policy.contains("script-src"))
            expect(page.fields.contains(AccountResponse.Field("Referrer-Policy", "no-referrer")))
            expect(!text(page).lowercased().contains("<script"))
        }
    }

    @Test("Identity rule 10: a failure has the status and the sentence of its problem, escaped")
    func failure() {
        let problem = Problem(.loginExpired, detail: "<b>&\"'")
        let page = LoginPage.failure(problem, home: "/a?b=1&c=\"")
        expect(page.problem, equals: problem)
        expect(page.status, equals: 400)
        expect(text(page).contains("<h1>&lt;b&gt;&amp;&quot;&#39;</h1>"))
        expect(text(page).contains("href=\"/a?b=1&amp;c=&quot;\""))
        expect(!text(page).contains("<b>"))
    }

    @Test("A failure that is not the user's has the request id", arguments: [(400, false), (502, true), (503, true)])
    func requestID(status: Int, isPresent: Bool) {
        let page = LoginPage.failure(Problem(.loginFailed, status: status), home: "/", requestID: "12<ab")
        expect(text(page).contains("<p>Request ID: 12&lt;ab</p>"), equals: isPresent)
        expect(!text(LoginPage.failure(Problem(.loginFailed), home: "/")).contains("<p>Request ID"))
    }

    @Test("Identity rule 9: the way back for a Strict cookie is one refresh in a document of status 200")
    func refresh() {
        let page = LoginPage.continuation(at: "/episodes?a=1&b='")
        expect(page.status, equals: 200)
        expect(page.problem, equals: nil)
        expect(text(page).contains("<meta http-equiv=\"refresh\" content=\"0;url=/episodes?a=1&amp;b=&#39;\">"))
        expect(text(page).components(of: "http-equiv"), equals: 1)
        let manual = LoginPage.continuation(at: "/episodes?a=1&b='", isAutomatic: false)
        expect(text(manual).components(of: "http-equiv"), equals: 0)
        expect(text(manual).contains("<a href=\"/episodes?a=1&amp;b=&#39;\">Continue</a>"))
    }

    @Test("Identity rule 9: a redirect is 303")
    func redirect() {
        let response = AccountResponse.redirect(to: "/episodes", cookies: ["a=b", "c=; Max-Age=0"])
        expect(response.status, equals: 303)
        expect(response.fields.filter { $0.name == "Set-Cookie" }.map(\.value), equals: ["a=b", "c=; Max-Age=0"])
        expect(response.fields.contains(AccountResponse.Field("Location", "/episodes")))
    }
}

extension String {
    /// How often a piece occurs.
    fileprivate func components(of piece: String) -> Int { ranges(of: piece).count }
}
