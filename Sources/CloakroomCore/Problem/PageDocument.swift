/// An HTML document of the gateway: text, links and forms, in light and dark colours. It has no script, and nothing in
/// it is loaded from elsewhere.
package struct PageDocument: Sendable, Equatable {
    /// Where the forms of a document may be sent.
    package enum Forms: String, Sendable {
        /// There are none.
        case none = "'none'"
        /// To the gateway.
        case gateway = "'self'"
    }

    /// HTML in UTF-8.
    package let bytes: [UInt8]
    private let theme: PageTheme

    /// - Parameters:
    ///   - title: Text.
    ///   - head: HTML for the head.
    ///   - main: HTML for the element `main`.
    package init(title: String, head: String = "", main: String, theme: PageTheme = .plain) {
        let start = """
            <!doctype html><html lang="en"><head><meta charset="utf-8"><title>\(Self.escaped(title))\(theme.titleEnd)\
            <meta name="viewport" content="width=device-width,initial-scale=1"><meta name="robots" content="noindex">\
            \(head)
            """
        let end = main + "</main></body></html>\n"
        var bytes: [UInt8] = []
        bytes.reserveCapacity(start.utf8.count + theme.opening.count + end.utf8.count)
        bytes += start.utf8
        bytes += theme.opening
        bytes += end.utf8
        self.bytes = bytes
        self.theme = theme
    }

    /// The response with the document.
    /// - Parameters:
    ///   - problem: The problem that the document reports, which determines the status; `nil` for none, and 200.
    ///   - referrerPolicy: `no-referrer` for a document whose address contains secrets. A browser sends `Origin: null`
    ///     with a form of such a document (Fetch, "append a request Origin header"), so documents with a form need
    ///     `same-origin`, which reveals nothing to other origins either.
    ///   - fields: Further fields.
    package func response(
        _ problem: Problem? = nil, forms: Forms, referrerPolicy: String, fields: [AccountResponse.Field] = []
    ) -> AccountResponse {
        var all = [
            AccountResponse.Field("Content-Security-Policy", theme.policy(forms)),
            AccountResponse.Field("Referrer-Policy", referrerPolicy),
            AccountResponse.Field("X-Content-Type-Options", "nosniff"),
        ]
        if let seconds = problem?.retryAfter { all.append(AccountResponse.Field("Retry-After", "\(seconds)")) }
        return AccountResponse(
            status: problem?.status ?? 200, fields: all + fields, content: .html(bytes, problem: problem))
    }

    /// HTML with the request id, for a problem that the operator has to solve.
    package static func reference(_ problem: Problem, _ requestID: String) -> String {
        problem.status < 500 || requestID.isEmpty ? "" : "<p>Request ID: \(escaped(requestID))</p>"
    }

    /// The time until the next attempt, rounded up.
    package static func wait(_ seconds: Int) -> String {
        let (count, unit) = seconds <= 90 ? (max(seconds, 1), "second") : ((seconds - 1) / 60 + 1, "minute")
        return "Try again in \(count) \(unit)\(count == 1 ? "" : "s")."
    }

    /// Text for an element or a quoted attribute.
    package static func escaped(_ text: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": result += "&amp;"
            case "<": result += "&lt;"
            case ">": result += "&gt;"
            case "\"": result += "&quot;"
            case "'": result += "&#39;"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }
}

/// What all documents have in common: the name, the logo and the styles of the site.
package struct PageTheme: Sendable, Equatable {
    /// Without name, logo and own style.
    package static let plain = PageTheme(.defaults)

    /// HTML from the end of the title on.
    fileprivate let titleEnd: String
    /// HTML from the styles to the beginning of the content.
    fileprivate let opening: [UInt8]
    private let sources: String

    package init(_ pages: PagesConfiguration) {
        let name = PageDocument.escaped(pages.name ?? "")
        titleEnd = (name.isEmpty ? "" : " – \(name)") + "</title>"
        var html = "<style>\(Self.style)</style>"
        var sources = "default-src 'none'; style-src 'sha256-\(Self.digest)'"
        if let style = pages.style {
            html += "<style>\(style.text)</style>"
            sources += " 'sha256-\(style.digest)'"
        }
        var site = name
        if let logo = pages.logo { site = "<img src=\"\(PageDocument.escaped(logo.url))\" alt=\"\">" + name }
        if pages.logo != nil || pages.style != nil { sources += "; img-src data:" }
        html += "</head><body><main>" + (site.isEmpty ? "" : "<p class=\"site\">\(site)</p>")
        opening = Array(html.utf8)
        self.sources = sources
    }

    /// The value of `Content-Security-Policy`: styles are permitted by their hashes (CSP Level 3 §2.3.1,
    /// `hash-source`), and nothing else is, scripts included.
    package func policy(_ forms: PageDocument.Forms) -> String {
        sources + "; base-uri 'none'; form-action \(forms.rawValue); frame-ancestors 'none'"
    }

    /// The SHA-256 of ``style`` in base64.
    private static let digest = "VNLh2fGcBgUfzzVjhycf7g45Q5dkQWYptZAeZVRpCSI="

    /// Text has a contrast of at least 4.5 and the borders of fields one of at least 3 against their background (WCAG 2.2
    /// §1.4.3, §1.4.11), in light and dark mode.
    private static let style = """
        :root{color-scheme:light dark;--ground:#f4f5f7;--sheet:#fff;--line:#d9dde3;--edge:#7a8492;--text:#1a1f26;\
        --soft:#565f6b;--accent:#0b57b0;--on-accent:#fff;--bad:#9c1126;--bad-ground:#fde4e6}\
        @media(prefers-color-scheme:dark){:root{--ground:#0f1216;--sheet:#171b21;--line:#2b323c;--edge:#7d8896;\
        --text:#e4e8ee;--soft:#9aa5b3;--accent:#7db7ff;--on-accent:#0f1216;--bad:#ffb3bb;--bad-ground:#3a151b}}\
        *{box-sizing:border-box}html{-webkit-text-size-adjust:100%;text-size-adjust:100%}\
        body{margin:0;background:var(--ground);color:var(--text);overflow-wrap:anywhere;\
        font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif}\
        main{max-width:24rem;margin:8vh auto 2rem;padding:1.75rem;background:var(--sheet);\
        border:1px solid var(--line);border-radius:.75rem}\
        h1{margin:0 0 1rem;font-size:1.5rem;line-height:1.25}p{margin:0 0 1rem}main>:last-child{margin-bottom:0}\
        a{color:var(--accent);text-underline-offset:.15em}\
        .site{display:flex;align-items:center;gap:.6rem;color:var(--soft);font-weight:600}\
        .site img{max-width:100%;max-height:2.5rem}\
        .message{padding:.65rem .85rem;border-radius:.5rem;background:var(--bad-ground);color:var(--bad)}\
        .field{display:block;margin:0 0 1rem}.field label{display:block;margin:0 0 .3rem;font-weight:600}\
        .field input{width:100%;min-height:2.75rem;padding:.4rem .75rem;font:inherit;color:inherit;\
        background:var(--ground);border:1px solid var(--edge);border-radius:.5rem}\
        .field input[aria-invalid=true]{border-color:var(--bad)}\
        #persistent{width:1.5rem;height:1.5rem;margin:0 .5rem 1rem 0;vertical-align:middle;accent-color:var(--accent)}\
        #persistent+label{display:inline-block;margin:0 0 1rem;vertical-align:middle}\
        button,.choice{display:block;width:100%;min-height:2.75rem;padding:.55rem 1rem;font:inherit;font-weight:600;\
        text-align:center;text-decoration:none;cursor:pointer;border:1px solid var(--accent);border-radius:.5rem}\
        button{margin:0 0 1rem;background:var(--accent);color:var(--on-accent)}\
        .choice{background:transparent;color:var(--accent)}button:hover,.choice:hover{text-decoration:underline}\
        [tabindex="-1"]:focus{outline:none}:focus-visible{outline:3px solid var(--accent);outline-offset:2px}\
        .or{display:flex;align-items:center;gap:.75rem;color:var(--soft)}\
        .or::before,.or::after{content:"";flex:1;border-top:1px solid var(--line)}\
        .choices{list-style:none;margin:0 0 1rem;padding:0;display:grid;gap:.75rem}\
        .lasting,#persistent:checked~.choices .brief{display:none}#persistent:checked~.choices .lasting{display:block}\
        @media(max-width:30rem){body{background:var(--sheet)}main{margin:0 auto;border:0;border-radius:0;padding:1.5rem 1.25rem}}
        """
}
