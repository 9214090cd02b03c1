import CloakroomCore
import Synchronization
import TestSupport
import Testing

@Suite("What account endpoints receive and send", .serialized)
struct AccountRequestTests {
    private let recorder = Recorder()

    private final class Recorder: AccountEndpointHandler {
        private let response: AccountResponse
        private let state = Mutex<[AccountRequest]>([])

        init(_ response: AccountResponse = AccountResponse(status: 204)) { self.response = response }

        var requests: [AccountRequest] { state.withLock { $0 } }

        func respond(_ request: AccountRequest) async -> AccountResponse {
            state.withLock { $0.append(request) }
            return response
        }
    }

    private static func setup(_ recorder: Recorder, prefix: String = "/auth") -> GatewaySetup {
        GatewaySetup().with(\.endpoints, recorder).configuration { configuration in
            configuration.addCompany()
            configuration.accounts.prefix = prefix
        }
    }

    @Test("The callback gets the identity of its path, the query, the login cookies and the metadata")
    func callback() async throws {
        try await Self.setup(recorder).run { gateway, client in
            _ = try await client.exchange(
                Ask.get(
                    "/auth/callback/company?code=a%2Fb&state=c",
                    "Cookie: __Host-cloakroom-login-AAAAAAAA=one; other=x; __Host-cloakroom-login-BBBBBBBB=two",
                    "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Fetch-Site: cross-site",
                    "Sec-Purpose: prefetch", "Accept: text/html", "Accept: image/png"))
            let request = try require(recorder.requests.first)
            expect(request.endpoint, equals: .callback)
            expect(request.name, equals: "company")
            expect(String(decoding: request.query, as: UTF8.self), equals: "code=a%2Fb&state=c")
            expect(
                request.loginCookies,
                equals: [
                    ReceivedCookie(name: "__Host-cloakroom-login-AAAAAAAA", value: Array("one".utf8)),
                    ReceivedCookie(name: "__Host-cloakroom-login-BBBBBBBB", value: Array("two".utf8)),
                ])
            expect(
                request.fetchMetadata,
                equals: FetchMetadata(
                    isGET: true, mode: "navigate", destination: "document", site: "cross-site",
                    purpose: "prefetch", accept: "text/html, image/png"))
        }
    }

    @Test(
        "Only the endpoints of a login get login cookies",
        arguments: [
            ("/auth", 0), ("/auth/page", 0), ("/auth/login", 100), ("/auth/callback", 100), ("/auth/logout", 100),
        ])
    func loginCookies(path: String, count: Int) async throws {
        let cookies = (0..<100).map { "__Host-cloakroom-login-\($0)=x" }.joined(separator: "; ")
        try await Scenario("login cookies", on: Self.setup(recorder), .ask(Ask.get(path, "Cookie: \(cookies)"))).run()
        expect(recorder.requests.map(\.loginCookies.count), equals: [count])
    }

    @Test(
        "The name is the segment below the endpoint, whatever the prefix is and the identity is called",
        arguments: [
            ("/auth", "/auth/callback", nil), ("/auth", "/auth/callback/callback", "callback"),
            ("/auth", "/auth/%63allback/%63ompany", "company"), ("/a/b/c", "/a/b/c/callback", nil),
            ("/a/b/c", "/a/b/c/callback/x", "x"), ("/auth", "/auth/login", nil), ("/auth", "/auth/page", nil),
            ("/auth", "/auth", nil), ("/auth", "/auth/sessions", nil),
        ] as [(String, String, String?)])
    func names(prefix: String, path: String, name: String?) async throws {
        try await Scenario("names", on: Self.setup(recorder, prefix: prefix), .ask(Ask.get(path), 204)).run()
        let request = try require(recorder.requests.first)
        expect(request.name, equals: name)
        expect(empty: request.query)
        expect(empty: request.loginCookies)
    }

    @Test(
        "Rule 101: endpoints get the tickets of ambiguous cookies to end their sessions, and none that admits the request",
        arguments: [("/auth", true), ("/auth/backchannel", false)])
    func ambiguousTickets(path: String, isRead: Bool) async throws {
        let setup = Self.setup(recorder)
        let (one, two) = (FakeSessions.make().0, FakeSessions.make().0)
        let junk = "__Host-cloakroom=junk"
        let cookies = [one, two].map { "__Host-cloakroom=\($0.cookieValue)" }
        try await setup.run { gateway in
            let rows: [(String, [SessionTicket])] = [
                (cookies.joined(separator: "; "), [one, two]), ("\(cookies[0]); \(junk)", [one]), (cookies[1], [two]),
                (junk, []), ("a=b", []),
            ]
            for (value, tickets) in rows {
                let client = try await gateway.client()
                let request = path == "/auth" ? "DELETE" : "POST"
                let fields =
                    "Host: gateway.test\r\nCookie: \(value)\r\nSec-Fetch-Site: same-origin\r\nContent-Length: 0"
                _ = try await client.exchange("\(request) \(path) HTTP/1.1\r\n\(fields)\r\n\r\n")
                let received = try require(recorder.requests.last)
                expect(received.endingTickets, equals: (isRead ? tickets : []))
                expect(received.ticket, equals: (isRead && value == cookies[1] ? two : nil))
            }
            expect(recorder.requests.count, equals: 5)
        }
    }

    @Test("The endpoint of a provider's server reads no cookie")
    func backChannel() async throws {
        let recorder = Recorder(AccountResponse(status: 200))
        let setup = Self.setup(recorder)
        let cookie = setup.sessions.add()
        try await setup.run { gateway, client in
            let response = try await client.exchange(
                Ask.post(
                    "/auth/backchannel/company", cookie + "; __Host-cloakroom-login-AAAAAAAA=one",
                    "Content-Type: application/x-www-form-urlencoded", body: "logout_token=a"))
            expect(response.status, equals: 200)
            expect(response["Cache-Control"], equals: "no-store")
            let request = try require(recorder.requests.first)
            expect(request.endpoint, equals: .backChannel)
            expect(request.name, equals: "company")
            expect(request.ticket, equals: nil)
            expect(empty: request.loginCookies)
            expect(request.body, equals: Secret("logout_token=a"))
            let large = String(repeating: "a", count: 16_385)
            try await expect(client.exchange(Ask.post("/auth/backchannel", body: large)).status, equals: 413)
            expect(recorder.requests.count, equals: 1)
        }
    }

    @Test("The time of a request is that of its last byte: prepared requests do not arrive in the past")
    func time() async throws {
        try await Self.setup(recorder).steppedTime().run { gateway in
            let (slow, fast) = (try await gateway.client(), try await gateway.client())
            slow.send("POST /auth HTTP/1.1\r\nHost: gateway.test\r\nContent-Length: 2\r\n\r\n{")
            try await gateway.advance(.seconds(5))
            try await expect(fast.exchange(Ask.post("/auth", body: "{}")).status, equals: 204)
            slow.send("}")
            try await expect(slow.response().status, equals: 204)
            let requests = recorder.requests
            try require(requests.count == 2)
            #expect(requests[0].now <= requests[1].now)
            #expect(requests[0].wallTime <= requests[1].wallTime)
        }
    }

    private static let unavailable = Problem(.storeUnavailable, retryAfter: 5)

    private static let responses = [
        Scenario(
            "A page is HTML that no cache stores, with the fields of its endpoint and the name of its status",
            on: setup(
                Recorder(
                    AccountResponse(
                        status: 403, fields: [.init("Content-Security-Policy", "default-src 'none'")],
                        content: .html(Array("<!doctype html><p>é".utf8))))),
            .ask(
                Ask.get("/auth/callback?a"), text: "<!doctype html><p>é", line: "HTTP/1.1 403 Forbidden",
                has: [
                    "Content-Type: text/html; charset=utf-8", "Cache-Control: no-store",
                    "Content-Security-Policy: default-src 'none'",
                ])),
        Scenario(
            "A redirect of an endpoint has no body",
            on: setup(
                Recorder(AccountResponse(status: 303, fields: [.init("Location", "https://id.example.com/")]))),
            .ask(
                Ask.get("/auth/login"), line: "HTTP/1.1 303 See Other",
                has: ["Location: https://id.example.com/", "Content-Length: 0"])),
    ]

    private static let failures = [
        AccountResponse(unavailable), AccountResponse(status: 503, content: .html([0x3c], problem: unavailable)),
    ].map { response in
        Scenario(
            "A page for a failure of the gateway counts as the same error as its problem document",
            on: setup(Recorder(response)), .ask(Ask.get("/auth/callback?a"), 503),
            .run { gateway in
                try await eventually("the metric") { gateway.metrics.contains("error_type=\"store_unavailable\"") }
            })
    }

    @Test("Responses", arguments: responses + failures)
    func scenario(_ scenario: Scenario) async throws { try await scenario.run() }
}
