import FoundationEssentials
import NIOCore
import NIOHTTP1

/// Public `/episodes`; `/videos/{id}` and `/user` with an access token.
struct ContentRoutes {
    let bearer: BearerAuthenticator

    func routes() throws -> RouteTable {
        let episodes = try MockResponse.json(Catalogue.episodes).body
        return [
            "GET /episodes": { _ in MockResponse(.ok, MockResponse.jsonFields, body: episodes) },
            // The token is checked first, so clients without a session cannot find out which videos exist.
            "GET /videos/*": { request in
                try bearer.respond(request) { _ in
                    try Catalogue.video(withID: request.lastSegment).map { try .noStore($0) }
                        ?? .error(.notFound, "No such video.")
                }
            },
            "GET /user": { try bearer.respond($0) { try .noStore($0) } },
        ]
    }
}

/// A web page that uses the API through a gateway: `/`, `/app.js` and `/app.css`.
struct PageRoutes {
    /// What the page links to for sign-in.
    let identities: [String]

    var routes: RouteTable {
        [
            "GET /": Self.serve(Self.page(identities), as: "text/html; charset=utf-8"),
            "GET /app.js": Self.serve(PackageResources.app_js, as: "text/javascript; charset=utf-8"),
            "GET /app.css": Self.serve(PackageResources.app_css, as: "text/css; charset=utf-8"),
        ]
    }

    /// The page with links to `/auth/login`: navigations, because scripts cannot follow a redirect to a provider.
    static func page(_ identities: [String]) -> [UInt8] {
        let items = identities.map { identity in
            let link = "/auth/login?identity=\(FormText.encode(identity))&amp;returnTo=%2F"
            return "<li><a href=\"\(link)\">Continue with \(escaped(identity))</a></li>"
        }
        let list = items.isEmpty ? "" : "<ul id=\"identities\">\(items.joined())</ul>"
        return Array(
            String(decoding: PackageResources.index_html, as: UTF8.self)
                .replacing("<!-- identities -->", with: list).utf8)
    }

    private static func escaped(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("<", with: "&lt;")
    }

    private static func serve(_ bytes: [UInt8], as type: String) -> MockHandler {
        let body = ByteBuffer(bytes: bytes)
        let fields: HTTPHeaders = [
            "Content-Type": type,
            // The content may change in the next version.
            "Cache-Control": "no-cache",
            "Content-Security-Policy": contentSecurityPolicy,
            "X-Content-Type-Options": "nosniff",
        ]
        return { _ in MockResponse(.ok, fields, body: body) }
    }

    /// Forbids external and inline content and framing (Content Security Policy Level 3).
    static let contentSecurityPolicy = [
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self'",
        "media-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
    ].joined(separator: "; ")
}
