import Foundation
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

@Suite("The sign-in page")
struct SignInPageTests {
    static func configuration(
        providers: [(name: String, label: String?)] = [], hasPassword: Bool = true, isPasswordFirst: Bool = true,
        name: AccountsConfiguration.SignInName = .init(),
        persistence: CookieConfiguration.Persistence = .never, messages: [ProblemCode: String] = [:]
    ) throws -> GatewayConfiguration {
        let identities = providers.map { provider in
            IdentityConfiguration(
                name: provider.name, issuer: "https://\(provider.name).example.com",
                client: IdentityClientConfiguration(id: "id", authentication: .basic(Secret("secret"))),
                label: provider.label)
        }
        let sources = identities.indices.map(SignInSource.provider)
        let own: [SignInSource] = hasPassword ? [.upstream(0)] : []
        return GatewayConfiguration(
            identities: identities,
            routes: [
                Route(name: "home", methods: ["GET"], pattern: try PathPattern("/"), requiresAuthorization: false),
                Route(
                    name: "video", methods: ["GET"], pattern: try PathPattern("/videos/{id}"),
                    requiresAuthorization: true),
            ],
            accounts: AccountsConfiguration(
                prefix: "/auth", upstream: hasPassword ? 0 : nil, name: name, messages: messages,
                publicURL: "https://app.example.com",
                identities: sources.isEmpty ? [] : isPasswordFirst ? own + sources : sources + own),
            session: SessionConfiguration(cookie: CookieConfiguration(persistence: persistence)))
    }

    static func page(_ configuration: GatewayConfiguration) -> SignInPage {
        SignInPage(configuration, routes: RouteTable(configuration))
    }

    private func request(_ query: String = "", body: String = "") -> AccountRequest {
        AccountRequest(
            endpoint: .page, query: Array(query.utf8), body: Secret(body), now: AccountControllerFixture.now)
    }

    private func html(
        _ configuration: GatewayConfiguration, _ query: String = "", body: String = "", problem: Problem? = nil
    ) throws -> String {
        let page = Self.page(configuration)
        return try require(page.response(page.visit(request(query, body: body)), problem: problem).html)
    }

    @Test("Rule 99: shows the name of the site as text, like the pages of logins and of problems")
    func siteName() throws {
        var configuration = try Self.configuration()
        configuration.pages.name = "<script>Acme"
        let html = try html(configuration)
        expect(html.contains("<title>Sign in – &lt;script&gt;Acme</title>"))
        expect(html.contains("<p class=\"site\">&lt;script&gt;Acme</p>"))
        expect(!html.contains("<script"))
    }

    @Test("has labelled fields that password managers recognize, in a form for the page's own path")
    func form() throws {
        let html = try html(try Self.configuration(), "returnTo=/videos/1%3Ft%3D5")
        expect(
            html.contains("<form id=\"sign-in\" method=\"post\" action=\"/auth/page?returnTo=%2Fvideos%2F1%3Ft%3D5\">"))
        expect(html.contains("<label for=\"name\">E-mail</label><input id=\"name\" name=\"email\""))
        expect(html.contains("autocomplete=\"username\""))
        expect(html.contains("<label for=\"password\">Password</label>"))
        expect(html.contains("type=\"password\" autocomplete=\"current-password\""))
        expect(!html.contains("role=\"alert\""))
        expect(!html.contains("persistent\""))
        expect(!html.contains("class=\"choices\""))
        expect(!html.lowercased().contains("<script"))
    }

    @Test("has the configured member and kind of the name")
    func name() throws {
        let html = try html(try Self.configuration(name: .init(member: "user\"", kind: .text)))
        expect(html.contains("<label for=\"name\">User name</label><input id=\"name\" name=\"user&quot;\""))
        expect(!html.contains("inputmode"))
    }

    @Test("links to each provider by its label, with the place to return to")
    func providers() throws {
        let configuration = try Self.configuration(
            providers: [("company", nil), ("club", "Club <&> Co")], hasPassword: false)
        let html = try html(configuration, "returnTo=%2Fvideos%2F1")
        expect(
            html.contains(
                "<a class=\"choice\" href=\"/auth/login?identity=company&amp;returnTo=%2Fvideos%2F1\">Continue with company</a>"
            ))
        expect(html.contains("?identity=club&amp;returnTo=%2Fvideos%2F1\">Continue with Club &lt;&amp;&gt; Co</a>"))
        expect(!html.contains("<form"))
        let page = Self.page(configuration)
        let policy = page.response(page.visit(request())).values(of: "Content-Security-Policy")
        expect(policy.map { $0.contains("form-action 'none'") }, equals: [true])
    }

    @Test("shows first what users sign in with by default", arguments: [true, false])
    func order(isPasswordFirst: Bool) throws {
        let html = try html(
            try Self.configuration(providers: [("company", nil)], isPasswordFirst: isPasswordFirst))
        let form = try require(html.range(of: "<form")).lowerBound
        let choices = try require(html.range(of: "class=\"choices\"")).lowerBound
        let divider = try require(html.range(of: "class=\"or\"")).lowerBound
        expect(form < choices, equals: isPasswordFirst)
        expect((min(form, choices)..<max(form, choices)).contains(divider))
        // The box of the style's selector precedes the choices in either order.
        let asking = try self.html(
            try Self.configuration(
                providers: [("company", nil)], isPasswordFirst: isPasswordFirst, persistence: .onRequest))
        let box = try require(asking.range(of: "id=\"persistent\"")).lowerBound
        #expect(box < (try require(asking.range(of: "class=\"choices\"")).lowerBound))
    }

    @Test(
        "returns only to routes of the gateway",
        arguments: ["//evil.test", "https://evil.test", "/nowhere", "/auth", ""])
    func returnTarget(text: String) throws {
        let page = Self.page(try Self.configuration())
        expect(page.visit(request("returnTo=" + FormEncoding.encode(text))).returnTarget, equals: "/")
        expect(page.visit(request("returnTo=%2Fvideos%2F1")).returnTarget, equals: "/videos/1")
        expect(page.visit(request("returnTo=%2Fvideos%2F1&returnTo=%2F")).returnTarget, equals: "/")
        expect(page.visit(request("%")).returnTarget, equals: "/")
    }

    @Test(
        "asks whether to stay signed in only where the sign-in decides",
        arguments: CookieConfiguration.Persistence.allCases)
    func persistence(persistence: CookieConfiguration.Persistence) throws {
        let html = try html(try Self.configuration(providers: [("company", nil)], persistence: persistence))
        let asks = persistence == .onRequest
        expect(
            html.contains("<input type=\"checkbox\" id=\"persistent\" form=\"sign-in\" name=\"persistent\">"),
            equals: asks)
        expect(html.contains("<label for=\"persistent\">Stay signed in on this device</label>"), equals: asks)
        expect(
            html.contains("<a class=\"choice lasting\" href=\"/auth/login?identity=company&amp;persistent=1&amp;"),
            equals: asks)
        expect(
            html.contains("<a class=\"choice brief\" href=\"/auth/login?identity=company&amp;returnTo="), equals: asks)
    }

    @Test("shows a failure as a focused alert, with the status and the sentence of its problem and what was typed")
    func failure() throws {
        let configuration = try Self.configuration(persistence: .onRequest)
        let page = Self.page(configuration)
        let visit = page.visit(
            request(body: "email=%22%3Cjo%40example.com%3E&password=canary-password&persistent=on"))
        let response = page.response(visit, problem: Problem(.unauthorized, detail: "Wrong <password>."))
        let html = try require(response.html)
        expect(response.status, equals: 401)
        expect(
            html.contains(
                "<p id=\"message\" class=\"message\" role=\"alert\" tabindex=\"-1\" autofocus>Wrong &lt;password&gt;.</p>"
            ))
        expect(html.contains("value=\"&quot;&lt;jo@example.com&gt;\""))
        expect(html.ranges(of: "aria-describedby=\"message\" aria-invalid=\"true\"").count, equals: 2)
        expect(html.ranges(of: "autofocus").count, equals: 1)
        expect(html.contains("name=\"persistent\" checked>"))
        expect(!html.contains("canary-password"))
        expect(!String(reflecting: visit).contains("example.com"))
    }

    @Test(
        "shows how long to wait",
        arguments: [
            (0, "1 second"), (1, "1 second"), (90, "90 seconds"), (91, "2 minutes"), (300, "5 minutes"),
            (301, "6 minutes"),
        ])
    func wait(seconds: Int, text: String) throws {
        let page = Self.page(try Self.configuration())
        let response = page.response(page.visit(request()), problem: Problem(.throttled, retryAfter: seconds))
        expect(response.status, equals: 429)
        expect(response.values(of: "Retry-After"), equals: ["\(seconds)"])
        try expect(require(response.html).contains("Too many attempts. Try again later. Try again in \(text).</p>"))
    }

    @Test("has the same elements and attributes whatever was typed or configured")
    func structure() throws {
        func counts(_ text: String) throws -> [Int] {
            let configuration = try Self.configuration(providers: [("company", text)], persistence: .onRequest)
            let html = try html(
                configuration, body: FormEncoding.encode([("email", text), ("password", text)]),
                problem: Problem(.unauthorized, detail: text))
            return ["<", ">", "\"", "'"].map { mark in html.unicodeScalars.count { $0 == mark } }
        }
        let plain = try counts("x")
        var generator = CountingGenerator(state: 7)
        let special = Array("<>\"'&/=`;# \u{301}e".unicodeScalars)
        for _ in 0..<200 {
            var text = "".unicodeScalars
            for _ in 0..<12 { text.append(special[Int.random(in: special.indices, using: &generator)]) }
            try expect(counts(String(text)), equals: plain, "\(text)")
        }
    }

    @Test("cannot be framed, and sends its address to no other origin")
    func fields() throws {
        let page = Self.page(try Self.configuration())
        let response = page.response(page.visit(request()))
        expect(
            response.values(of: "Content-Security-Policy").map { $0.contains("frame-ancestors 'none'") }, equals: [true]
        )
        expect(response.values(of: "Referrer-Policy"), equals: ["same-origin"])
        expect(response.values(of: "X-Content-Type-Options"), equals: ["nosniff"])
        expect(response.values(of: "Retry-After"), equals: [])
    }
}

extension AccountResponse {
    /// The HTML document, as text.
    var html: String? {
        if case .html(let bytes, _) = content { String(decoding: bytes, as: UTF8.self) } else { nil }
    }
}
