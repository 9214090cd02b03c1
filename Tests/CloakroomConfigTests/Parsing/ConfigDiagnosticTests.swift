import CloakroomConfig
import TestSupport
import Testing

/// A change of the valid configuration and the diagnostics that it must cause.
struct DiagnosticCase: Sendable, CustomTestStringConvertible {
    let piece: String
    let change: String
    /// Those that end with `…` are the beginning of a line.
    let valueErrors: [String]

    /// Rows with the piece, the change and the diagnostics without the name of the file.
    static func table(_ text: String) -> [DiagnosticCase] {
        rows(text).map { given, errors in
            let arrow = given.firstRange(of: " ⇒") ?? given.endIndex..<given.endIndex
            return DiagnosticCase(
                piece: String(given[..<arrow.lowerBound]), change: String(given[arrow.upperBound...].dropFirst()),
                valueErrors: errors.map { "cloakroom.yaml:" + $0 })
        }
    }

    var testDescription: String { "\(piece) → \(change)" }

    /// Expects exactly these diagnostics.
    func check() throws {
        let found = try ConfigFixture.valueErrors(replacing: piece, by: change)
        let areExpected = found.elementsEqual(valueErrors) { line, expected in
            expected.hasSuffix("…") ? line.hasPrefix(expected.dropLast()) : line == expected
        }
        expect(areExpected && !found.isEmpty, "\(found)")
    }
}

@Suite struct ConfigDiagnosticTests {
    @Test func theGoodConfigurationHasNoValueError() throws {
        try expect(ConfigFixture().valueErrors(), equals: [])
    }

    @Test(arguments: values + keys + names)
    func aValueErrorIsToldWithItsPlaceAndWhatToWrite(_ example: DiagnosticCase) throws {
        try example.check()
    }

    @Test(arguments: upstreams + cookies + sessions + routes)
    func whatDoesNotGoTogetherIsToldWithItsPlace(_ example: DiagnosticCase) throws {
        try example.check()
    }

    @Test(
        "An error is one line, even if other keys depend on the invalid value",
        arguments: misspelledSections + misspelledKeys + invalidValues)
    func oneLine(_ example: DiagnosticCase) throws {
        try example.check()
    }

    @Test(
        "A known key in another section: where it belongs",
        arguments: [
            (
                "    signIn: { path: /auth }", "  signIn: { path: /auth }",
                "7:13: upstreams.signIn.path: unknown key (if signIn belongs to one of upstreams, indent it further)"
            ),
            (
                "session:\n", "idleTimeout: 5m\nsession:\n",
                "10:1: idleTimeout: unknown key (did you mean session.idleTimeout?)"
            ),
        ])
    func otherPlace(_ piece: String, _ change: String, _ expected: String) throws {
        let found = try ConfigFixture.valueErrors(replacing: piece, by: change)
        expect(found.contains("cloakroom.yaml:" + expected), "\(found)")
        expect(!found.contains { $0.contains("targets: required key missing") }, "\(found)")
    }

    static let values = DiagnosticCase.table(
        #"""
        15m ⇒ 15
        → 11:16: session.idleTimeout: must be a duration with a unit, not 15 (write 15s, 15m or another of ms, s, m, h, d)
        15m ⇒ soon
        → 11:16: session.idleTimeout: must be a duration, not "soon" (write a number with ms, s, m, h or d, such as 30s or 1h30m)
        15m ⇒ 15 minutes
        → 11:16: session.idleTimeout: must be a duration, not "15 minutes" (write 15m)
        15m ⇒ 90Sec
        → 11:16: session.idleTimeout: must be a duration, not "90Sec" (write 90s)
        15m ⇒ 500 ms
        → 11:16: session.idleTimeout: must be a duration, not "500 ms" (write 500ms)
        15m ⇒ 31d
        → 11:16: session.idleTimeout: must be in the allowed range, not 31d (write 1s to 30d)
        15m ⇒ [15m]
        → 11:16: session.idleTimeout: must be one value, not a list (write a single value)
        15m ⇒ { a: b }
        → 11:16: session.idleTimeout: must be one value, not keys (write a single value)
        15m ⇒
        → 11:15: session.idleTimeout: must have a value (write one, or leave the key out)
        idleTimeout: 15m ⇒ maxSessions: 1e6
        → 11:16: session.maxSessions: must be a whole number, not "1e6" (write a number from 1 to 100000000)
        idleTimeout: 15m ⇒ maxSessions: 0
        → 11:16: session.maxSessions: must be in the allowed range, not 0 (write 1 to 100000000)
        requiresAuthorization: true ⇒ requiresAuthorization: yes
        → 24:28: routes.1.requiresAuthorization: must be true or false, not "yes" (write true)
        methods: [GET] ⇒ methods: GET
        → 15:14: routes.0.methods: must be a list (write [GET])
        methods: [GET] ⇒ methods: []
        → 15:14: routes.0.methods: must not be empty (write at least one)
        methods: [GET] ⇒ methods: [GET, [POST]]
        → 15:14: routes.0.methods: item 2 of the list must be a single value (write [one, another])
        session: ⇒ limits: { head: 10KB }\nsession:
        → 10:17: limits.head: must be a size, not "10KB" (write 10KiB)
        session: ⇒ limits: { head: "ten KiB" }\nsession:
        → 10:17: limits.head: must be a size, not "ten KiB" (write bytes, or a number with KiB, MiB, GiB or TiB)
        session: ⇒ limits: { head: 64KiB }\nsession:
        → 10:17: limits.head: must be in the allowed range, not 64KiB (write 1KiB to 65535)
        session: ⇒ timeouts: { connect: 25h }\nsession:
        → 10:22: timeouts.connect: must be in the allowed range, not 25h (write 1ms to 1d)
        session: ⇒ tracing: { ratio: 1.5 }\nsession:
        → 10:19: tracing.ratio: must be in the allowed range, not 1.5 (write 0.0 to 1.0)
        session: ⇒ tracing: { ratio: half }\nsession:
        → 10:19: tracing.ratio: must be a decimal number, not "half" (write a number such as 0.25)
        session: ⇒ logging: { level: loud }\nsession:
        → 10:19: logging.level: must be one of the allowed values, not "loud" (write trace, debug, info, notice, warning, error or critical)
        session: ⇒ trustedProxies: [10.0.0.0/8, 10.0.0.1/8]\nsession:
        → 10:30: trustedProxies.1: must be an address or range, not "10.0.0.1/8": bits are set after the prefix (write 10.0.0.0/8)
        session: ⇒ trustedProxies: [10.0.0.0/33]\nsession:
        → 10:18: trustedProxies.0: must be an address or range, not "10.0.0.0/33" (write one such as 10.0.0.0/8)
        """#)

    static let keys = DiagnosticCase.table(
        #"""
        idleTimeout ⇒ idleTimout
        → 11:3: session.idleTimout: unknown key (did you mean "idleTimeout"?)
        session: ⇒ sesion:
        → 10:1: sesion: unknown key (did you mean "session"?)
            path: /episodes ⇒     pth: /episodes
        → 16:5: routes.0.pth: unknown key (did you mean "path"?)
            path: /episodes\n ⇒
        → 14:5: routes.0.path: required key missing (write it)
            requiresAuthorization: true\n ⇒
        → 20:5: routes.1.requiresAuthorization: required key missing (write it)
        idleTimeout: 15m ⇒ idleTimeout: 15m\n  idleTimeout: 5m
        → 11:3: idleTimeout: conflicts with the same key in this mapping (keep one of them)
        idleTimeout: 15m ⇒ idleTimeout: 1\n  'idleTimeout': 2m
        → 11:3: idleTimeout: conflicts with the same key in this mapping (keep one of them)
        session: ⇒ <<: { a: b }\nsession:
        → 10:1: <<: merge keys are not supported (write the keys out)
        cookie: { secure: false } ⇒ cookie: { secure: false, path: a }
        → 12:28: session.cookie.path: unknown key (write one of: domain, name, partitioned, persistent, sameSite, secure)
        signIn: { path: /auth } ⇒ signIn: /auth
        → 7:5: upstreams.api.signIn: must be a section of keys, not one value (write { path: /auth })
        cookie: { secure: false } ⇒ cookie:\n    secure:false
        → 12:3: session.cookie: must be a section of keys, not one value (write a blank after secure:)
          - name: episodes ⇒   - episodes\n  - name: episodes
        → 14:5: routes.0: must be a section of keys, not one value (write its keys below it, indented)
          - address: 127.0.0.1:0 ⇒   address: 127.0.0.1:0
        → 1:1: listeners: must be a list (begin each item with "- " below the key)
            requiresAuthorization: true ⇒     messages: { unautorized: No. }\n    requiresAuthorization: true
        → 24:17: routes.1.messages.unautorized: unknown message code (did you mean "unauthorized"?)
        "http://127.0.0.1:9001"] ⇒ "http://127.0.0.1:9001]
        → 9:15: the file must be valid YAML: a quotation mark has no counterpart (end the text with the same quotation mark)
        methods: [GET] ⇒ methods: [*]
        → 15:16: the file must be valid YAML: did not find expected alphabetic or numeric character (list methods, such as [GET, POST], and write other names with * in quotation marks)
            path: /episodes ⇒     headers: { a: b }\n    path: /episodes
        → 16:5: routes.0.headers: unknown key (did you mean "requestFields" or "responseFields"?)
            requiresAuthorization: true ⇒     auth: true
        → 24:5: routes.1.auth: unknown key (did you mean "requiresAuthorization"?)
            targets: ["http://127.0.0.1:9000"] ⇒     url: http://127.0.0.1:9000
        → 5:5: upstreams.api.url: unknown key (did you mean "targets"?)
        idleTimeout: 15m ⇒ \#u{a0}idleTimeout: 15m
        → 11:3: session.\#u{a0}idleTimeout: unknown key (indent with spaces: the line begins with another kind of blank)
        path: /episodes ⇒ path: ${EPISODES}
        → 16:11: routes.0.path: variable references are not supported (write the value, or set CLOAKROOM_ROUTES_0_PATH)
        ["http://127.0.0.1:9000"] ⇒ [“http://127.0.0.1:9000”]
        → 5:15: upstreams.api.targets.0: must be an address of an upstream, not "“http:" (write straight quotation marks)
            path: /episodes ⇒     hosts: ["https://app.example.org/"]\n    path: /episodes
        → 16:13: routes.0.hosts.0: must be a host, not "https://app.example.org/" (write app.example.org)
        idleTimeout: 15m ⇒ idleTimeout: [15m
        → 11:16: the file must be valid YAML: the list has no ] at its end, or no comma before 12:9 (write commas between items, and ] after the last one)
        """#)

    static let names = DiagnosticCase.table(
        #"""
        upstream: api ⇒ upstream: apu
        → 17:15: routes.0.upstream: unknown upstream "apu" (did you mean "api"?)
        name: video ⇒ name: episodes
        → 20:11: routes.1.name: must be unique: another route is named "episodes" (rename one of them)
        name: video ⇒ name: the video
        → 20:11: routes.1.name: must be a name, not "the video" (write at most 64 letters, digits, dots, hyphens and underscores, a letter or digit first)
          other: ⇒   API:
        → 8:3: upstreams.API: conflicts with upstream "api", which differs only in case or punctuation (rename one)
          other: ⇒   o.ther:
        → 8:3: upstreams.o.ther: must be a name without dots, not "o.ther" (write a hyphen instead)
        methods: [GET] ⇒ methods: [get]
        → 15:15: routes.0.methods.0: must be upper case, not "get" (write GET)
        methods: [GET] ⇒ methods: [GET, TRACE]
        → 15:20: routes.0.methods.1: TRACE is not supported (leave it out)
        methods: [GET] ⇒ methods: ["G T"]
        → 15:15: routes.0.methods.0: must be a method, not "G T" (write one such as GET)
        methods: [GET] ⇒ methods: [GET, GET]
        → 15:14: routes.0.methods: must be a list without duplicates (keep one of them)
        inject: [apiToken] ⇒ inject: [apitoken, cookie]
        → 19:24: routes.0.inject.1: must be one of the allowed values, not "cookie" (write apiToken or bearer)
        path: /episodes ⇒ path: episodes
        → 16:11: routes.0.path: a path starts with a slash (write "/episodes")
        path: /episodes ⇒ path: /episodes?x=1
        → 16:11: routes.0.path: a query is not part of a path (write "/episodes")
        path: /videos/{id} ⇒ path: /videos/**
        → 22:11: routes.1.path: a wildcard is a single * as the last segment (write "/videos/*")
        path: /videos/{id} ⇒ path: /videos/{id}.mp4
        → 22:11: routes.1.path: "{id}.mp4" is not a parameter: a parameter is a whole segment (write "/videos/{id}")
        """#)

    static let upstreams = DiagnosticCase.table(
        #"""
        "http://127.0.0.1:9000" ⇒ "h2://127.0.0.1:9000"
        → 5:15: upstreams.api.targets.0: h2 is not supported as the scheme of a target (write http:// or https://, and protocol: h2c or http2)
        "http://127.0.0.1:9000" ⇒ "H2C://127.0.0.1:9000"
        → 5:15: upstreams.api.targets.0: h2c is not supported as the scheme of a target (write http:// or https://, and protocol: h2c or http2)
        "http://127.0.0.1:9000" ⇒ "unix:run/api"
        → 5:15: upstreams.api.targets.0: must be an absolute socket path (write one such as unix:/run/api.sock)
        "http://127.0.0.1:9000" ⇒ "unix:/\#(String(repeating: "a", count: 107))"
        → 5:15: upstreams.api.targets.0: the socket path must be at most 107 bytes long (choose a shorter path)
        "http://127.0.0.1:9000" ⇒ "http://127.0.0.1:9000/v1"
        → 5:15: upstreams.api.targets.0: must be a target without a path (write http://host:port; the path is taken from the request, and addPrefix of a route adds to it)
        "http://127.0.0.1:9000" ⇒ "https://joe:pw@127.0.0.1"
        → 5:15: upstreams.api.targets.0: must be a target without user and password (write http://host:port, https://host:port or unix:/path)
        "http://127.0.0.1:9000" ⇒ "127.0.0.1:9000"
        → 5:15: upstreams.api.targets.0: must be an address of an upstream, not "127.0.0.1:9000" (write http://127.0.0.1:9000 or https://127.0.0.1:9000)
        "http://127.0.0.1:9000" ⇒ "https://127.0.0.1:90000"
        → 5:15: upstreams.api.targets.0: "https://127.0.0.1:90000" must have a valid host and port (write https://host:port)
        ["http://127.0.0.1:9000"] ⇒ ["https://a"]\n    tls: { caFile: nowhere.crt, keyFile: cloakroom.yaml }
        → 6:20: upstreams.api.tls.caFile: must be an existing file: "nowhere.crt" (create it, or correct the path)
        → 6:42: upstreams.api.tls.keyFile: must be a file with a PEM private key: "cloakroom.yaml" (name a PEM file with "-----BEGIN PRIVATE KEY-----")
        → 6:42: upstreams.api.tls.keyFile: not supported without certificateFile (name both files, or none)
        ["http://127.0.0.1:9000"] ⇒ ["https://a"]\n    tls: { serverName: 10.0.0.1 }
        → 6:24: upstreams.api.tls.serverName: must be a host name, not "10.0.0.1" (write the name in the certificate, such as api.example.com)
        ["http://127.0.0.1:9000"] ⇒ ["http://a", "unix:/a"]\n    tls: { serverName: a.test }
        → 6:24: upstreams.api.tls.serverName: not supported without https:// targets (write https:// targets, or leave it out)
        ["http://127.0.0.1:9000"] ⇒ ["https://a"]\n    tls: { verify: false }
        → 6:12: upstreams.api.tls.verify: unknown key (write one of: caFile, certificateFile, keyFile, serverName)
        ["http://127.0.0.1:9000"] ⇒ ["http://a"]\n    dns: { interval: 100ms }
        → 6:22: upstreams.api.dns.interval: must be in the allowed range, not 100ms (write 1s to 1d)
        { value: demo } ⇒ { header: X TOKEN, value: demo }
        → 6:25: upstreams.api.apiToken.header: must be a token, not "X TOKEN" (write letters, digits and hyphens, without spaces)
        { value: demo } ⇒ { header: transfer_encoding, value: demo }
        → 6:25: upstreams.api.apiToken.header: must be a field without a reserved meaning, not transfer_encoding (write another field such as X-API-TOKEN)
        { value: demo } ⇒ { header: Cookie, value: demo }
        → 6:25: upstreams.api.apiToken.header: must be a field without a reserved meaning, not Cookie (write another field such as X-API-TOKEN)
        { value: demo } ⇒ { header: X-Key }
        → 6:5: upstreams.api.apiToken.value: required key missing (write it)
        signIn: { path: /auth } ⇒ signIn: { method: POST }
        → 7:5: upstreams.api.signIn.path: required key missing (write it)
        { path: /auth } ⇒ { path: "/auth/{id}" }
        → 7:21: upstreams.api.signIn.path: must be a path without parameters and wildcards, not "/auth/{id}" (write a plain path such as /auth)
        { path: /auth } ⇒ { path: /auth, credentials: digest }
        → 7:41: upstreams.api.signIn.credentials: must be one of the allowed values, not "digest" (write basic, bearer, json, form or oauth)
            targets: ["http://127.0.0.1:9001"] ⇒     targets: ["http://127.0.0.1:9001"]\n    signIn: { path: /in }
        →  accounts.upstream: required key missing: several upstreams define signIn (write api or other)
        """#)

    static let cookies = DiagnosticCase.table(
        #"""
          cookie: { secure: false }\n ⇒
        → 2:14: listeners.0.address: session cookies and passwords would be sent unencrypted (add tls; or behindTLSProxy: true behind a proxy that terminates TLS; or for development on loopback only session.cookie.secure: false)
          cookie: { secure: false }\n ⇒   cookie: { name: session }\n
        → 2:14: listeners.0.address: session cookies and passwords would be sent unencrypted (add tls; or behindTLSProxy: true behind a proxy that terminates TLS; or for development on loopback only session.cookie.secure: false)
        → 12:19: session.cookie.name: must be a name with the prefix __Host-, not "session" (write __Host-session)
        { secure: false } ⇒ { name: __Host- }
        → 2:14: listeners.0.address: session cookies and passwords would be sent unencrypted (add tls; or behindTLSProxy: true behind a proxy that terminates TLS; or for development on loopback only session.cookie.secure: false)
        → 12:19: session.cookie.name: must have a name after the prefix (write __Host-cloakroom)
        127.0.0.1:0 ⇒ 0.0.0.0:8080
        → 6:24: upstreams.api.apiToken.value: must not be a published placeholder (write the token that the upstream issued, or listen on loopback only)
        → 12:21: session.cookie.secure: must be true unless all listeners are on loopback (write true, or listen on 127.0.0.1 only; in a container, set development of the listener)
        { secure: false } ⇒ { secure: false, name: __Host-a }
        → 12:34: session.cookie.name: prefix __Host- conflicts with secure: false (leave the prefix out while secure is false)
        { secure: false } ⇒ { secure: false, name: a=b }
        → 12:34: session.cookie.name: must be a token, not "a=b" (write letters, digits and hyphens, without spaces)
        127.0.0.1:0\n ⇒ 127.0.0.1:0\n    behindTLSProxy: true\n
        → 13:21: session.cookie.secure: must be true unless all listeners are on loopback (write true, or listen on 127.0.0.1 only; in a container, set development of the listener)
        127.0.0.1:0 ⇒ localhost
        → 2:14: listeners.0.address: must be host:port, not "localhost" (write localhost:8080)
        address: 127.0.0.1:0 ⇒ address: 8080
        → 2:14: listeners.0.address: must be host:port, not "8080" (write 127.0.0.1:8080 or 0.0.0.0:8080)
        address: 127.0.0.1:0 ⇒ address: ":8080"
        → 2:14: listeners.0.address: must be host:port, not ":8080" (write 127.0.0.1:8080 or 0.0.0.0:8080)
        address: 127.0.0.1:0 ⇒ address: http://0.0.0.0:8080/
        → 2:14: listeners.0.address: must be host:port, not "http://0.0.0.0:8080/" (write 0.0.0.0:8080)
        127.0.0.1:0 ⇒ 127.0.0.1:80\nadmin: { address: "[::1]:80" }
        → 3:19: admin.address: conflicts with a client listener on port 80 (choose another port)
        127.0.0.1:0 ⇒ 127.0.0.1:9464
        → 2:14: listeners.0.address: conflicts with the admin listener on port 9464 (choose another port, or set admin.address)
        127.0.0.1:0 ⇒ 127.0.0.1:8080\n  - address: 127.0.0.1:8080
        → 3:14: listeners.1.address: conflicts with another listener on 127.0.0.1:8080 (choose another port)
        127.0.0.1:0 ⇒ 0.0.0.0:8080\n  - address: 127.0.0.1:8080
        → 3:14: listeners.1.address: conflicts with another listener on 0.0.0.0:8080 (choose another port)
        → 7:24: upstreams.api.apiToken.value: must not be a published placeholder…
        → 13:21: session.cookie.secure: must be true unless all listeners are on loopback…
        127.0.0.1:0 ⇒ 127.0.0.1:8080\n  - address: "[::]:8080"
        → 3:14: listeners.1.address: conflicts with another listener on 127.0.0.1:8080 (choose another port, or keep only [::], which accepts IPv4 too)
        → 7:24: upstreams.api.apiToken.value: must not be a published placeholder…
        → 13:21: session.cookie.secure: must be true unless all listeners are on loopback…
        127.0.0.1:0 ⇒ "[::]:8080"\n  - address: 0.0.0.0:8080\n  - address: "[::1]:8080"\nadmin: { address: "0.0.0.0:8080" }
        → 3:14: listeners.1.address: conflicts with another listener on [::]:8080 (choose another port, or keep only [::], which accepts IPv4 too)
        → 4:14: listeners.2.address: conflicts with another listener on [::]:8080 (choose another port)
        → 5:19: admin.address: conflicts with a client listener on port 8080 (choose another port)
        → 9:24: upstreams.api.apiToken.value: must not be a published placeholder…
        → 15:21: session.cookie.secure: must be true unless all listeners are on loopback…
        127.0.0.1:0 ⇒ 99999
        → 2:14: listeners.0.address: must be host:port, not "99999" (write an address such as 0.0.0.0:8443 or [::1]:8443)
        127.0.0.1:0 ⇒ ":99999"
        → 2:14: listeners.0.address: must be host:port, not ":99999" (write an address such as 0.0.0.0:8443 or [::1]:8443)
        127.0.0.1:0 ⇒ 127.0.0.1:80800
        → 2:14: listeners.0.address: must have a port up to 65535, not "127.0.0.1:80800" (write a port from 1 to 65535)
        127.0.0.1:0 ⇒ 127.0.0.1:0\n    tls: { certificateFile: nowhere.crt, keyFile: cloakroom.yaml }
        → 3:29: listeners.0.tls.certificateFile: must be an existing file: "nowhere.crt" (create it, or correct the path)
        → 3:51: listeners.0.tls.keyFile: must be a file with a PEM private key: "cloakroom.yaml" (name a PEM file with "-----BEGIN PRIVATE KEY-----")
        """#)

    static let sessions = DiagnosticCase.table(
        #"""
        idleTimeout: 15m ⇒ idleTimeout: 9h
        → 11:16: session.idleTimeout: idleTimeout 9h must be at most absoluteTimeout 8h (raise absoluteTimeout, or lower idleTimeout)
        idleTimeout: 15m ⇒ absoluteTimeout: 5m
        → 11:20: session.absoluteTimeout: idleTimeout 15m must be at most absoluteTimeout 5m (raise absoluteTimeout, or lower idleTimeout)
        session: ⇒ accounts: { prefix: /auth/ }\nsession:
        → 10:21: accounts.prefix: must be a path without a slash at its end, not "/auth/" (write a path such as /auth)
        session: ⇒ accounts: { prefix: /episodes }\nsession:
        → 17:11: routes.0.path: /episodes is below /episodes, which is reserved for the gateway's own endpoints (choose another path, or set accounts.prefix)
        session: ⇒ accounts: { upstream: other }\nsession:
        → 10:23: accounts.upstream: must be an upstream with signIn, not "other" (add upstreams.other.signIn, or name another)
        """#)

    static let routes = DiagnosticCase.table(
        #"""
        path: /videos/{id} ⇒ path: /episodes
        → 22:11: routes.1.path: GET, HEAD /episodes is already served by route "episodes" (remove one of the two)
            upstream: api\n    requiresAuthorization: false ⇒     upstream: other\n    requiresAuthorization: false
        → 19:13: routes.0.inject: conflicts with upstream "other", which has no apiToken (add upstreams.other.apiToken, or do not inject it)
            upstream: api\n    requiresAuthorization: true\n    inject: [apiToken, bearer] ⇒     upstream: other\n    requiresAuthorization: true\n    inject: [bearer]
        → 25:13: routes.1.inject: bearer conflicts with the route's upstream: the tokens belong to upstream "api" (add other to upstreams.api.tokensFor)
            signIn: { path: /auth }\n ⇒     signIn: { path: /auth }\n    tokensFor: [othr]\n
        → 8:17: upstreams.api.tokensFor.0: unknown upstream "othr" (did you mean "other"?)
            signIn: { path: /auth }\n ⇒     signIn: { path: /auth }\n    tokensFor: [api]\n
        → 8:17: upstreams.api.tokensFor.0: must be another upstream: api gets the tokens that it issues (leave it out)
            signIn: { path: /auth }\n  other:\n    targets: ["http://127.0.0.1:9001"]\n ⇒     signIn: { path: /auth }\n    tokensFor: [other]\n  other:\n    targets: ["http://10.0.0.1:9001"]\n
        → 8:17: upstreams.api.tokensFor.0: tokens would be sent unencrypted to http://10.0.0.1:9001 (write https:// targets for upstreams.other)
            signIn: { path: /auth }\n ⇒
        → 24:13: routes.1.inject: requires a session, but no upstream defines signIn (add signIn to the upstream)
        """#)

    /// A section with a misspelled name.
    static let misspelledSections = DiagnosticCase.table(
        #"""
        upstreams: ⇒ upstream:
        → 3:1: upstream: unknown key…
        listeners: ⇒ listener:
        → 1:1: listener: unknown key…
        session: ⇒ sesion:
        → 10:1: sesion: unknown key…
        session: ⇒ sessions:
        → 10:1: sessions: unknown key…
        routes: ⇒ route:
        → 13:1: route: unknown key…
          cookie: { ⇒   cookies: {
        → 12:3: session.cookies: unknown key…
        { secure: false } ⇒ { secur: false }
        → 12:13: session.cookie.secur: unknown key…
        signIn: ⇒ signin:
        → 7:5: upstreams.api.signin: unknown key…
        apiToken: { ⇒ apitoken: {
        → 6:5: upstreams.api.apitoken: unknown key…
        127.0.0.1:0\n ⇒ 127.0.0.1:9464\nadmin: { adress: "127.0.0.1:1" }\n
        → 3:10: admin.adress: unknown key…
        session:\n  idleTimeout: 15m ⇒ session:\n  store: sqlite\n  secrets: [\#(secret)]\n  sqllite: { path: a }
        → 13:3: session.sqllite: unknown key…
        session:\n  idleTimeout: 15m ⇒ session:\n  store: valkey\n  secrets: [\#(secret)]\n  valky: { addresses: ["a:1"] }
        → 13:3: session.valky: unknown key…
        """#)

    /// A key with a misspelled name.
    static let misspelledKeys = DiagnosticCase.table(
        #"""
        address: 127 ⇒ adress: 127
        → 2:5: listeners.0.adress: unknown key…
        { value: demo } ⇒ { valeu: demo }
        → 6:17: upstreams.api.apiToken.valeu: unknown key…
        requiresAuthorization: true ⇒ requireAuthorization: true
        → 24:5: routes.1.requireAuthorization: unknown key…
            targets: ["http://127.0.0.1:9000"] ⇒     target: ["http://127.0.0.1:9000"]
        → 5:5: upstreams.api.target: unknown key…
        { path: /auth } ⇒ { pth: /auth }
        → 7:15: upstreams.api.signIn.pth: unknown key…
        idleTimeout: 15m ⇒ idleTimeout: 9h\n  absoluteTimout: 10h
        → 12:3: session.absoluteTimout: unknown key…
        session: ⇒ limits: { haed: 30KiB }\nsession:
        → 10:11: limits.haed: unknown key…
        session:\n  idleTimeout: 15m ⇒ session:\n  valkey: { addresses: ["a:1", "b:1"], sentinelPrimry: a, sentinelPassword: b }
        → 11:40: session.valkey.sentinelPrimry: unknown key…
        """#)

    /// An existing key with an invalid value.
    static let invalidValues = DiagnosticCase.table(
        #"""
        session:\n  idleTimeout: 15m ⇒ session:\n  store: sqlite\n  secrets: [short]\n  sqlite: { path: a }
        → 12:13: session.secrets.0: must be at least 32 bytes long…
        session:\n  idleTimeout: 15m ⇒ session:\n  store: sqlite\n  secrets: short\n  sqlite: { path: a }
        → 12:12: session.secrets: must be a list…
        { value: demo } ⇒ { value: "" }
        → 6:24: upstreams.api.apiToken.value: must not be empty…
        { value: demo } ⇒ { valueFile: nowhere }
        → 6:28: upstreams.api.apiToken.valueFile: must be an existing file…
        127.0.0.1:0 ⇒ 127.0.0.1:0\nadmin: { token: short }
        → 3:17: admin.token: must be at least 16…
        "http://127.0.0.1:9000" ⇒ "ftp://a"
        → 5:15: upstreams.api.targets.0: …
        address: 127.0.0.1:0 ⇒ address: here
        → 2:14: listeners.0.address: must be host:port, not "here"…
        secure: false ⇒ secure: no
        → 12:21: session.cookie.secure: must be true or false…
        methods: [GET] ⇒ methods: GET
        → 15:14: routes.0.methods: must be a list…
        signIn: { path: /auth } ⇒ signIn: /auth
        → 7:5: upstreams.api.signIn: must be a section…
        session: ⇒ accounts: { upstream: apu }\nsession:
        → 10:23: accounts.upstream: unknown upstream "apu"…
        """#)

    private static let secret = String(repeating: "0123456789abcdef", count: 3)
}
