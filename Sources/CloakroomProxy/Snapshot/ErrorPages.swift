import CloakroomCore
import CloakroomTelemetry
import CloakroomWire

/// The pages that report problems to users who navigate. Status and fields are those of the problem document, which
/// all other clients get.
///
/// Of a request a page contains only where to return to after signing in, which ``LoginLinks`` bounds. "Try again" is an
/// empty reference: the address of the page itself (RFC 3986 §4.4).
final class ErrorPages: Sendable {
    /// The field lines of a document in the place of which others get a page.
    static let documentLines = LocalResponse.documentLines + Array("Vary: \(FetchMetadata.shownVary)\r\n".utf8)

    /// The field lines of all pages. Addresses may contain secrets.
    private static let pageLines = Array(
        """
        Content-Type: text/html; charset=utf-8\r
        Cache-Control: no-store\r
        Vary: \(FetchMetadata.shownVary)\r
        Referrer-Policy: no-referrer\r
        X-Content-Type-Options: nosniff\r

        """.utf8)

    /// A theme, and the field lines of its pages with their policy.
    private let look: (theme: PageTheme, lines: [UInt8])
    /// Without logo and own style, up to 110 KB: of rejections that a client can cause at any rate.
    private let smallLook: (theme: PageTheme, lines: [UInt8])
    /// Whether users can sign in.
    private let hasSignIn: Bool
    private let routes: [Route]

    init(_ configuration: GatewayConfiguration) {
        look = Self.look(configuration.pages)
        var pages = configuration.pages
        (pages.logo, pages.style) = (nil, nil)
        smallLook = Self.look(pages)
        hasSignIn = configuration.accounts.isEnabled
        routes = configuration.routes
    }

    private static func look(_ pages: PagesConfiguration) -> (theme: PageTheme, lines: [UInt8]) {
        let theme = PageTheme(pages)
        return (theme, pageLines + Array("Content-Security-Policy: \(theme.policy(.none))\r\n".utf8))
    }

    /// The page for a problem, HTML in UTF-8, and its field lines.
    /// - Parameter links: Those of the request's site.
    @inline(never)
    func page(
        _ problem: Problem, requestID: ID128, of request: borrowing InboundRequest, links: LoginLinks
    ) -> (bytes: [UInt8], fieldLines: [UInt8]) {
        let title = PageDocument.escaped(problem.title)
        var main = "<h1>\(title)</h1><p>\(PageDocument.escaped(problem.detail))</p>"
        if let seconds = problem.retryAfter { main += "<p>\(PageDocument.wait(seconds))</p>" }
        main += "<p>Request ID: \(requestID)</p>"
        if problem.status == 401, hasSignIn {
            let link = signInLink(problem, request, links)
            main += "<p><a class=\"choice\" href=\"\(PageDocument.escaped(link))\">Sign in</a></p>"
        } else if Self.mayPass(problem.status), request.method == .get || request.method == .head {
            main += "<p><a class=\"choice\" href=\"\">Try again</a></p>"
        }
        let look = problem.status == 421 || problem.status == 429 ? smallLook : look
        return (PageDocument(title: problem.title, main: main, theme: look.theme).bytes, look.lines)
    }

    /// The browser returns only to what it can request again.
    private func signInLink(_ problem: Problem, _ request: borrowing InboundRequest, _ links: LoginLinks) -> String {
        let route = routes.indices.contains(request.routeIndex) ? routes[request.routeIndex].name : nil
        let target = route != nil && request.method == .get ? request.normalTarget : nil
        if problem.code == .stepUp, let route { return links.stepUp(for: route, returnTo: target) }
        return links.signIn(returnTo: target)
    }

    /// Whether the same request may succeed later.
    private static func mayPass(_ status: Int) -> Bool {
        switch status {
        case 408, 429, 500, 502, 503, 504: true
        default: false
        }
    }
}
