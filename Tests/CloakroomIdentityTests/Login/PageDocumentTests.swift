import CloakroomCore
import Crypto
import Foundation
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("A document of the gateway")
struct PageDocumentTests {
    private func policy(_ forms: PageDocument.Forms) -> String {
        PageDocument(title: "t", main: "").response(forms: forms, referrerPolicy: "no-referrer").fields
            .first { $0.name == "Content-Security-Policy" }?.value ?? ""
    }

    @Test("permits its own style by its hash, forms to the gateway where it has one, and nothing else")
    func policy() throws {
        let html = String(decoding: PageDocument(title: "t", main: "").bytes, as: UTF8.self)
        let start = try require(html.range(of: "<style>")?.upperBound)
        let end = try require(html.range(of: "</style>")?.lowerBound)
        let hash = Data(SHA256.hash(data: Data(html[start..<end].utf8))).base64EncodedString()
        expect(
            policy(.gateway),
            equals: "default-src 'none'; style-src 'sha256-\(hash)'; base-uri 'none'; form-action 'self';"
                + " frame-ancestors 'none'")
        expect(policy(.none).contains("form-action 'none'"))
        for word in ["url(", "@import", "http:", "https:", "<"] { expect(!html[start..<end].contains(word)) }
    }

    @Test("permits an own style by its hash as well, and images of the page itself, but no script and no address")
    func ownStyle() {
        var pages = PagesConfiguration.defaults
        pages.name = "<b>\"Acme\""
        pages.style = .init(file: "", text: "a{color:red}", digest: "AAA=")
        pages.logo = .init(file: "", url: "data:image/png;base64,AAAA")
        let theme = PageTheme(pages)
        let html = String(decoding: PageDocument(title: "t", main: "m", theme: theme).bytes, as: UTF8.self)
        expect(html.contains("<title>t – &lt;b&gt;&quot;Acme&quot;</title>"))
        expect(html.contains("</style><style>a{color:red}</style></head>"))
        expect(
            html.contains(
                "<p class=\"site\"><img src=\"data:image/png;base64,AAAA\" alt=\"\">&lt;b&gt;&quot;Acme&quot;</p>m"))
        expect(
            theme.policy(.none).hasSuffix(
                "' 'sha256-AAA='; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"))
        expect(theme.policy(.none).hasPrefix("default-src 'none'; style-src 'sha256-"))
    }

    @Test("is not to be interpreted as another type, nor indexed")
    func fields() {
        let fields = PageDocument(title: "", main: "").response(forms: .none, referrerPolicy: "no-referrer").fields
        expect(fields.contains(AccountResponse.Field("X-Content-Type-Options", "nosniff")))
        expect(fields.contains(AccountResponse.Field("Referrer-Policy", "no-referrer")))
        let html = String(decoding: PageDocument(title: "<t>", main: "m").bytes, as: UTF8.self)
        expect(html.contains("<meta name=\"robots\" content=\"noindex\">"))
        expect(html.contains("<title>&lt;t&gt;</title>"))
    }

    @Test("escapes every character that could end a text or a quoted attribute")
    func escaping() {
        expect(
            PageDocument.escaped("<a href=\"x\">'&'</a>"),
            equals: "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;")
        expect(PageDocument.escaped("Zoë e\u{301} 🔑"), equals: "Zoë e\u{301} 🔑")
    }
}
