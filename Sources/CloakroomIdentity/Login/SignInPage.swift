package import CloakroomCore

/// The page where users choose a provider or enter their password.
///
/// It has no script. Providers are links to `/auth/login`; the form is sent to the page's own path, so that a response for
/// a program, which is what `POST /auth` returns, is never shown to a user.
package struct SignInPage: Sendable {
    /// The name of the form's field, and of the member of a sign-in, that requests a persistent cookie.
    package static let persistentName = "persistent"

    /// What a visit of the page is about.
    package struct Visit: Sendable, Equatable, Unprintable {
        /// Where the browser continues: a ``ReturnTarget``.
        package var returnTarget: String
        /// What was typed as the name.
        package var name = ""
        /// Whether the user asked to stay signed in.
        package var isPersistent = false
        /// Whether the browser has a session.
        package var isSignedIn = false
        /// For the operator, if signing in fails.
        package var requestID = ""
    }

    private let accounts: AccountsConfiguration
    private let providers: [Provider]
    private let hasPassword: Bool
    private let isPasswordFirst: Bool
    private let asksForPersistence: Bool
    private let routes: RouteTable
    private let theme: PageTheme

    private struct Provider: Sendable {
        let name: String
        let label: String
    }

    /// - Parameter routes: The routes of the same configuration.
    package init(_ configuration: GatewayConfiguration, routes: RouteTable) {
        accounts = configuration.accounts
        providers = configuration.providers.map { Provider(name: $0.name, label: $0.displayName) }
        hasPassword = accounts.upstream != nil
        isPasswordFirst =
            if case .provider? = accounts.identities.first { false } else { true }
        asksForPersistence = configuration.session.cookie.persistence == .onRequest
        self.routes = routes
        theme = PageTheme(configuration.pages)
    }

    /// Reads the query and, after the form was sent, its fields.
    package func visit(_ request: AccountRequest) -> Visit {
        let query = FormURLEncodedBody.read(request.query)
        var visit = Visit(
            returnTarget: ReturnTarget.resolve(
                query?["returnTo"], routes: routes, group: request.routeGroup, configured: accounts.login.returnTo))
        visit.requestID = request.origin.requestID
        if let fields = FormURLEncodedBody.read(request.body.bytes) {
            visit.name = fields[JSONMemberName(accounts.name.member)] ?? ""
            visit.isPersistent = TokenClaims.isSame(fields[JSONMemberName(Self.persistentName)] ?? "", "on")
        }
        return visit
    }

    /// The page.
    /// - Parameter problem: Why the user is not signed in; its status is that of the response. `nil` for a first visit.
    package func response(_ visit: Visit, problem: Problem? = nil) -> AccountResponse {
        PageDocument(title: "Sign in", main: main(visit, problem), theme: theme)
            .response(problem, forms: hasPassword ? .gateway : .none, referrerPolicy: "same-origin")
    }

    /// The response after a successful sign-in.
    /// - Parameter signedIn: The response of the sign-in.
    package func continuation(_ visit: Visit, after signedIn: AccountResponse) -> AccountResponse {
        var response = AccountResponse.redirect(to: visit.returnTarget, cookies: [])
        response.fields += signedIn.fields
        return response
    }

    private func main(_ visit: Visit, _ problem: Problem?) -> String {
        var main = "<h1>Sign in</h1>"
        if visit.isSignedIn {
            let target = PageDocument.escaped(visit.returnTarget)
            main += "<p>You are signed in. <a href=\"\(target)\">Continue</a></p>"
        }
        if let problem { main += message(problem) + PageDocument.reference(problem, visit.requestID) }
        let box = asksForPersistence ? persistenceBox(visit) : ""
        let divider = hasPassword && !providers.isEmpty ? "<p class=\"or\">or</p>" : ""
        let choices = choices(visit)
        if !hasPassword { return main + box + choices }
        let form = form(visit, problem)
        return main
            + (isPasswordFirst
                ? form + box + Self.button + divider + choices : box + choices + divider + form + Self.button)
    }

    /// Focused, so that it is read to users who do not see it.
    private func message(_ problem: Problem) -> String {
        let wait = problem.retryAfter.map { " " + PageDocument.wait($0) } ?? ""
        return "<p id=\"message\" class=\"message\" role=\"alert\" tabindex=\"-1\" autofocus>"
            + PageDocument.escaped(problem.detail + wait) + "</p>"
    }

    private func form(_ visit: Visit, _ problem: Problem?) -> String {
        let isInvalid = problem?.code == .invalidInput || problem?.code == .unauthorized
        let described =
            (problem == nil ? "" : " aria-describedby=\"message\"") + (isInvalid ? " aria-invalid=\"true\"" : "")
        let focus = problem == nil && !visit.isSignedIn && isPasswordFirst ? " autofocus" : ""
        // Not of type `email`: browsers rewrite such values, and reject addresses that the upstream may accept.
        let (label, keyboard) =
            accounts.name.kind == .email ? ("E-mail", " inputmode=\"email\"") : ("User name", "")
        return """
            <form id="sign-in" method="post" action="\(link("page", visit))">\
            <div class="field"><label for="name">\(label)</label><input id="name" \
            name="\(PageDocument.escaped(accounts.name.member))" type="text"\(keyboard) autocomplete="username" \
            autocapitalize="none" spellcheck="false" maxlength="254" required value="\(PageDocument.escaped(visit.name))"\
            \(described)\(focus)></div>\
            <div class="field"><label for="password">Password</label><input id="password" name="password" \
            type="password" autocomplete="current-password" maxlength="1024" required\(described)></div></form>
            """
    }

    private static let button = "<button form=\"sign-in\">Sign in</button>"

    /// The box precedes the choices: the style shows the links that fit its state. It belongs to the form as well.
    private func persistenceBox(_ visit: Visit) -> String {
        let form = hasPassword ? " form=\"sign-in\" name=\"\(Self.persistentName)\"" : ""
        return "<input type=\"checkbox\" id=\"persistent\"\(form)\(visit.isPersistent ? " checked" : "")>"
            + "<label for=\"persistent\">Stay signed in on this device</label>"
    }

    private func choices(_ visit: Visit) -> String {
        guard !providers.isEmpty else { return "" }
        let items = providers.map { provider in
            let label = "Continue with \(PageDocument.escaped(provider.label))"
            func anchor(_ style: String, _ more: [(name: String, value: String)] = []) -> String {
                "<a class=\"choice\(style)\" href=\"\(link("login", visit, [("identity", provider.name)] + more))\">"
                    + "\(label)</a>"
            }
            guard asksForPersistence else { return "<li>\(anchor(""))</li>" }
            return "<li>\(anchor(" brief"))\(anchor(" lasting", [(Self.persistentName, "1")]))</li>"
        }
        return "<ul class=\"choices\">\(items.joined())</ul>"
    }

    /// The address of an endpoint of the gateway, escaped for an attribute.
    private func link(_ endpoint: String, _ visit: Visit, _ more: [(name: String, value: String)] = []) -> String {
        let query = FormEncoding.encode(more + [("returnTo", visit.returnTarget)])
        return PageDocument.escaped("\(accounts.prefix)/\(endpoint)?\(query)")
    }
}
