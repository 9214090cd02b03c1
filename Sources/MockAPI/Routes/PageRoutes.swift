import HTTPTypes
import Hummingbird
import NIOCore

/// A web page that uses the API through a gateway: `/`, `/app.js` and `/app.css`.
struct PageRoutes {
    func register(on router: Router<BasicRequestContext>) {
        serve(PackageResources.index_html, at: "/", as: "text/html; charset=utf-8", on: router)
        serve(PackageResources.app_js, at: "/app.js", as: "text/javascript; charset=utf-8", on: router)
        serve(PackageResources.app_css, at: "/app.css", as: "text/css; charset=utf-8", on: router)
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
