import CloakroomConfig
import Testing

/// A change of the valid configuration and the diagnostics that it must cause.
struct DiagnosticCase: Sendable, CustomTestStringConvertible {
    let piece: String
    let change: String
    let valueErrors: [String]

    init(_ piece: String, _ change: String, _ valueErrors: String...) {
        self.piece = piece
        self.change = change
        self.valueErrors = valueErrors.map { "cloakroom.yaml:" + $0 }
    }

    var testDescription: String { "\(piece) → \(change)" }
}

@Suite struct ConfigDiagnosticTests {
    @Test func theGoodConfigurationHasNoValueError() throws {
        #expect(try ConfigFixture().valueErrors() == [])
    }

    @Test(arguments: values + keys + names)
    func aValueErrorIsToldWithItsPlaceAndWhatToWrite(_ example: DiagnosticCase) throws {
        let valueErrors = try ConfigFixture.valueErrors(replacing: example.piece, by: example.change)
        #expect(valueErrors == example.valueErrors)
    }

    @Test(arguments: upstreams + cookies + sessions + routes)
    func whatDoesNotGoTogetherIsToldWithItsPlace(_ example: DiagnosticCase) throws {
        let valueErrors = try ConfigFixture.valueErrors(replacing: example.piece, by: example.change)
        #expect(valueErrors == example.valueErrors)
    }

    static let values = [
        DiagnosticCase(
            "15m", "15",
            "11:16: session.idleTimeout: must be a duration with a unit, not 15"
                + " (write 15s, 15m or another of ms, s, m, h, d)"
        ),
        DiagnosticCase(
            "15m", "soon",
            "11:16: session.idleTimeout: must be a duration, not \"soon\""
                + " (write a number with ms, s, m, h or d, such as 30s or 1h30m)"),
        DiagnosticCase(
            "15m", "31d", "11:16: session.idleTimeout: must be in the allowed range, not 31d (write 1s to 30d)"),
        DiagnosticCase(
            "15m", "[15m]", "11:16: session.idleTimeout: must be one value, not a list (write a single value)"),
        DiagnosticCase(
            "15m", "{ a: b }", "11:16: session.idleTimeout: must be one value, not keys (write a single value)"),
        DiagnosticCase("15m", "", "11:15: session.idleTimeout: must have a value (write one, or leave the key out)"),
        DiagnosticCase(
            "idleTimeout: 15m", "maxSessions: 1e6",
            "11:16: session.maxSessions: must be a whole number, not \"1e6\" (write a number from 1 to 100000000)"),
        DiagnosticCase(
            "idleTimeout: 15m", "maxSessions: 0",
            "11:16: session.maxSessions: must be in the allowed range, not 0 (write 1 to 100000000)"),
        DiagnosticCase(
            "requiresAuthorization: true", "requiresAuthorization: yes",
            "24:28: routes.1.requiresAuthorization: must be true or false, not \"yes\" (write true or false)"),
        DiagnosticCase(
            "methods: [GET]", "methods: GET", "15:14: routes.0.methods: must be a list (write [GET])"),
        DiagnosticCase(
            "methods: [GET]", "methods: []", "15:14: routes.0.methods: must not be empty (write at least one)"),
        DiagnosticCase(
            "methods: [GET]", "methods: [GET, [POST]]",
            "15:14: routes.0.methods: item 2 of the list must be a single value (write [one, another])"),
        DiagnosticCase(
            "session:", "limits: { head: 10KB }\nsession:",
            "10:17: limits.head: must be a size, not \"10KB\" (write bytes, or a number with KiB, MiB, GiB or TiB)"),
        DiagnosticCase(
            "session:", "limits: { head: 64KiB }\nsession:",
            "10:17: limits.head: must be in the allowed range, not 64KiB (write 1KiB to 65535)"),
        DiagnosticCase(
            "session:", "limits: { target: 16KiB }\nsession:",
            "10:11: limits.target: unknown key: its default is fixed (remove it)"),
        DiagnosticCase(
            "session:", "timeouts: { connect: 25h }\nsession:",
            "10:22: timeouts.connect: must be in the allowed range, not 25h (write 1ms to 1d)"),
        DiagnosticCase(
            "session:", "tracing: { ratio: 1.5 }\nsession:",
            "10:19: tracing.ratio: must be in the allowed range, not 1.5 (write 0.0 to 1.0)"),
        DiagnosticCase(
            "session:", "tracing: { ratio: half }\nsession:",
            "10:19: tracing.ratio: must be a decimal number, not \"half\" (write a number such as 0.25)"),
        DiagnosticCase(
            "session:", "logging: { level: loud }\nsession:",
            "10:19: logging.level: must be one of the allowed values, not \"loud\""
                + " (write trace or debug or info or notice or warning or error or critical)"),
        DiagnosticCase(
            "session:", "trustedProxies: [10.0.0.0/8, 10.0.0.1/8]\nsession:",
            "10:30: trustedProxies.1: must be an address or range, not \"10.0.0.1/8\""
                + " (write one such as 10.0.0.0/8, with no bits set after the prefix)"),
    ]

    static let keys = [
        DiagnosticCase(
            "idleTimeout", "idleTimout",
            "11:3: session.idleTimout: unknown key (did you mean \"idleTimeout\"?)"),
        DiagnosticCase(
            "session:", "sesion:",
            "10:1: sesion: unknown key (did you mean \"session\"?)"),
        DiagnosticCase(
            "    path: /episodes", "    pth: /episodes",
            "16:5: routes.0.pth: unknown key (did you mean \"path\"?)"),
        DiagnosticCase(
            "    path: /episodes\n", "", "14:5: routes.0.path: required key missing (write it)"),
        DiagnosticCase(
            "    requiresAuthorization: true\n", "",
            "20:5: routes.1.requiresAuthorization: required key missing (write it)"),
        DiagnosticCase(
            "idleTimeout: 15m", "idleTimeout: 15m\n  idleTimeout: 5m",
            "12:3: session.idleTimeout: conflicts with the same key on line 11 (keep one of them)"),
        DiagnosticCase(
            "idleTimeout: 15m", "idleTimeout: 1\n  'idleTimeout': 2m\n  store: memory\n  store: disk",
            "12:3: session.idleTimeout: conflicts with the same key on line 11 (keep one of them)",
            "14:3: session.store: conflicts with the same key on line 13 (keep one of them)",
            "14:10: session.store: must be one of the allowed values, not \"disk\" (write memory or sqlite or valkey)"),
        DiagnosticCase(
            "session:", "<<: { a: b }\nsession:", "10:1: <<: merge keys are not supported (write the keys out)"),
        DiagnosticCase(
            "cookie: { secure: false }", "cookie: { secure: false, path: a }",
            "12:28: session.cookie.path: unknown key (write one of: domain, name, persistent, sameSite, secure)"),
        DiagnosticCase(
            "signIn: { path: /auth }", "signIn: /auth",
            "7:5: upstreams.api.signIn: must be a section of keys, not one value (write its keys below it, indented)"),
        DiagnosticCase(
            "  - name: episodes", "  - episodes\n  - name: episodes",
            "14:5: routes.0: must be a section of keys, not one value (write its keys below it, indented)"),
        DiagnosticCase(
            "  - address: 127.0.0.1:0", "  address: 127.0.0.1:0",
            "1:1: listeners: must be a list (begin each item with \"- \" below the key)"),
        DiagnosticCase(
            "    requiresAuthorization: true", "    messages: { unautorized: No. }\n    requiresAuthorization: true",
            "24:17: routes.1.messages.unautorized: unknown message code (did you mean \"unauthorized\"?)"),
        DiagnosticCase(
            "idleTimeout: 15m", "idleTimeout: [15m",
            "12:9: the file must be valid YAML: did not find expected ',' or ']'"
                + " (check indentation, colons and quotation marks)"),
    ]

    static let names = [
        DiagnosticCase(
            "upstream: api", "upstream: apu",
            "17:15: routes.0.upstream: unknown upstream \"apu\" (did you mean \"api\"?)"),
        DiagnosticCase(
            "name: video", "name: episodes",
            "20:11: routes.1.name: must be unique: another route is named \"episodes\" (rename one of them)"),
        DiagnosticCase(
            "name: video", "name: the video",
            "20:11: routes.1.name: must be a name, not \"the video\""
                + " (write at most 64 letters, digits, dots, hyphens and underscores, a letter or digit first)"),
        DiagnosticCase(
            "  other:", "  API:",
            "8:3: upstreams.API: conflicts with upstream \"api\", which differs only in case or punctuation"
                + " (rename one)"
        ),
        DiagnosticCase(
            "  other:", "  o.ther:",
            "8:3: upstreams.o.ther: must be a name without dots, not \"o.ther\" (write a hyphen instead)"),
        DiagnosticCase(
            "methods: [GET]", "methods: [get]", "15:15: routes.0.methods.0: must be upper case, not \"get\" (write GET)"
        ),
        DiagnosticCase(
            "methods: [GET]", "methods: [GET, TRACE]",
            "15:20: routes.0.methods.1: TRACE is not supported (leave it out)"
        ),
        DiagnosticCase(
            "methods: [GET]", "methods: [\"G T\"]",
            "15:15: routes.0.methods.0: must be a method, not \"G T\" (write one such as GET)"),
        DiagnosticCase(
            "methods: [GET]", "methods: [GET, GET]",
            "15:14: routes.0.methods: must be a list without duplicates (keep one of them)"),
        DiagnosticCase(
            "inject: [apiToken]", "inject: [apitoken, cookie]",
            "19:24: routes.0.inject.1: must be one of the allowed values, not \"cookie\" (write apiToken or bearer)"),
        DiagnosticCase(
            "path: /episodes", "path: episodes",
            "16:11: routes.0.path: a path starts with a slash (write \"/episodes\")"),
        DiagnosticCase(
            "path: /episodes", "path: /episodes?x=1",
            "16:11: routes.0.path: a query is not part of a path (write \"/episodes\")"),
        DiagnosticCase(
            "path: /videos/{id}", "path: /videos/**",
            "22:11: routes.1.path: a wildcard is a single * as the last segment (write \"/videos/*\")"),
        DiagnosticCase(
            "path: /videos/{id}", "path: /videos/{id}.mp4",
            "22:11: routes.1.path: \"{id}.mp4\" is not a parameter: a parameter is a whole segment (write \"/videos/{id}\")"
        ),
    ]

    static let upstreams = [
        DiagnosticCase(
            "\"http://127.0.0.1:9000\"", "\"h2://127.0.0.1:9000\"",
            "5:15: upstreams.api.targets.0: h2 is not supported as the scheme of a target"
                + " (write http:// or https://, and protocol: h2c or http2)"),
        DiagnosticCase(
            "\"http://127.0.0.1:9000\"", "\"H2C://127.0.0.1:9000\"",
            "5:15: upstreams.api.targets.0: h2c is not supported as the scheme of a target"
                + " (write http:// or https://, and protocol: h2c or http2)"),
        DiagnosticCase(
            "\"http://127.0.0.1:9000\"", "\"unix:run/api\"",
            "5:15: upstreams.api.targets.0: must be an absolute socket path (write one such as unix:/run/api.sock)"
        ),
        DiagnosticCase(
            "\"http://127.0.0.1:9000\"", "\"unix:/\(String(repeating: "a", count: 107))\"",
            "5:15: upstreams.api.targets.0: the socket path must be at most 107 bytes long"
                + " (choose a shorter path)"),
        DiagnosticCase(
            "\"http://127.0.0.1:9000\"", "\"http://127.0.0.1:9000/v1\"",
            "5:15: upstreams.api.targets.0: must be a target without a path"
                + " (write http://host:port; the path is taken from the request)"),
        DiagnosticCase(
            "\"http://127.0.0.1:9000\"", "\"https://joe:pw@127.0.0.1\"",
            "5:15: upstreams.api.targets.0: must be a target without user and password"
                + " (write http://host:port, https://host:port or unix:/path)"),
        DiagnosticCase(
            "\"http://127.0.0.1:9000\"", "\"127.0.0.1:9000\"",
            "5:15: upstreams.api.targets.0: must be an address of an upstream, not \"127.0.0.1:9000\""
                + " (write http://host:port, https://host:port or unix:/path)"),
        DiagnosticCase(
            "\"http://127.0.0.1:9000\"", "\"https://127.0.0.1:90000\"",
            "5:15: upstreams.api.targets.0: \"https://127.0.0.1:90000\" must have a valid host and port"
                + " (write https://host:port)"
        ),
        DiagnosticCase(
            "[\"http://127.0.0.1:9000\"]", "[\"https://a\"]\n    tls: { caFile: nowhere.crt, keyFile: cloakroom.yaml }",
            "6:20: upstreams.api.tls.caFile: must be an existing file: \"nowhere.crt\""
                + " (create it, or correct the path)",
            "6:42: upstreams.api.tls.keyFile: must be a file with a PEM private key: \"cloakroom.yaml\""
                + " (name a PEM file with \"-----BEGIN PRIVATE KEY-----\")",
            "6:42: upstreams.api.tls.keyFile: not supported without certificateFile (name both files, or none)"),
        DiagnosticCase(
            "[\"http://127.0.0.1:9000\"]", "[\"https://a\"]\n    tls: { serverName: 10.0.0.1 }",
            "6:24: upstreams.api.tls.serverName: must be a host name, not \"10.0.0.1\""
                + " (write the name in the certificate, such as api.example.com)"),
        DiagnosticCase(
            "[\"http://127.0.0.1:9000\"]", "[\"http://a\", \"unix:/a\"]\n    tls: { serverName: a.test }",
            "6:24: upstreams.api.tls.serverName: not supported without https:// targets"
                + " (write https:// targets, or leave it out)"),
        DiagnosticCase(
            "[\"http://127.0.0.1:9000\"]", "[\"https://a\"]\n    tls: { verify: false }",
            "6:12: upstreams.api.tls.verify: unknown key"
                + " (write one of: caFile, certificateFile, keyFile, serverName)"),
        DiagnosticCase(
            "[\"http://127.0.0.1:9000\"]", "[\"http://a\"]\n    dns: { interval: 100ms }",
            "6:22: upstreams.api.dns.interval: must be in the allowed range, not 100ms (write 1s to 1d)"),
        DiagnosticCase(
            "{ value: demo }", "{ header: X TOKEN, value: demo }",
            "6:25: upstreams.api.apiToken.header: must be a token, not \"X TOKEN\""
                + " (write letters, digits and hyphens, without spaces)"),
        DiagnosticCase(
            "{ value: demo }", "{ header: transfer_encoding, value: demo }",
            "6:25: upstreams.api.apiToken.header: must be a field without a reserved meaning, not transfer_encoding"
                + " (write another field such as X-API-TOKEN)"),
        DiagnosticCase(
            "{ value: demo }", "{ header: Cookie, value: demo }",
            "6:25: upstreams.api.apiToken.header: must be a field without a reserved meaning, not Cookie"
                + " (write another field such as X-API-TOKEN)"),
        DiagnosticCase(
            "{ value: demo }", "{ header: X-Key }", "6:5: upstreams.api.apiToken.value: required key missing (write it)"
        ),
        DiagnosticCase(
            "signIn: { path: /auth }", "signIn: { method: POST }",
            "7:5: upstreams.api.signIn.path: required key missing (write it)"),
        DiagnosticCase(
            "{ path: /auth }", "{ path: \"/auth/{id}\" }",
            "7:21: upstreams.api.signIn.path: must be a path without parameters and wildcards, not \"/auth/{id}\""
                + " (write a plain path such as /auth)"),
        DiagnosticCase(
            "{ path: /auth }", "{ path: /auth, credentials: digest }",
            "7:41: upstreams.api.signIn.credentials: must be one of the allowed values, not \"digest\""
                + " (write basic or bearer or json or form or oauth)"
        ),
        DiagnosticCase(
            "    targets: [\"http://127.0.0.1:9001\"]",
            "    targets: [\"http://127.0.0.1:9001\"]\n    signIn: { path: /in }",
            " accounts.upstream: required key missing: several upstreams define signIn (write api or other)"),
    ]

    static let cookies = [
        DiagnosticCase(
            "  cookie: { secure: false }\n", "",
            "2:14: listeners.0.address: session cookies and passwords would be sent unencrypted"
                + " (add tls; or behindTLSProxy: true behind a proxy that terminates TLS; or for development on"
                + " loopback only session.cookie.secure: false)"),
        DiagnosticCase(
            "  cookie: { secure: false }\n", "  cookie: { name: session }\n",
            "2:14: listeners.0.address: session cookies and passwords would be sent unencrypted"
                + " (add tls; or behindTLSProxy: true behind a proxy that terminates TLS; or for development on"
                + " loopback only session.cookie.secure: false)",
            "12:19: session.cookie.name: must be a name with the prefix __Host-, not \"session\" (write __Host-session)"
        ),
        DiagnosticCase(
            "{ secure: false }", "{ name: __Host- }",
            "2:14: listeners.0.address: session cookies and passwords would be sent unencrypted"
                + " (add tls; or behindTLSProxy: true behind a proxy that terminates TLS; or for development on"
                + " loopback only session.cookie.secure: false)",
            "12:19: session.cookie.name: must have a name after the prefix (write __Host-cloakroom)"),
        DiagnosticCase(
            "127.0.0.1:0", "0.0.0.0:8080",
            "6:24: upstreams.api.apiToken.value: must not be a published placeholder"
                + " (write the token that the upstream issued, or listen on loopback only)",
            "12:21: session.cookie.secure: must be true unless all listeners are on loopback"
                + " (write true, or listen on 127.0.0.1 only; in a container, set development of the listener)"),
        DiagnosticCase(
            "{ secure: false }", "{ secure: false, name: __Host-a }",
            "12:34: session.cookie.name: prefix __Host- conflicts with secure: false"
                + " (leave the prefix out while secure is false)"),
        DiagnosticCase(
            "{ secure: false }", "{ secure: false, name: a=b }",
            "12:34: session.cookie.name: must be a token, not \"a=b\""
                + " (write letters, digits and hyphens, without spaces)"
        ),
        DiagnosticCase(
            "127.0.0.1:0\n", "127.0.0.1:0\n    behindTLSProxy: true\n",
            "13:21: session.cookie.secure: must be true unless all listeners are on loopback"
                + " (write true, or listen on 127.0.0.1 only; in a container, set development of the listener)"),
        DiagnosticCase(
            "127.0.0.1:0", "localhost",
            "2:14: listeners.0.address: must be host:port, not \"localhost\""
                + " (write an address such as 0.0.0.0:8443 or [::1]:8443)"),
        DiagnosticCase(
            "127.0.0.1:0", "127.0.0.1:80\nadmin: { address: \"[::1]:80\" }",
            "3:19: admin.address: conflicts with a client listener on port 80 (choose another port)"),
        DiagnosticCase(
            "127.0.0.1:0", "127.0.0.1:9464",
            "2:14: listeners.0.address: conflicts with the admin listener on port 9464"
                + " (choose another port, or set admin.address)"
        ),
        DiagnosticCase(
            "127.0.0.1:0", "127.0.0.1:8080\n  - address: 127.0.0.1:8080",
            "3:14: listeners.1.address: conflicts with another listener on 127.0.0.1:8080 (choose another port)"),
        DiagnosticCase(
            "127.0.0.1:0", "127.0.0.1:0\n    tls: { certificateFile: nowhere.crt, keyFile: cloakroom.yaml }",
            "3:29: listeners.0.tls.certificateFile: must be an existing file: \"nowhere.crt\""
                + " (create it, or correct the path)",
            "3:51: listeners.0.tls.keyFile: must be a file with a PEM private key: \"cloakroom.yaml\""
                + " (name a PEM file with \"-----BEGIN PRIVATE KEY-----\")"),
    ]

    static let sessions = [
        DiagnosticCase(
            "idleTimeout: 15m", "idleTimeout: 9h",
            "11:16: session.idleTimeout: idleTimeout 9h must be at most absoluteTimeout 8h"
                + " (raise absoluteTimeout, or lower idleTimeout)"),
        DiagnosticCase(
            "idleTimeout: 15m", "absoluteTimeout: 5m",
            "11:20: session.absoluteTimeout: idleTimeout 15m must be at most absoluteTimeout 5m"
                + " (raise absoluteTimeout, or lower idleTimeout)"),
        DiagnosticCase(
            "session:", "accounts: { prefix: /auth/ }\nsession:",
            "10:21: accounts.prefix: must be a path without a slash at its end, not \"/auth/\""
                + " (write a path such as /auth)"
        ),
        DiagnosticCase(
            "session:", "accounts: { prefix: /episodes }\nsession:",
            "17:11: routes.0.path: /episodes is below /episodes, which is reserved for the gateway's own endpoints"
                + " (choose another path, or set accounts.prefix)"),
        DiagnosticCase(
            "session:", "accounts: { upstream: other }\nsession:",
            "10:23: accounts.upstream: must be an upstream with signIn, not \"other\""
                + " (add upstreams.other.signIn, or name another)"
        ),
    ]

    static let routes = [
        DiagnosticCase(
            "path: /videos/{id}", "path: /episodes",
            "22:11: routes.1.path: GET, HEAD /episodes is already served by route \"episodes\" (remove one of the two)"),
        DiagnosticCase(
            "    upstream: api\n    requiresAuthorization: false",
            "    upstream: other\n    requiresAuthorization: false",
            "19:13: routes.0.inject: conflicts with upstream \"other\", which has no apiToken"
                + " (add upstreams.other.apiToken, or do not inject it)"
        ),
        DiagnosticCase(
            "    upstream: api\n    requiresAuthorization: true\n    inject: [apiToken, bearer]",
            "    upstream: other\n    requiresAuthorization: true\n    inject: [bearer]",
            "25:13: routes.1.inject: bearer conflicts with the route's upstream: the tokens belong to upstream \"api\""
                + " (add other to upstreams.api.tokensFor)"),
        DiagnosticCase(
            "    signIn: { path: /auth }\n", "    signIn: { path: /auth }\n    tokensFor: [othr]\n",
            "8:17: upstreams.api.tokensFor.0: unknown upstream \"othr\" (did you mean \"other\"?)"),
        DiagnosticCase(
            "    signIn: { path: /auth }\n", "    signIn: { path: /auth }\n    tokensFor: [api]\n",
            "8:17: upstreams.api.tokensFor.0: must be another upstream: api gets the tokens that it issues"
                + " (leave it out)"
        ),
        DiagnosticCase(
            "    signIn: { path: /auth }\n  other:\n    targets: [\"http://127.0.0.1:9001\"]\n",
            "    signIn: { path: /auth }\n    tokensFor: [other]\n  other:\n    targets: [\"http://10.0.0.1:9001\"]\n",
            "8:17: upstreams.api.tokensFor.0: tokens would be sent unencrypted to http://10.0.0.1:9001"
                + " (write https:// targets for upstreams.other)"),
        DiagnosticCase(
            "    signIn: { path: /auth }\n", "",
            "24:13: routes.1.inject: requires a session, but no upstream defines signIn (add signIn to the upstream)"),
    ]
}
