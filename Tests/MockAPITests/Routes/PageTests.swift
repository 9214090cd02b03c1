import FoundationEssentials
import NIOCore
import NIOHTTP1
import TestSupport
import Testing

@testable import MockAPI

struct PageTests {
    @Test(
        "the page, its script and its style are public, with a policy that allows no external sources",
        arguments: [
            ("/", "text/html; charset=utf-8"), ("/app.js", "text/javascript; charset=utf-8"),
            ("/app.css", "text/css; charset=utf-8"),
        ])
    func served(path: String, type: String) async throws {
        try await MockAPI.withServer { mock in
            let response = try await mock.send(.GET, path)
            expect(response.status, equals: 200)
            expect(response.headers["content-type"], equals: [type])
            expect(response.headers["x-content-type-options"], equals: ["nosniff"])
            let policy = try require(response.headers["content-security-policy"].first)
            expect(policy.hasPrefix("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"))
            for word in ["unsafe", "http", "*", "data:"] { expect(!policy.contains(word)) }
        }
    }

    @Test("the page links to the identities of the gateway, and has no list without any")
    func identities() throws {
        let page = String(
            decoding: PageRoutes.page(["Example & <Co>", "club"]), as: UTF8.self)
        expect(
            page.contains(
                "<ul id=\"identities\"><li><a href=\"/auth/login?identity=Example%20%26%20%3CCo%3E&amp;returnTo=%2F\">Continue with"
                    + " Example &amp; &lt;Co></a></li><li><a href=\"/auth/login?identity=club&amp;returnTo=%2F\">"))
        expect(!String(decoding: PageRoutes.page([]), as: UTF8.self).contains("identities"))
    }

    @Test("the page has no inline or external resources, and its script stores nothing")
    func selfContained() throws {
        let page = String(decoding: PackageResources.index_html, as: UTF8.self)
        let script = String(decoding: PackageResources.app_js, as: UTF8.self)
        for word in ["http:", "https:", " style=", " onclick=", "<style", "<script>"] { expect(!page.contains(word)) }
        for word in ["http:", "https:", "localStorage", "sessionStorage", "indexedDB", "document.cookie", "innerHTML"] {
            expect(!script.contains(word), "\(word)")
        }
    }
}
