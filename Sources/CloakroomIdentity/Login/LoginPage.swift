package import CloakroomCore

/// The small pages of the login: a failure, and a continuation for a `Strict` session cookie. Neither has a script, an
/// image or anything of the provider.
package enum LoginPage {
    /// The page for a failed login.
    /// - Parameters:
    ///   - problem: Its sentence is the only variable text.
    ///   - home: The target of the link: a ``ReturnTarget``.
    ///   - requestID: Shown if the operator has to solve the problem.
    package static func failure(
        _ problem: Problem, home: String, requestID: String = "", theme: PageTheme = .plain,
        fields: [AccountResponse.Field] = []
    ) -> AccountResponse {
        let sentence = PageDocument.escaped(problem.detail)
        let reference = PageDocument.reference(problem, requestID)
        return PageDocument(
            title: problem.detail,
            main: "<h1>\(sentence)</h1>\(reference)<p><a href=\"\(PageDocument.escaped(home))\">Continue</a></p>",
            theme: theme
        ).response(problem, forms: .none, referrerPolicy: "no-referrer", fields: fields)
    }

    /// The page that continues a navigation of another site if the session cookie is `SameSite=Strict`: a redirect
    /// would be part of that navigation, and browsers send no `Strict` cookie with it (RFC 6265bis §5.2).
    /// - Parameters:
    ///   - target: A path and query of the gateway, or the URL of an app.
    ///   - isAutomatic: Whether the browser continues by itself; otherwise the user follows the link.
    ///   - text: That of the link.
    package static func continuation(
        at target: String, title: String = "Signed in", isAutomatic: Bool = true, text: String = "Continue",
        theme: PageTheme = .plain, fields: [AccountResponse.Field] = []
    ) -> AccountResponse {
        let link = PageDocument.escaped(target)
        return PageDocument(
            title: title, head: isAutomatic ? "<meta http-equiv=\"refresh\" content=\"0;url=\(link)\">" : "",
            main: "<p><a href=\"\(link)\">\(PageDocument.escaped(text))</a></p>", theme: theme
        ).response(forms: .none, referrerPolicy: "no-referrer", fields: fields)
    }
}

extension AccountResponse {
    /// The redirect to a provider, or to where the browser continues after a login: 303, so that no browser repeats a
    /// body (RFC 9700 §4.12). The target does not receive the URL of the gateway.
    package static func redirect(to location: String, cookies: [String]) -> AccountResponse {
        AccountResponse(
            status: 303,
            fields: [Field("Location", location), Field("Referrer-Policy", "no-referrer")]
                + cookies.map { Field("Set-Cookie", $0) })
    }
}
