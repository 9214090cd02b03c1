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

    /// The field lines of a page.
    let fieldLines: [UInt8]
    private let theme: PageTheme
    /// `nil` if users cannot sign in.
    private let links: LoginLinks?
    private let routes: [Route]

    init(_ configuration: GatewayConfiguration, links: LoginLinks) {
        theme = PageTheme(configuration.pages)
        // Addresses may contain secrets.
        fieldLines = Array(
            """
            Content-Type: text/html; charset=utf-8\r
            Cache-Control: no-store\r
            Vary: \(FetchMetadata.shownVary)\r
            Content-Security-Policy: \(theme.policy(.none))\r
            Referrer-Policy: no-referrer\r
            X-Content-Type-Options: nosniff\r

            """.utf8)
        self.links = configuration.accounts.isEnabled ? links : nil
        routes = configuration.routes
    }

    /// The page for a problem: HTML in UTF-8.
    @inline(never)
    func page(_ problem: Problem, requestID: ID128, of request: borrowing InboundRequest) -> [UInt8] {
        let title = PageDocument.escaped(problem.title)
        var main = "<h1>\(title)</h1><p>\(PageDocument.escaped(problem.detail))</p>"
        if let seconds = problem.retryAfter { main += "<p>\(PageDocument.wait(seconds))</p>" }
        main += "<p>Request ID: \(requestID)</p>"
        if problem.status == 401, let link = signInLink(problem, request) {
            main += "<p><a class=\"choice\" href=\"\(PageDocument.escaped(link))\">Sign in</a></p>"
        } else if Self.mayPass(problem.status), request.method == .get || request.method == .head {
            main += "<p><a class=\"choice\" href=\"\">Try again</a></p>"
        }
        return PageDocument(title: problem.title, main: main, theme: theme).bytes
    }

    /// The browser returns only to what it can request again.
    private func signInLink(_ problem: Problem, _ request: borrowing InboundRequest) -> String? {
        let route = routes.indices.contains(request.routeIndex) ? routes[request.routeIndex].name : nil
        let target = route != nil && request.method == .get ? request.normalTarget : nil
        if problem.code == .stepUp, let route { return links?.stepUp(for: route, returnTo: target) }
        return links?.signIn(returnTo: target)
    }

    /// Whether the same request may succeed later.
    private static func mayPass(_ status: Int) -> Bool {
        switch status {
        case 408, 429, 500, 502, 503, 504: true
        default: false
        }
    }
}

/// The media type `text/html` in the value of `Accept`.
enum HTMLType {
    private static let name = Array("text/html".utf8)

    /// Whether the name occurs, in any case. Compared at its end first: of other values few bytes are read.
    static func occurs(in value: Span<UInt8>) -> Bool {
        let name = Self.name
        var end = name.count
        while end <= value.count {
            let last = Byte.lowerCase(value[end - 1])
            var isEqual = last == name[name.count - 1]
            var offset = 0
            while isEqual, offset < name.count {
                isEqual = Byte.lowerCase(value[end - name.count + offset]) == name[offset]
                offset += 1
            }
            if isEqual { return true }
            end += name.contains(last) ? 1 : name.count
        }
        return false
    }
}
