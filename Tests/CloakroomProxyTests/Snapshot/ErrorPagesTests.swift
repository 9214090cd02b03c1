import TestSupport
import Testing

@testable import CloakroomCore

/// Problems as pages: which requests get them, and what they contain.
@Suite("Pages for problems", .serialized)
struct ErrorPagesTests {
    private static let html = "Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"
    private static let navigate = "Sec-Fetch-Mode: navigate"

    private static func setup(
        _ reply: String = Reply.ok, _ change: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in }
    ) -> GatewaySetup {
        .replying(reply).configuration { configuration in
            configuration.pages.errors = true
            configuration.pages.name = "Acme"
            configuration.upstreams[0].signIn = IdentityEndpointConfiguration(path: "/auth", credentials: .basic)
            configuration.accounts = AccountsConfiguration(prefix: "/session", upstream: 0)
            change(&configuration)
        }
    }

    private static func get(_ path: String, _ fields: String...) -> String {
        Ask.ask("GET", path, [html, navigate] + fields)
    }

    private static let common = [
        "Content-Type: text/html; charset=utf-8", "Cache-Control: no-store", "…Vary: Accept, Sec-Fetch-Mode",
        "Referrer-Policy: no-referrer", "X-Content-Type-Options: nosniff", "Location",
        "Content-Security-Policy: default-src 'none'; style-src 'sha256-…'; base-uri 'none'; form-action 'none';"
            + " frame-ancestors 'none'",
    ]
    private static let asJSON = ["Content-Type: application/problem+json", "Content-Security-Policy"]

    private static let rows = [
        Scenario(
            "A navigation gets a page with the name, a sentence, the request id and the status of the problem",
            on: setup(),
            .all(
                [get("/nothing"), Ask.ask("POST", "/nothing", ["Content-Length: 0", html, navigate])], 404,
                text: "<!doctype html>…<title>Not Found – Acme</title>…<p class=\"site\">Acme</p><h1>Not Found</h1>"
                    + "<p>No resource at this path.</p><p>Request ID: …</p></main></body></html>\n",
                has: common, lacks: ["<script", "Try again"]), sent: [], alsoHTTP2: true),
        Scenario(
            "Without fetch metadata, Accept decides", on: setup(),
            .ask(Ask.get("/nothing", html), 404, has: common),
            .ask(Ask.get("/nothing", "Accept: TEXT/HTML"), 404, has: common),
            .ask(Ask.get("/nothing", "Accept: */*", "Accept: text/html"), 404, has: common), alsoHTTP2: true),
        Scenario(
            "Scripts, programs and images get the problem document, which varies by the same fields", on: setup(),
            .all(
                [
                    Ask.get("/nothing"), Ask.get("/nothing", "Accept: */*"), Ask.get("/nothing", navigate),
                    Ask.get("/nothing", html, "Sec-Fetch-Mode: cors"), Ask.get("/nothing", "Accept: text/htm"),
                    Ask.get("/nothing", html, "Sec-Fetch-Mode: no-cors"), Ask.get("/nothing", "Accept: text/htmlx"),
                    Ask.get("/nothing", navigate, "Accept: text/html;q=0"),
                    Ask.get("/nothing", html, navigate, navigate),
                    Ask.get("/nothing", "Accept: application/json, text/plain, image/webp, text/xhtml, */*"),
                ], 404, "not_found", has: asJSON + ["Vary: Accept, Sec-Fetch-Mode", "Cache-Control: no-store"]),
            alsoHTTP2: true),
        Scenario(
            "HEAD gets the same fields without a body", on: setup(),
            .ask(Ask.ask("HEAD", "/private/a", [html]), 401, text: "", has: common + ["WWW-Authenticate: Session …"]),
            alsoHTTP2: true),
        Scenario(
            "Without pages.errors nothing changes", on: setup { $0.pages.errors = false },
            .ask(get("/nothing"), 404, "not_found", has: asJSON + ["Vary"]), alsoHTTP2: true),
        Scenario(
            "Responses of upstreams are never replaced",
            on: setup("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy"),
            .ask(get("/public/a"), 503, text: "busy", has: ["Content-Security-Policy", "Vary", "Content-Type"]),
            alsoHTTP2: true),
        Scenario(
            "A 401 links to where the user signs in, and returns from there", on: setup(),
            .ask(
                get("/private/a?b=%22%3Cc&d=<e>'"), 401,
                text: "…<a class=\"choice\" href=\"/session/page?returnTo=%2Fprivate%2Fa%3Fb%3D%2522%253Cc%26d%3D%3Ce"
                    + "%3E%27\">Sign in</a>…", has: common + ["WWW-Authenticate: Session realm=\"cloakroom\""]),
            .ask(
                Ask.ask("POST", "/private/a", ["Content-Length: 0", html, navigate]), 401,
                text: "…<a class=\"choice\" href=\"/session/page\">Sign in</a>…"),
            .ask(
                get("/private/" + String(repeating: "a", count: 2_000)), 401,
                text: "…<a class=\"choice\" href=\"/session/page\">Sign in</a>…", lacks: ["aaaaaaaa"]), sent: [],
            alsoHTTP2: true),
        Scenario(
            "Without a sign-in there is no link", on: setup { $0.accounts.upstream = nil },
            .ask(get("/private/a"), 401, has: common, lacks: ["href"]), sent: []),
        Scenario(
            "A rate limit has its wait in the page and in the field, and neither logo nor style of the site",
            on: setup { configuration in
                configuration.pages.style = .init(file: "", text: "a{color:red}", digest: "AAA=")
                configuration.pages.logo = .init(file: "", url: "data:image/png;base64,AAAA")
                var limit = RateLimit(name: "few")
                limit.requests = RequestRate(1, per: .hour)
                limit.givenBurst = 1
                configuration.rateLimits = [limit]
                configuration.limits.rate = ["few"]
            }, .ask(get("/nothing"), 404, text: "…a{color:red}…<img src=…"),
            .ask(
                get("/public/a"), 429,
                text: "…<h1>Too Many Requests</h1>…<p>Try again in 60 minutes.</p>…<a class=\"choice\" href=\"\">"
                    + "Try again</a>…",
                has: common + ["Retry-After: …", "RateLimit: \"few\";…"], lacks: ["<img", "color:red"])),
        Scenario(
            "Rule 99: a page shows nothing of the request",
            on: setup(),
            .each(
                [
                    get("/<script>alert(1)</script>"), get("/nothing?<script>x</script>\"'"), get("/a/../<script>"),
                    get("/nothing", "User-Agent: <script>", "Referer: http://gateway.test/<script>"),
                    Ask.ask("<script>", "/nothing", [html]), get("/nothing", "X-Request-Id: <script>"),
                ], has: ["Location"], lacks: ["<script", "alert"]), sent: [], alsoHTTP2: false),
        Scenario(
            "Rule 99: names and sentences of the configuration are shown as text",
            on: setup {
                $0.pages.name = "<script>alert(1)</script>&\"'"
                $0.changePrivate { $0.messages[.unauthorized] = "<img src=x onerror=alert(1)>" }
            },
            .ask(
                get("/private/a"), 401,
                text: "…<title>Unauthorized – &lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;&#39;</title>…"
                    + "<p class=\"site\">&lt;script&gt;…<p>&lt;img src=x onerror=alert(1)&gt;</p>…",
                lacks: ["<script", "<img"]),
            alsoHTTP2: true),
        Scenario(
            "After a reload, pages have the new name", on: setup(), .ask(get("/a"), 404, text: "…– Acme</title>…"),
            .replace { $0.pages.name = "Other" }, .ask(get("/a"), 404, text: "…– Other</title>…")),
    ]

    @Test("Pages for problems", arguments: rows)
    func pages(_ scenario: Scenario) async throws {
        try await scenario.run()
    }

    @Test("The size of a page does not depend on the request")
    func bound() async throws {
        try await Self.setup().run { gateway, client in
            let short = try await client.exchange(Self.get("/nothing"))
            let target = "/nothing?" + String(repeating: "<", count: 6_000)
            let long = try await client.exchange(Self.get(target, "X: " + String(repeating: "a", count: 999)))
            expect(short.status, equals: 404)
            expect(short.text.utf8.count, equals: long.text.utf8.count)
        }
    }
}
