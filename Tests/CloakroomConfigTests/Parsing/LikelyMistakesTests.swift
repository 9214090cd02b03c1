import CloakroomConfig
import TestSupport
import Testing

@Suite("What is written by habit of other programs has a remedy that fits")
struct LikelyMistakesTests {
    @Test(arguments: values + keys)
    func remedy(_ example: DiagnosticCase) throws {
        try example.check()
    }

    static let values = DiagnosticCase.table(
        #"""
        path: /episodes ⇒ path:/episodes
        → 16:5: the file must be valid YAML: a key has no colon with a blank after it (write it as key: value)
        name: episodes ⇒ name: @episodes
        → 14:11: the file must be valid YAML: a value cannot begin with this character (write it in quotation marks)
        { path: /auth } ⇒ { path: /auth, accessToken: $.data.key }
        → 7:41: upstreams.api.signIn.accessToken: must be a path of member names, not "$.data.key" (write data.key)
        { path: /auth } ⇒ { path: /auth, accessToken: /data/key }
        → 7:41: upstreams.api.signIn.accessToken: must be a path of member names, not "/data/key" (write data.key)
        { path: /auth } ⇒ { path: /auth, accessToken: "data[0].key" }
        → 7:41: upstreams.api.signIn.accessToken: must be a path of member names, not "data[0].key" (write one such as data.accessToken)
        { path: /auth } ⇒ { path: /auth, expiresIn: 60 }
        → 7:39: upstreams.api.signIn.expiresIn: must be the name of a member, not "60" (write the name that the response has)
        { path: /auth } ⇒ { path: /auth, success: ok == true }
        → 7:37: upstreams.api.signIn.success: must be a member or member=value, not "ok == true" (write ok=true)
        methods: [GET] ⇒ methods: GET|POST
        → 15:14: routes.0.methods: must be a list (write [GET, POST])
          - address: 127.0.0.1:0 ⇒   - localhost:8080
        → 2:5: listeners.0: must be a section of keys, not one value (write { address: localhost:8080 })
        session: ⇒ admin: false\nsession:
        → 10:1: admin: must be a section of keys, not one value (write { enabled: false })
        """#)

    static let keys = DiagnosticCase.table(
        #"""
        ["http://127.0.0.1:9000"] ⇒ [{ host: 127.0.0.1, port: 9000 }]
        → 5:17: upstreams.api.targets.0.host: unknown key (did you mean "url"?)
        → 5:34: upstreams.api.targets.0.port: unknown key (did you mean "url"?)
        idleTimeout: 15m ⇒ lifetime: 8h
        → 11:3: session.lifetime: unknown key (did you mean "absoluteTimeout" or "idleTimeout"?)
        { value: demo } ⇒ { token: demo }
        → 6:17: upstreams.api.apiToken.token: unknown key (did you mean "value" or "valueFile"?)
        session: ⇒ providers: {}\nsession:
        → 10:1: providers: unknown key (did you mean "identities"?)
        session: ⇒ redirect_uri: a\nsession:
        → 10:1: redirect_uri: unknown key (did you mean "accounts.publicURL"?)
        session: ⇒ tls: {}\nsession:
        → 10:1: tls: unknown key (did you mean listeners.0.tls, upstreams.api.tls or upstreams.other.tls?)
        """#)

    @Test("A flag with brackets, and a variable with shorter words")
    func otherSources() throws {
        try expect(
            ConfigFixture().valueErrors(overrides: [("routes.0.methods", "[GET]")]),
            equals: [
                "--set: routes.0.methods: must be a method, not \"[GET]\" (write the list without brackets: one,another)"
            ])
        try expect(
            ConfigFixture().valueErrors(environment: ["CLOAKROOM_LOG_LEVEL": "debug"]),
            equals: [
                "environment: CLOAKROOM_LOG_LEVEL: unknown variable (did you mean CLOAKROOM_LOGGING_LEVEL?)"
            ])
    }

    @Test(
        "What cannot be meant is a warning",
        arguments: [
            ("127.0.0.1:0", "127.0.0.1:9000", "http://127.0.0.1:9000 is a listener of this gateway"),
            ("127.0.0.1:0", "127.0.0.1:9002", nil),
            ("idleTimeout: 15m", "sqlite: { path: a }", "has no effect: sessions are kept in memory"),
            ("idleTimeout: 15m", "store: memory\n  sqlite: { path: a }", nil),
        ] as [(String, String, String?)])
    func warnings(_ piece: String, _ change: String, _ warning: String?) throws {
        let text = try ConfigFixture.changed(ConfigFixture.good, piece, change)
        let found = try ConfigFixture(text).load().warnings.map(\.message)
        expect(found, equals: [warning].compactMap(\.self))
    }

    @Test(
        "A listener on 0.0.0.0 accepts no connection to an IPv6 address, and one on [::] accepts all",
        arguments: [
            ("0.0.0.0", "127.0.0.1", true), ("0.0.0.0", "localhost", true), ("0.0.0.0", "[::1]", false),
            ("[::]", "127.0.0.1", true), ("[::]", "localhost", true), ("[::]", "[::1]", true),
        ])
    func ownTargets(listener: String, target: String, isOwn: Bool) throws {
        let text = ConfigFixture.proxied.replacing("127.0.0.1:0", with: "\"\(listener):8080\"")
            .replacing("127.0.0.1:9000", with: "\(target):8080")
        let found = try ConfigFixture(text).load().warnings.map(\.message)
        expect(found.contains("http://\(target):8080 is a listener of this gateway"), equals: isOwn)
    }
}
