import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomConfig

/// The rest of an added route.
let newRoute = "methods: [GET], upstream: api, requiresAuthorization: false"

@Suite("prove")
struct ProofTests {
    /// Statements that hold. Tests depend on the line numbers: the first statement is on line 24.
    static let good = """
        listeners:
          - address: 127.0.0.1:8080
        upstreams:
          api: { targets: ["http://127.0.0.1:9000"], apiToken: { value: demo } }
          billing: { targets: ["http://127.0.0.1:9001"], apiToken: { value: demo } }
        \(ConfigFixture.company)
            tokensFor: [api, billing]
            scopes: [openid]
            keep: { claims: [groups] }
        accounts:
          publicURL: http://localhost:8080
          login: { returnTo: / }
        session:
          cookie: { secure: false }
        routes:
          - { name: page, methods: [GET], path: /*, upstream: api, requiresAuthorization: false }
          - { name: admin, methods: [GET, POST], path: /admin/*, upstream: api, requiresAuthorization: true, inject: [bearer], require: { claims: { groups: [admin] } } }
          - { name: invoices, methods: [GET, POST], path: "/billing/{id}", upstream: billing, requiresAuthorization: true, inject: [apiToken, bearer] }
          - { name: health, methods: [GET], path: /health, upstream: api, requiresAuthorization: false }
        prove:
          - { name: admins, never: served, paths: [/admin/*], unless: { claims: { groups: [admin] } } }
          - { name: billing, never: forwarded, upstreams: [billing], unless: { sends: [bearer] } }
          - { name: key, never: forwarded, sends: [apiToken], unless: { upstreams: [billing] } }
          - { name: writes, ready: writesNeedSession }
          - { name: pages, ready: writesFromOwnPages }
          - { name: health, always: served, paths: [/health], methods: [GET] }

        """

    static func edited(_ old: String, _ new: String) throws -> String {
        try ConfigFixture.changed(good, old, new)
    }

    /// The names of the statements that fail.
    private static func failures(_ text: String) -> [String] {
        text.split(separator: "\n").filter { $0.hasPrefix("fails: ") }.map { String($0.dropFirst("fails: ".count)) }
    }

    /// A change, the statements that fail after it, and whether it opens something.
    struct Mutation: Sendable, CustomTestStringConvertible {
        let old: String
        let new: String
        var failing: [String] = []
        var opens = false

        var testDescription: String { "\(old) => \(new)" }
    }

    @Test(
        "Statements that a change breaks fail, and so does that it opens nothing; harmless changes break none",
        arguments: [
            Mutation(
                old: "requiresAuthorization: true, inject: [bearer], require: { claims: { groups: [admin] } }",
                new: "requiresAuthorization: false", failing: ["admins", "writes"], opens: true),
            Mutation(old: ", require: { claims: { groups: [admin] } }", new: "", failing: ["admins"], opens: true),
            Mutation(
                old: "claims: { groups: [admin] } } }\n  - { name: inv",
                new:
                    "claims: { groups: [admin, staff] } } }\n  - { name: inv", failing: ["admins"], opens: true),
            Mutation(old: "path: /admin/*,", new: "path: /adm/*,", failing: ["admins"], opens: true),
            Mutation(old: "path: /admin/*,", new: "path: \"/admin/{id}\",", failing: ["admins"], opens: true),
            Mutation(
                old: "path: /*, upstream: api", new: "path: /*, upstream: billing", failing: ["billing"], opens: true),
            Mutation(old: "inject: [bearer],", new: "inject: [apiToken, bearer],", failing: ["key"], opens: true),
            Mutation(old: "[apiToken, bearer] }", new: "[apiToken] }", failing: ["billing"]),
            Mutation(
                old: "session:\n", new: "csrf: { trustedOrigins: [\"https://shop.example.com\"] }\nsession:\n",
                failing: ["pages"], opens: true),
            Mutation(
                old: "methods: [GET], path: /*", new: "methods: [GET, PUT], path: /*", failing: ["writes"], opens: true),
            Mutation(
                old: "path: /health, upstream: api, requiresAuthorization: false",
                new: "path: /health, upstream: api, requiresAuthorization: true", failing: ["health"]),
            Mutation(
                old: "prove:\n", new: "  - { name: old, path: /Admin, \(newRoute) }\nprove:\n", failing: ["admins"],
                opens: true),
            Mutation(
                old: "prove:\n", new: "  - { name: old, path: /old/*, stripPrefix: /old, \(newRoute) }\nprove:\n",
                failing: ["admins"], opens: true),
            Mutation(
                old: "prove:\n",
                new: "  - { name: old, path: \"/v2/{a}/x\", forwardAs: \"/{a}/x\", \(newRoute) }\nprove:\n",
                failing: ["admins"], opens: true),
            // Harmless ones.
            Mutation(old: "name: page", new: "name: site"),
            Mutation(old: "methods: [GET, POST], path: /admin/*", new: "methods: [GET], path: /admin/*"),
            Mutation(
                old: "claims: { groups: [admin] } } }\n  - { name: inv",
                new: "claims: { groups: { any: [admin], none: [left] } } } }\n  - { name: inv"),
            Mutation(
                old: "claims: { groups: [admin] } } }\n  - { name: inv",
                new: "claims: { groups: { all: [admin, staff] } } } }\n  - { name: inv"),
            Mutation(old: "path: \"/billing/{id}\"", new: "path: \"/billing/{number}\""),
            Mutation(old: "prove:\n", new: "  - { name: news, path: /news, \(newRoute) }\nprove:\n"),
            Mutation(old: "http://127.0.0.1:9001", new: "http://127.0.0.1:9002"),
            Mutation(
                old: "  cookie: { secure: false }\n", new: "  cookie: { secure: false }\ntimeouts: { drain: 5s }\n"),
        ])
    func mutations(mutation: Mutation) throws {
        let (old, new) = (try ConfigFixture(Self.good), try ConfigFixture(Self.edited(mutation.old, mutation.new)))
        let report = withExtendedLifetime(old) { new.report { CommandReport.prove($0, comparedWith: old.sources()) } }
        let failing = mutation.failing + (mutation.opens ? ["opens nothing"] : [])
        expect(Self.failures(report.text), equals: failing, "\(report.text)")
        expect(report.exitCode, equals: (failing.isEmpty ? 0 : 3), "\(report.text)")
    }

    @Test("A failing statement has the shortest request that breaks it, as a line for curl")
    func counterexample() throws {
        let yaml = try Self.edited(", require: { claims: { groups: [admin] } }", "")
        let report = try ConfigFixture(yaml).report { CommandReport.prove($0) }
        expect(
            report.text.hasPrefix(
                """
                fails: admins
                  GET /admin/ at localhost is forwarded to api by route admin, with a session of company
                  curl -i -b __Host-cloakroom=TICKET 'http://localhost:8080/admin/'
                holds: billing

                """.replacing("__Host-cloakroom", with: "cloakroom")), "\(report.text)")
        let rewritten = try ConfigFixture(
            Self.edited(
                "prove:\n", "  - { name: old, path: \"/v2/{a}/x\", forwardAs: \"/{a}/x\", \(newRoute) }\nprove:\n")
        ).report { CommandReport.prove($0) }
        expect(
            rewritten.text.contains(
                "  GET /v2/admin/x at localhost is forwarded to api as /admin/x by route old, with"),
            "\(rewritten.text)")
        let page = try ConfigFixture(
            Self.edited("session:\n", "csrf: { trustedOrigins: [\"https://shop.example.com\"] }\nsession:\n")
        ).report { CommandReport.prove($0) }
        expect(page.text.contains(", from a page of https://shop.example.com\n"), "\(page.text)")
        expect(page.json.contains("\"origin\" : \"https://shop.example.com\""))
        expect(page.json.contains("\"holds\" : false"))
        let host = try ConfigFixture(
            Self.edited("prove:\n", "  - { name: new, hosts: [a.test], path: /admin/x, \(newRoute) }\nprove:\n")
        ).report { CommandReport.prove($0) }
        expect(host.text.contains("'http://a.test:8080/admin/x'"), "\(host.text)")
        expect(host.text.contains("curl -i --connect-to ::127.0.0.1:8080 "), "\(host.text)")
    }

    @Test(
        "A statement that is malformed, contradictory or vacuous is an error at its line, with a remedy",
        arguments: [
            ("never: served, always: served", "conflicts with never (keep one of the two)"),
            ("paths: [/a]", "must contain never, always or ready (write such as never: served)"),
            ("never: served, unless: {}", "must contain a condition"),
            ("never: served, session: false, claims: { groups: [a] }", "conflicts with session"),
            ("ready: writesNeedSession, paths: [/a]", "conflicts with the conditions"),
            ("ready: everything", "must be one of the allowed values"),
            (
                "never: forwarded, upstreams: [biling]",
                "must be an upstream, not \"biling\" (did you mean \"billing\"?)"
            ),
            ("never: served, paths: [admin]", "a path starts with a slash"),
            ("never: served, methods: [get]", "must be upper case"),
            ("never: served, paths: []", "must not be empty"),
            ("never: served, path: [/a]", "unknown key (did you mean \"paths\"?)"),
            ("never: served, unless: { sesion: true }", "unknown key"),
            (
                "never: served, methods: [PUT], paths: [/news/*], unless: { session: true }",
                "describes nothing: whatever"
            ),
            ("never: forwarded, sends: [bearer], paths: [/health]", "describes nothing: whatever the session"),
            ("never: served, hosts: [nowhere.test]", "describes no request: no listener serves these hosts"),
            ("always: served, paths: [/health], unless: { paths: [/health] }", "unless excuses all"),
            ("never: served, unless: { paths: [/*] }", "could never fail (write a condition"),
            ("never: served, session: true, unless: { session: true }", "unless excuses all"),
            ("never: forwarded, sends: [bearer], unless: { sends: [bearer] }", "unless excuses all"),
            ("never: forwarded, upstreams: [api], unless: { upstreams: [billing, api] }", "unless excuses all"),
            ("never: served, crossSite: true, unless: { crossSite: true }", "unless excuses all"),
            ("never: served, methods: [PUT], unless: { methods: [unsafe] }", "unless excuses all"),
            ("never: served, hosts: [a.b.test], unless: { hosts: [\"*.b.test\"] }", "unless excuses all"),
            ("never: served, claims: { groups: [a] }, unless: { session: true }", "unless excuses all"),
            ("never: served, claims: { groups: [a] }, unless: { claims: { groups: [a, b] } }", "unless excuses all"),
            (
                "never: served, unless: { claims: { groups: { any: [a], none: [a, b] } } }",
                "no session meets claim groups: none excludes what is required (remove"
            ),
            ("never: served, claims: { groups: { all: [a, b], none: [b] } }", "no session meets claim groups"),
            ("never: served, claims: {}", "must not be empty (write such as groups: [admin])"),
            ("never: served, unless: { claims: {} }", "must not be empty"),
        ])
    func mistakes(statement: String, message: String) throws {
        let yaml = try Self.edited(
            "name: admins, never: served, paths: [/admin/*], unless: { claims: { groups: [admin] } }",
            "name: admins, \(statement)")
        let report = try ConfigFixture(yaml).report { CommandReport.prove($0) }
        expect(report.exitCode, equals: 1)
        expect(report.text.contains("cloakroom.yaml:24:"), "\(report.text)")
        expect(report.text.contains(message), "\(report.text)")
    }

    @Test("A statement that is a word is one error")
    func word() throws {
        let errors = try ConfigFixture(Self.edited("prove:\n", "prove:\n  - word\n")).valueErrors()
        let message = "prove.0: must be a section of keys, not one value (write { ready: word })"
        expect(errors, equals: ["cloakroom.yaml:24:5: \(message)"])
    }

    @Test("The shortest request has short segments, and values of claims are in quotation marks")
    func shortest() throws {
        for (routes, statement, text) in [
            ("\(Self.go), path: \"/adm/{a}/{b}\"", "never: served, paths: [/adm/*]", "GET /adm/y/z at localhost"),
            (Self.own, "never: served, paths: [/own], claims: { groups: [\"a, b\"] }", "groups [\"a, b\"]"),
        ] {
            let yaml = try Self.extended(routes).replacing(
                "name: admins, never: served, paths: [/admin/*], unless: { claims: { groups: [admin] } }",
                with: "name: admins, \(statement)")
            let report = try ConfigFixture(yaml).report { CommandReport.prove($0) }
            expect(report.text.contains(text), "\(report.text)")
        }
    }

    @Test("Names are unique, and without statements there is nothing to prove")
    func names() throws {
        let twice = try ConfigFixture(Self.edited("name: key", "name: billing")).report { CommandReport.prove($0) }
        expect(twice.text.contains("must be unique, not \"billing\" (rename one)"), "\(twice.text)")
        let none = try ConfigFixture().report { CommandReport.prove($0) }
        expect(none.exitCode, equals: 1)
        expect(none.text.contains("there is nothing to prove (write a statement, or --against OTHER)"), "\(none.text)")
    }

    @Test("Only requests without a session are described by session: false, and a bare statement may describe no route")
    func conditions() throws {
        for (statement, holds) in [
            ("never: served, paths: [/internal/*], methods: [PUT]", true),
            ("never: served, paths: [/admin/*], session: false", true), ("never: served, paths: [/admin/*]", false),
            ("always: served, paths: [/admin/*], methods: [GET], claims: { groups: [admin] }", true),
            ("always: served, paths: [/admin/*], methods: [GET], session: true", false),
            ("always: forwarded, paths: [/health], methods: [GET], upstreams: [billing]", false),
            ("never: served, paths: [/health], hosts: [localhost], methods: [HEAD]", false),
        ] {
            let yaml = try Self.edited(
                "name: admins, never: served, paths: [/admin/*], unless: { claims: { groups: [admin] } }",
                "name: admins, \(statement)")
            let report = try ConfigFixture(yaml).report { CommandReport.prove($0) }
            expect(
                report.text.hasPrefix(holds ? "holds: admins\n" : "fails: admins\n"), "\(statement): \(report.text)")
        }
    }

    /// ``good`` with access tokens, claim headers and a required field, with a route below /site only, and with others.
    static func extended(_ routes: String) throws -> String {
        var yaml = good
        for (old, new) in [
            ("path: /*,", "path: /site/*,"), ("returnTo: /", "returnTo: /site/"),
            (
                "keep: { claims: [groups] }",
                "keep: { claims: [groups, dept] }\n    accessTokens: { audience: [orders] }"
            ),
            ("9001\"],", "9001\"], claimHeaders: { X-Dept: dept },"),
            (
                "session:\n",
                "csrf: { requireHeader: X-CSRF=1, trustedOrigins: [\"https://shop.example.com\"] }\nsession:\n"
            ),
            ("prove:\n", routes.split(separator: "\n").map { "  - { \($0) }\n" }.joined() + "prove:\n"),
        ] {
            yaml = try ConfigFixture.changed(yaml, old, new)
        }
        return yaml
    }

    private static let own = "name: own, methods: [GET, POST], path: /own, upstream: api, requiresAuthorization: true"
    static let go = "name: go, \(newRoute)"

    @Test(
        "Statements are decided for credentials, rewritten paths, hosts, WebSockets and claims of every kind",
        arguments: [
            ("\(own), authorization: pass", "never: served, paths: [/own], unless: { session: true }", false),
            ("\(own), authorization: either", "never: served, paths: [/own], unless: { session: true }", true),
            ("\(own), authorization: bearer", "always: served, paths: [/own], methods: [GET], session: true", false),
            ("\(own), authorization: either", "always: served, paths: [/own], methods: [GET], session: true", true),
            ("\(own), authorization: either", "never: served, paths: [/own], crossSite: true, methods: [GET]", true),
            // An encoded slash, an encoded question mark and a blank.
            ("\(go), path: \"/go/{page}\", forwardAs: \"/{page}\"", "never: served, paths: [\"/back/{id}\"]", false),
            ("\(go), path: \"/go/{page}\", forwardAs: \"/{page}/edit\"", "never: served, paths: [/back]", false),
            ("\(go), path: \"/go/{a}/{b}\", forwardAs: \"/{a}/{b}\"", "never: served, paths: [/back]", false),
            ("\(go), path: \"/go/{page}\", forwardAs: \"/in/{page}\"", "never: served, paths: [/back]", true),
            // The other hosts of this machine have the routes without hosts only.
            (
                "\(go), path: \"/{page}\"\n\(own.replacing("/own", with: "/back")), hosts: [localhost]",
                "never: served, paths: [/back], unless: { session: true }", false
            ),
            // The required field is not required of WebSockets.
            (own, "never: served, paths: [/own], session: true, crossSite: true, methods: [GET]", true),
            (
                "\(own), websocket: true",
                "never: served, paths: [/own], session: true, crossSite: true, methods: [GET]", false
            ),
            (
                "\(own), require: { claims: { sub: [user] } }",
                "always: served, paths: [/own], methods: [GET], session: true", false
            ),
            (
                "\(own), require: { claims: { sub: [user] } }",
                "never: served, paths: [/own], unless: { claims: { sub: [user] } }", true
            ),
            // Some claims are no text, and some cannot be written into a field.
            (
                "\(own), require: { anyOf: [{ claims: { groups: { any: [a], none: [b] } } }, { claims: { groups: [b] } }] }",
                "always: served, paths: [/own], methods: [GET], claims: { groups: [a] }", false
            ),
            (own, "always: served, paths: [\"/billing/{id}\"], methods: [GET], session: true", false),
            (own, "never: served, paths: [\"/billing/{id}\"], session: true", false),
        ])
    func kinds(routes: String, statement: String, holds: Bool) throws {
        let yaml = try Self.extended(routes).replacing(
            "name: admins, never: served, paths: [/admin/*], unless: { claims: { groups: [admin] } }",
            with: "name: admins, \(statement)")
        let report = try ConfigFixture(yaml).report { CommandReport.prove($0) }
        expect(report.text.hasPrefix(holds ? "holds: admins\n" : "fails: admins\n"), "\(report.text)")
    }

    @Test(
        "A change that lets tokens, WebSockets or clients without certificates reach an upstream opens something",
        arguments: [
            (own, "\(own), authorization: either", "an access token of company"),
            ("\(own), authorization: either", own, ""),
            (own, "\(own), authorization: pass", "Authorization that is not verified"),
            (own, "\(own), websocket: true", "as a WebSocket"),
        ])
    func openings(before: String, after: String, example: String) throws {
        let old = try ConfigFixture(Self.extended(before))
        let new = try ConfigFixture(Self.extended(after))
        let report = withExtendedLifetime(old) { new.report { CommandReport.prove($0, comparedWith: old.sources()) } }
        expect(Self.failures(report.text).contains("opens nothing"), equals: !example.isEmpty, "\(report.text)")
        expect(report.text.contains(example), "\(report.text)")
    }

    @Test("Client certificates that are not required any more open what they protected")
    func certificates() throws {
        var new = try ConfigFixture(Self.good).load().configuration
        new.listeners[0].tls = ListenerTLSConfiguration(certificateFile: "a", keyFile: "b")
        var old = new
        old.listeners[0].tls?.clientCertificates = ClientCertificateConfiguration(caFile: "c", mode: .required)
        for (before, after, opens) in [(old, new, true), (new, old, false)] {
            let verdicts = try Proof([], about: after, since: before).verdicts()
            let example: Counterexample? = if case .fails(let request)? = verdicts.first { request } else { nil }
            expect(example != nil, equals: opens)
        }
    }
}
