package import CloakroomCore

/// The small pages of the login: a failure, and the way back for a `Strict` session cookie. Neither has a script, an
/// image or anything of the provider.
package struct LoginPage: Sendable, Equatable {
    /// The status.
    package let status: Int
    /// Fields other than `Content-Type`, `Content-Length` and `Cache-Control`.
    package let fields: [AccountResponse.Field]
    /// HTML in UTF-8.
    package let body: [UInt8]

    /// The page for a failed login.
    /// - Parameters:
    ///   - problem: Its sentence is the only variable text.
    ///   - home: The target of the link: a ``ReturnTarget``.
    package init(_ problem: Problem, home: String) {
        let main =
            "<h1>\(PageDocument.escaped(problem.detail))</h1><p><a href=\"\(PageDocument.escaped(home))\">Continue</a></p>"
        self.init(
            status: problem.status, title: problem.detail, main: main,
            more: problem.retryAfter.map { [AccountResponse.Field("Retry-After", "\($0)")] } ?? [])
    }

    /// The page that follows a login if the session cookie is `SameSite=Strict`: a redirect would be part of a chain
    /// that began at the provider, and browsers send no `Strict` cookie with it (RFC 6265bis §5.2).
    /// - Parameter target: A ``ReturnTarget``.
    package init(continuingAt target: String) {
        let link = PageDocument.escaped(target)
        self.init(
            status: 200, title: "Signed in", head: "<meta http-equiv=\"refresh\" content=\"0;url=\(link)\">",
            main: "<p><a href=\"\(link)\">Continue</a></p>")
    }

    private init(
        status: Int, title: String, head: String = "", main: String, more: [AccountResponse.Field] = []
    ) {
        self.status = status
        fields = PageDocument.fields(forms: .none, referrerPolicy: "no-referrer") + more
        body = PageDocument(title: title, head: head, main: main).bytes
    }
}

extension AccountResponse {
    /// The response with a page.
    package init(_ page: LoginPage, fields: [Field] = []) {
        self.init(status: page.status, fields: page.fields + fields, content: .html(page.body))
    }

    /// The redirect to a provider: 303, so that no browser repeats a body (RFC 9700 §4.12).
    package static func loginRedirect(to url: String, cookies: [String]) -> AccountResponse {
        redirect(to: url, cookies: cookies)
    }

    /// The redirect after a login, for a session cookie that is `SameSite=Lax`.
    package static func afterLogin(to target: String, cookies: [String]) -> AccountResponse {
        redirect(to: target, cookies: cookies)
    }

    private static func redirect(to location: String, cookies: [String]) -> AccountResponse {
        AccountResponse(
            status: 303,
            fields: [Field("Location", location), Field("Referrer-Policy", "no-referrer")]
                + cookies.map { Field("Set-Cookie", $0) })
    }
}
