import Foundation
import MockAPI
import TestSupport
import Testing

/// The gateway's sign-in page in a browser.
@Suite("The sign-in page in a browser", .serialized, .timeLimit(.minutes(5)))
struct SignInPageBrowserTests {
    private let browser = BrowserSession(acceptsAnyCertificate: true)
    /// The episode's route sends navigations without a session to sign in.
    private static let settings = ["routes.5.onMissingSession=login"]

    private func fill(password: String = "secret") -> [BrowserStep] {
        [.type("jo@example.com", into: "#name"), .type(password, into: "#password")]
    }

    @Test("A visit, a failure and a wait are displayed in every size and scheme, and axe finds nothing")
    func looks() async throws {
        try await MockProvider.withServer { provider in
            let set = Self.settings + ["session.cookie.persistent=onRequest"]
            try await SampleAppGateway.running(provider: provider, set: set) { gateway, _ in
                let page = "\(gateway.address)/auth/page?returnTo=%2Fvideos%2F1"
                var steps: [BrowserStep] = []
                for size in [(width: 1280, height: 900), (width: 390, height: 844)] {
                    for scheme in BrowserStep.Scheme.allCases {
                        steps += [
                            .size(width: size.width, height: size.height), .scheme(scheme), .open(page),
                            .waitFor("#sign-in"), .axe, .snapshot("\(size.width) \(scheme) visit"),
                        ]
                    }
                }
                steps +=
                    fill(password: "wrong") + [
                        .press("enter"), .waitForText("The email/password combination is invalid."), .axe,
                        .snapshot("390 dark failure"), .evaluate("return document.activeElement.id"),
                        .evaluate("return document.querySelector('#name').value"), .scheme(.light), .axe,
                        .snapshot("390 light failure"),
                    ]
                let run = try await browser.run(steps)
                expect(run.values, equals: ["", "", "", "", "", "message", "jo@example.com", ""])
                expect(run.unexpectedProblems, equals: [])
                expect(run.snapshots.count, equals: 6)
                for (name, look) in run.snapshots {
                    expect(look.title, equals: "Sign in", "\(name)")
                    #expect(look.scrollWidth <= look.clientWidth, "\(name)")
                    expect(look.beyondRightEdge, equals: [], "\(name)")
                    expect(look.scripts, equals: 0, "\(name)")
                    #expect(look.lowestContrast >= 4.5, "\(name): \(look.lowestContrastText)")
                    for text in [
                        "E-mail", "Password", "Stay signed in on this device", "Continue with Example Company",
                    ] {
                        expect(look.text.contains(text), "\(name): \(text)")
                    }
                }
                expect(
                    run.snapshots["390 light visit"]?.background != run.snapshots["390 dark visit"]?.background)
            }
        }
    }

    @Test("A navigation without a session signs in on the page by keyboard, and continues where it began")
    func signIn() async throws {
        try await SampleAppGateway.running(set: Self.settings) { gateway, mock in
            let run = try await browser.run([
                .open("\(gateway.address)/videos/1"), .waitFor("#sign-in"),
                .evaluate("return document.activeElement.id"),
                .type("jo@example.com", into: "#name"), .press("tab"),
                .evaluate("document.activeElement.value = 'secret'; return document.activeElement.id"), .press("enter"),
                .waitForText("videoURL"), .evaluate("return location.pathname"), .snapshot("video"),
                .open("\(gateway.address)/auth/page?returnTo=%2Fvideos%2F1"), .waitForText("You are signed in."),
                .click("main p a"), .waitForText("videoURL"), .open("\(gateway.address)/"),
                .waitForText("Signed in as Jo"),
            ])
            expect(run.values, equals: ["name", "password", "/videos/1"])
            let cookies = try require(run.snapshots["video"]).cookies
            expect(cookies, equals: [.init(name: "__Host-cloakroom", httpOnly: true, secure: true, sameSite: "Strict")])
            expect(run.unexpectedProblems, equals: [])
            expect(mock.observations.snapshot().count("POST", "/auth"), equals: 1)
        }
    }

    @Test("A wrong password can be corrected, and back and reload neither sign in nor out")
    func correction() async throws {
        try await SampleAppGateway.running(set: Self.settings) { gateway, mock in
            let run = try await browser.run(
                [.open("\(gateway.address)/auth/page?returnTo=%2Fvideos%2F2")] + fill(password: "wrong") + [
                    .press("enter"), .waitForText("The email/password combination is invalid."),
                    .type("secret", into: "#password"), .press("enter"), .waitForText("videoURL"),
                    .evaluate("return location.pathname"), .reload, .waitForText("videoURL"),
                    .open("\(gateway.address)/auth/page"), .waitForText("You are signed in."), .back,
                    .waitForText("videoURL"), .open("\(gateway.address)/"), .waitForText("Signed in as Jo"),
                ])
            expect(run.values, equals: ["/videos/2"])
            expect(mock.observations.snapshot().count("POST", "/auth"), equals: 2)
        }
    }

    @Test("After too many wrong passwords the page shows how long to wait, and works again after the wait")
    func throttled() async throws {
        try await SampleAppGateway.running(set: Self.settings) { gateway, _ in
            let run = try await browser.run(
                [
                    // The policy of the sign-in page permits no script to send requests.
                    .open("\(gateway.address)/"), .evaluate(Scripts.wrongPasswords),
                    .open("\(gateway.address)/auth/page?returnTo=%2Fvideos%2F1"),
                ]
                    + fill() + [
                        .press("enter"), .waitForText("Too many attempts. Try again later. Try again in"), .axe,
                        .evaluate("return document.activeElement.id"), .snapshot("wait"),
                        .evaluate("return new Promise(done => setTimeout(() => done(''), 9000))"),
                        .type("secret", into: "#password"), .press("enter"), .waitForText("videoURL"),
                    ])
            expect(run.values, equals: ["429", "", "message", ""])
            try expect(require(run.snapshots["wait"]).text.contains(" seconds."))
        }
    }

    @Test("With the box checked the browser stays signed in after it was closed, and otherwise not")
    func persistent() async throws {
        let set = Self.settings + ["session.cookie.persistent=onRequest", "session.idleTimeout=1h"]
        try await SampleAppGateway.running(set: set) { gateway, _ in
            let page = "\(gateway.address)/auth/page"
            let run = try await browser.run(
                [.open(page)] + fill() + [
                    .press("enter"), .waitForText("Signed in as Jo"), .snapshot("brief"), .restart, .open(page),
                ] + fill() + [
                    .click("#persistent"), .click("button"), .waitForText("Signed in as Jo"),
                    .snapshot("lasting"), .restart, .open("\(gateway.address)/"), .waitForText("Signed in as Jo"),
                    .open(page), .waitForText("You are signed in."),
                ])
            expect(run.snapshots["brief"]?.cookies.map(\.lifetime), equals: [nil])
            let lifetime = try require(run.snapshots["lasting"]?.cookies.first?.lifetime)
            expect((7.5 * 3_600..<8 * 3_600 + 1).contains(lifetime))
        }
    }

    @Test("The box decides which links to providers are shown")
    func persistentLogin() async throws {
        try await MockProvider.withServer { provider in
            try await SampleAppGateway.running(
                provider: provider, set: Self.settings + ["session.cookie.persistent=onRequest"]
            ) { gateway, _ in
                let shown = """
                    return [...document.querySelectorAll('.choice')].filter(link => link.offsetParent)
                        .map(link => link.getAttribute('href')).join(' ');
                    """
                let run = try await browser.run([
                    .open("\(gateway.address)/auth/page"), .evaluate(shown), .click("#persistent"), .evaluate(shown),
                    .click(".lasting"), .waitForText("Signed in as Jo Example"), .snapshot("lasting"),
                ])
                expect(
                    run.values,
                    equals: [
                        "/auth/login?identity=company&returnTo=%2F",
                        "/auth/login?identity=company&persistent=1&returnTo=%2F",
                    ])
                expect(run.snapshots["lasting"]?.cookies.map { ($0.lifetime ?? 0) > 7 * 3_600 }, equals: [true])
            }
        }
    }
}
