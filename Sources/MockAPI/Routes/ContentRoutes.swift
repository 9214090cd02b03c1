import FoundationEssentials
import HTTPTypes
import Hummingbird
import NIOCore

/// Public `/episodes`; `/videos/{id}` and `/user` with an access token.
struct ContentRoutes {
    let bearer: BearerAuthenticator

    func register(on router: Router<BasicRequestContext>) throws {
        let episodes = try JSONResponse.encode(Catalogue.episodes)
        router.get("episodes") { _, _ in JSONResponse.ok(episodes) }
        router.get("videos/:id") { request, context in
            try video(context.parameters.get("id") ?? "", for: request)
        }
        router.get("user") { request, _ in try user(request) }
    }

    /// The token is checked first, so clients without a session cannot find out which videos exist.
    private func video(_ id: String, for request: Request) throws -> Response {
        guard bearer.account(for: request) != nil else { return bearer.rejection }
        guard let video = Catalogue.video(withID: id) else {
            return JSONResponse.error(.notFound, "No such video.")
        }
        return try JSONResponse.noStore(video)
    }

    private func user(_ request: Request) throws -> Response {
        guard let account = bearer.account(for: request) else { return bearer.rejection }
        return try JSONResponse.noStore(account)
    }
}

/// A web page that uses the API through a gateway: `/`, `/app.js` and `/app.css`.
struct PageRoutes {
    /// What the page links to for sign-in.
    let identities: [PageIdentity]

    func register(on router: Router<BasicRequestContext>) {
        serve(Self.page(identities), at: "/", as: "text/html; charset=utf-8", on: router)
        serve(PackageResources.app_js, at: "/app.js", as: "text/javascript; charset=utf-8", on: router)
        serve(PackageResources.app_css, at: "/app.css", as: "text/css; charset=utf-8", on: router)
    }

    /// The page with links to `/auth/login`: navigations, because scripts cannot follow a redirect to a provider.
    static func page(_ identities: [PageIdentity]) -> [UInt8] {
        let items = identities.map { identity in
            let link = "/auth/login?identity=\(FormText.encode(identity.name))&amp;returnTo=%2F"
            return "<li><a href=\"\(link)\">Continue with \(escaped(identity.label))</a></li>"
        }
        let list = items.isEmpty ? "" : "<ul id=\"identities\">\(items.joined())</ul>"
        return Array(
            String(decoding: PackageResources.index_html, as: UTF8.self)
                .replacing("<!-- identities -->", with: list).utf8)
    }

    private static func escaped(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("<", with: "&lt;")
    }

    private func serve(
        _ bytes: [UInt8], at path: RouterPath, as type: String, on router: Router<BasicRequestContext>
    ) {
        let body = ByteBuffer(bytes: bytes)
        let headers: HTTPFields = [
            .contentType: type,
            // The content may change in the next version.
            .cacheControl: "no-cache",
            .contentSecurityPolicy: Self.contentSecurityPolicy,
            .xContentTypeOptions: "nosniff",
        ]
        router.get(path) { _, _ in Response(status: .ok, headers: headers, body: ResponseBody(byteBuffer: body)) }
    }

    /// Forbids external and inline content and framing (Content Security Policy Level 3).
    static let contentSecurityPolicy = [
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self'",
        "media-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
    ].joined(separator: "; ")
}
