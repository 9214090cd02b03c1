import Foundation
import MockAPI
import TestSupport
import Testing
import ThinClient

/// The web client in a page of a real browser, through a real gateway that serves the page from a folder.
@Suite("The web client", .serialized, .timeLimit(.minutes(3)))
struct WebClientTests {
    private let browser = BrowserSession(acceptsAnyCertificate: true)
    private static let folder = Executables.packageDirectory.appending(path: "deploy/web")
    /// A protected path of the provider's gateway.
    private static let document = "/.well-known/openid-configuration"

    private static let page = """
        <!doctype html><html lang="en"><meta charset="utf-8"><title>App</title><link rel="icon" href="data:,">
        <p id="state"></p><button id="in">Sign in</button><button id="call">Call</button><button id="out">Sign out</button>
        <script type="module" src="/app/app.js"></script>
        """

    /// - Parameters:
    ///   - options: Options of the client, as members of an object.
    ///   - call: The path that the button requests.
    private static func script(options: String, call: String) -> String {
        """
        import { Cloakroom, Problem } from "./cloakroom.js";
        const problems = [];
        const asks = problem => { problems.push(problem.reason); return new Promise(() => {}); };
        const client = new Cloakroom({ \(options), onSignInRequired: location.search === "?asks" ? asks : null });
        Object.assign(globalThis, { client, Problem, problems });
        const show = text => { document.querySelector("#state").textContent = text; };
        document.querySelector("#in").onclick = () => client.signIn();
        document.querySelector("#out").onclick = () => client.signOut({ everywhere: true, returnTo: location.href });
        document.querySelector("#call").onclick = () => { show("Calling"); client.fetch("\(call)"); };
        const found = await client.session();
        show(found ? `Signed in as ${found.user.name} at ${location.pathname}${location.search}` : "Signed out");
        """
    }

    /// Overrides that serve the page and the client as the route with this index.
    private static func application(
        in folder: TemporaryDirectory, at index: Int, options: String, call: String
    ) throws -> [String] {
        try folder.write(page, to: "index.html")
        try folder.write(script(options: options, call: call), to: "app.js")
        let client = Self.folder.appending(path: "cloakroom.js")
        try folder.write(try String(contentsOf: client, encoding: .utf8), to: "cloakroom.js")
        return [
            "name=app", "path=/app/*", "requiresAuthorization=false", "files.root=\(folder.path)",
            "files.fallback=index.html",
        ].map { "routes.\(index).\($0)" }
    }

    private func running(_ body: (SampleAppGateway) async throws -> Void) async throws {
        let folder = try TemporaryDirectory()
        defer { withExtendedLifetime(folder) {} }
        let set = try Self.application(in: folder, at: 7, options: "page: true", call: "/videos/1")
        try await SampleAppGateway.running(set: set) { gateway, _ in try await body(gateway) }
    }

    @Test("With a provider, pages sign in by navigation, send the CSRF field, and a later 401 signs in again")
    func provider() async throws {
        let folder = try TemporaryDirectory()
        defer { withExtendedLifetime(folder) {} }
        let application = try Self.application(
            in: folder, at: 8, options: #"csrf: "X-CSRF=1""#, call: Self.document)
        let set =
            application + [
                "accounts.identities=company", "identities.company.logout.returnTo=/app/out",
                "csrf.requireHeader=X-CSRF=1", "routes.7.onMissingSession=reject",
            ]
        try await MockProvider.withServer { provider in
            try await SampleAppGateway.running(provider: provider, set: set) { gateway, _ in
                let signedIn = "Signed in as Jo Example at /app/orders?a=1"
                let run = try await browser.run([
                    .open("\(gateway.address)/app/orders?a=1"), .waitForText("Signed out"), .click("#in"),
                    .waitForText(signedIn),
                    .evaluate("return client.fetch('\(Self.document)').then(response => String(response.status))"),
                    .evaluate("return fetch('\(Self.document)').then(Problem.of).then(problem => problem.code)"),
                    .evaluate(Self.signOutWithoutClient),
                    .click("#call"), .waitForText(signedIn), .click("#out"), .waitForText("Signed out"),
                    .evaluate("return location.pathname"), .snapshot("out"),
                ])
                expect(run.values, equals: ["200", "cross_site", "200", "/app/out"])
                expect(run.snapshots["out"]?.cookies, equals: [])
                expect(run.unexpectedProblems, equals: [])
                expect(provider.logins.count, equals: 2)
                expect(provider.observations.snapshot().recent.contains { $0.path.hasPrefix("/end_session") })
            }
        }
    }

    @Test("With passwords, a 401 navigates once or asks once, and a sign-out everywhere ends all sessions")
    func password() async throws {
        try await running { gateway in
            try await CheckedTransport.with(gateway) { other, _ in
                _ = try await other.signIn(email: "jo@example.com", password: "secret")
                let app = "\(gateway.address)/app/"
                let run = try await browser.run([
                    .open(app), .waitForText("Signed out"), .click("#call"), .waitFor("#sign-in"),
                    // Back without a session: a second navigation could be the first of an endless number.
                    .open(app), .waitForText("Signed out"),
                    .evaluate(Self.secondRejection),
                    .open(app + "?asks"), .waitForText("Signed out"), .click("#in"), .waitFor("#sign-in"),
                    .type("jo@example.com", into: "#name"), .type("secret", into: "#password"), .press("enter"),
                    .waitForText("Signed in as Jo at /app/?asks"),
                    .evaluate("return client.sessions().then(all => all.map(one => one.current).join())"),
                    .evaluate(Self.memberNames), .click("#out"), .waitForText("Signed out"),
                    .evaluate(Self.simultaneousRejections),
                ])
                let values = run.values.map { $0 ?? "" }
                try require(values.count == 4)
                expect(values[0], equals: "401")
                expect(values[1], equals: "true,false")
                expect(values[3], equals: "401,401,no_session")
                expect(run.unexpectedProblems, equals: [])
                await expect(clientError { try await other.me() }?.reason, equals: "revoked")

                let types = try String(contentsOf: Self.folder.appending(path: "cloakroom.d.ts"), encoding: .utf8)
                let names = values[2].split(separator: ",")
                #expect(names.count > 10)
                for name in names { expect(types.contains(" \(name)"), "the types lack \(name)") }
            }
        }
    }

    @Test("Without a session, other sessions cannot be ended, which is an error")
    func otherSessions() async throws {
        try await running { gateway in
            try await CheckedTransport.with(gateway) { other, _ in
                _ = try await other.signIn(email: "jo@example.com", password: "secret")
                let run = try await browser.run([
                    .open("\(gateway.address)/app/"), .click("#in"), .waitFor("#sign-in"),
                    .type("jo@example.com", into: "#name"), .type("secret", into: "#password"), .press("enter"),
                    .waitForText("Signed in as Jo at /app/"), .deleteCookies, .evaluate(Self.endsOthers),
                ])
                expect(run.values, equals: ["no_session,no_session"])
                expect(run.unexpectedProblems, equals: [])
                await expect(clientError { try await other.me() }, equals: nil)
            }
        }
    }

    @Test("A page navigates once within 10 s, to the gateway only, and learns of errors of its own handler")
    func stubbed() async throws {
        try await running { gateway in
            let run = try await browser.run([
                .open("\(gateway.address)/app/"), .waitForText("Signed out"), .evaluate(Self.stub),
                .evaluate(Self.rejectedAgain), .evaluate(Self.logins), .evaluate(Self.failingHandler),
            ])
            let logins = "/auth/page,/auth/page,/auth/page,/auth/page,/auth/login"
            expect(run.values, equals: [nil, "401,found,401,/auth/page", logins, "401,401,failed,failed"])
            expect(run.unexpectedProblems, equals: [])
        }
    }

    private static let signOutWithoutClient = """
        return fetch('/auth', { method: 'DELETE', headers: { 'X-CSRF': '1' } }).then(response => String(response.status));
        """

    /// The reasons of the errors, and whether the page navigates.
    private static let endsOthers = """
        navigation.onnavigate = () => problems.push('navigates');
        const reason = ended => ended.then(() => 'ended', problem => problem.reason);
        return Promise.all([reason(client.signOut({ everywhere: true })), reason(client.endSession('other'))])
            .then(reasons => reasons.concat(problems).join());
        """

    /// Only `/auth` on the page's own origin succeeds; all others get 401. Navigations are recorded and do not happen.
    private static let stub = """
        document.head.append(Object.assign(document.createElement('base'), { href: 'https://elsewhere.test/' }));
        globalThis.left = [];
        navigation.onnavigate = event => {
            event.preventDefault();
            const { origin, pathname } = new URL(event.destination.url);
            left.push(origin === location.origin ? pathname : origin);
        };
        globalThis.rejection = { type: 'urn:cloakroom:unauthorized', code: 'unauthorized', reason: 'no_session' };
        globalThis.fetch = async request => request.url === location.origin + '/auth'
            ? Response.json('found')
            : Response.json(rejection, { status: 401, headers: { 'Content-Type': 'application/problem+json' } });
        globalThis.call = async () => (await client.fetch(location.origin + '/videos/1')).status;
        """

    /// As if a provider signed in at once and the API rejected its token: the statuses, the session and the navigations.
    private static let rejectedAgain = """
        return (async () => [await call(), await client.session(), await call(), ...left].join())();
        """

    /// Where the page goes for the `login` of a problem.
    private static let logins = """
        left.length = 0;
        return (async () => {
            for (const login of [null, 'https://elsewhere.test/', '//elsewhere.test/', 'http://', '/auth/login?acr=a']) {
                sessionStorage.clear();
                rejection.login = login;
                await call();
            }
            return left.join();
        })();
        """

    /// The statuses, and the errors that are reported to the browser.
    private static let failingHandler = """
        const errors = [];
        globalThis.reportError = error => errors.push(error.message);
        client = new client.constructor({ onSignInRequired() { throw new Error('failed'); } });
        return (async () => [await call(), await call(), ...errors].join())();
        """

    /// The status, and whether the page navigates.
    private static let secondRejection = """
        navigation.onnavigate = () => problems.push('navigates');
        return client.fetch('/videos/1').then(response => response.status + problems.join());
        """

    /// The statuses, and the problems of which the page was notified.
    private static let simultaneousRejections = """
        return Promise.all([client.fetch('/videos/1'), client.fetch('/videos/2')])
            .then(all => all.map(response => response.status).concat(problems).join());
        """

    /// The members of both classes; `name` is that of every `Error`.
    private static let memberNames = """
        const error = new Problem({ code: 'a' }, 400);
        return [client, error].flatMap(one => [
            ...Object.keys(one), ...Object.getOwnPropertyNames(Object.getPrototypeOf(one)),
        ]).filter(name => name !== 'name').join();
        """
}
