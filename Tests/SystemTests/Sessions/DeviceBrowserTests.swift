import MockAPI
import TestSupport
import Testing

/// Sessions that a real browser binds to a key of its own.
@Suite("Device-bound sessions in a browser", .timeLimit(.minutes(3)))
struct DeviceBrowserTests {
    private static let boundCookie = "__Host-cloakroom-bound"
    /// The box of the sign-in page keeps the session cookie when the browser is closed.
    private static let settings = [
        "session.device.mode=auto", "session.device.lifetime=10s", "session.cookie.persistent=onRequest",
    ]

    /// The browser signs 6 times in 9 minutes at most, twice if a challenge is old, and refreshes with each request if
    /// less than 2 minutes are left. So the owner sends few.
    @Test("Rules 114, 115 and 117: a browser binds its session and refreshes; a copy of its cookies is worthless soon")
    func theft() async throws {
        try await SampleAppGateway.running(set: Self.settings) { gateway, _ in
            let video = "\(gateway.address)/videos/1"
            let browser = BrowserSession(acceptsAnyCertificate: true, bindsSessionsOf: gateway.certificateFile)
            let run = try await browser.run([
                .open("\(gateway.address)/auth/page?returnTo=%2Fvideos%2F1"),
                .type("jo@example.com", into: "#name"), .type("secret", into: "#password"), .click("#persistent"),
                .click("button"), .waitForText("videoURL"), .waitForCookie(Self.boundCookie),
                .profile("thief"), .open(video), .waitForText("videoURL"), .evaluate(Self.theft),
                .profile(""), .evaluate(Self.later), .restart, .open(video), .waitForText("videoURL"),
                .profile("thief"), .evaluate("return theft"),
                .profile(""), .evaluate(Self.owner),
            ])
            expect(run.values, equals: ["", "200", "401 unproven,403 device_required,401 unproven", "200,true"])

            let log = gateway.program.logLines
            let admin = try require(log.first { $0.message == "admin listener started" }?.address)
            let metrics = try await WebClient("http://\(admin)").get("/metrics").body.split(separator: "\n")
            func count(_ name: String, _ outcome: String) -> Int {
                let series = "cloakroom_device_\(name)_total{outcome=\"\(outcome)\"} "
                return metrics.first { $0.hasPrefix(series) }.flatMap { Int($0.dropFirst(series.count)) } ?? 0
            }
            expect(count("proofs", "bound"), equals: 1)
            expect(count("proofs", "rejected"), equals: 1)
            #expect(count("proofs", "refreshed") >= 2)
            expect(count("checks", "unproven"), equals: 2)
            expect(gateway.program.output.contains(#""event":"device_unproven""#))
        }
    }

    /// The navigation to the callback begins on the provider's page. The browser registers in the same context, and
    /// sends no `Strict` or `Lax` cookie with that.
    @Test("Rule 115: a login at a provider of another site that asks its user is bound", arguments: ["Strict", "Lax"])
    func login(sameSite: String) async throws {
        let set = [
            "accounts.identities=company", "session.device.mode=auto", "session.cookie.sameSite=\(sameSite)",
        ]
        try await MockProvider.withServer { provider in
            provider.script { $0.asksUser = true }
            try await SampleAppGateway.running(provider: provider, set: set) { gateway, _ in
                let browser = BrowserSession(acceptsAnyCertificate: true, bindsSessionsOf: gateway.certificateFile)
                let run = try await browser.run([
                    .open("\(gateway.address)/.well-known/openid-configuration"), .waitFor("#continue"),
                    .click("#continue"), .waitForText("authorization_endpoint"), .waitForCookie(Self.boundCookie),
                    .evaluate("return fetch('/auth/sessions').then(response => response.text())"),
                ])
                let sessions = try require(run.values.first ?? nil)
                expect(sessions.contains("\"bound\":true"))
            }
        }
    }

    /// Uses the session until that fails: the results of that request, of a registration, and of another request.
    private static let theft = """
        const ask = async (path, method) => {
            const response = await fetch(path, { method, cache: 'no-store' });
            if (response.ok) return '';
            const problem = await response.json();
            return response.status + ' ' + (problem.reason ?? problem.code);
        };
        globalThis.theft = (async () => {
            let end;
            do {
                await new Promise(done => setTimeout(done, 500));
                end = await ask('/videos/1', 'GET');
            } while (!end);
            return [end, await ask('/auth/device', 'POST'), await ask('/videos/1', 'GET')].join();
        })();
        return '';
        """

    /// A request after the end of the bound cookie.
    private static let later = """
        return new Promise(done => setTimeout(done, 11_000)).then(() => fetch('/videos/1', { cache: 'no-store' }))
            .then(response => String(response.status));
        """

    private static let owner = """
        return (async () => {
            const { status } = await fetch('/videos/1', { cache: 'no-store' });
            const { sessions } = await (await fetch('/auth/sessions', { cache: 'no-store' })).json();
            return [status, ...sessions.map(session => session.bound)].join();
        })();
        """
}
