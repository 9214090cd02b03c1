/// A file of the status page. The page is the same for every request: its scripts draw `/status.json`.
///
/// Folder `Page/`: the files of the page, which are part of the program, and their responses.
enum StatusPage: String, CaseIterable {
    case page = "/"
    case style = "/status.css"
    /// Numbers, elements, tables and lines.
    case parts = "/draw.js"
    case script = "/status.js"

    var response: AdminResponse {
        var response = AdminResponse(status: 200, contentType: contentType, body: content)
        if self == .page { response.contentSecurityPolicy = Self.contentSecurityPolicy }
        return response
    }

    /// Only files of this listener, nothing inline but the icon, and no markup from scripts (Content Security Policy
    /// Level 3; Trusted Types).
    static let contentSecurityPolicy = [
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src data:",
        "form-action 'none'", "base-uri 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ].joined(separator: "; ")

    private var contentType: String {
        switch self {
        case .page: "text/html; charset=utf-8"
        case .style: "text/css; charset=utf-8"
        case .parts, .script: "text/javascript; charset=utf-8"
        }
    }

    var content: [UInt8] {
        switch self {
        case .page: PackageResources.index_html
        case .style: PackageResources.status_css
        case .parts: PackageResources.draw_js
        case .script: PackageResources.status_js
        }
    }
}
