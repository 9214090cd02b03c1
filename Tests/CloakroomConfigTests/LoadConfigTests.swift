import Foundation
import TestSupport
import Testing

@testable import CloakroomConfig
@testable import CloakroomCore

@Suite struct LoadConfigTests {
    @Test func aGoodFileBecomesAConfiguration() throws {
        let configuration = try ConfigFixture().load().configuration
        expect(
            configuration.listeners, equals: [ListenerConfiguration(address: HostAndPort(host: "127.0.0.1", port: 0))])
        expect(configuration.admin, equals: AdminConfiguration())
        expect(configuration.upstreams.map(\.name), equals: ["api", "other"])
        expect(
            configuration.upstreams[0].targets,
            equals: [
                UpstreamTargetConfiguration(HostAndPort(host: "127.0.0.1", port: 9000))
            ])
        expect(configuration.upstreams[0].tls, equals: nil)
        expect(configuration.upstreams[0].dns.interval, equals: .seconds(30))
        expect(configuration.upstreams[0].pool, equals: PoolConfiguration())
        expect(configuration.upstreams[0].apiToken, equals: APIToken(value: Secret("demo")))
        expect(
            configuration.upstreams[0].signIn, equals: IdentityEndpointConfiguration(path: "/auth", credentials: .basic)
        )
        expect(configuration.upstreams[1].signIn, equals: nil)
        expect(configuration.accounts, equals: AccountsConfiguration())
        expect(configuration.session.idleTimeout, equals: .seconds(900))
        expect(configuration.session.cookie, equals: CookieConfiguration(name: "cloakroom", isSecure: false))
        expect(configuration.limits, equals: LimitsConfiguration())
        expect(configuration.timeouts, equals: TimeoutsConfiguration())
        expect(configuration.routes.map(\.name), equals: ["episodes", "video"])
        expect(configuration.routes[1].pattern, equals: try PathPattern("/videos/{id}"))
        expect(configuration.routes[1].requiresAuthorization)
        expect(configuration.routes[1].inject, equals: [.apiToken, .bearer])
    }

    @Test func everyKeyOfAConfigurationCanBeSet() throws {
        let directory = try ConfigFixture(Self.everything)
        try directory.write("-----BEGIN CERTIFICATE-----\n", to: "tls.crt")
        try directory.write("-----BEGIN EC PRIVATE KEY-----\n", to: "tls.key")
        let configuration = try directory.load().configuration
        expect(configuration.listeners[0].tls?.minimumVersion, equals: .tls13)
        expect(configuration.listeners[0].tls?.certificate.certificateFile, equals: directory.path + "/tls.crt")
        expect(configuration.admin, equals: nil)
        expect(
            configuration.crossSite,
            equals: CrossSiteConfiguration(
                trustedOrigins: ["https://a.test", "http://b.test:3000"],
                requiredField: .init(name: "X-CSRF", value: "1"), corsOrigins: ["https://[::1]:8443"]))
        expect(configuration.upstreams[0].preserveHost, equals: false)
        expect(configuration.upstreams[0].apiToken?.header, equals: "X-Key")
        expect(
            configuration.upstreams[0].refresh,
            equals: IdentityEndpointConfiguration(
                method: "PUT", path: "/renew", credentials: .json, accessToken: "a.b", refreshToken: "c",
                expiresIn: "d", rejectedStatuses: [400, 401]))
        expect(
            configuration.upstreams[0].pool,
            equals: PoolConfiguration(
                maxConnections: 1, maxPending: 0, pendingTimeout: .milliseconds(1), idleTimeout: .seconds(5_400)))
        expect(
            configuration.upstreams[0].targets.map(\.description),
            equals: [
                "http://one:9000", "http://[::1]:9000", "https://two:443", "https://two:444", "unix:/run/a b@c.sock",
            ])
        expect(
            configuration.upstreams[0].tls,
            equals: UpstreamTLSConfiguration(
                caFile: directory.path + "/tls.crt",
                clientCertificate: .init(
                    certificateFile: directory.path + "/tls.crt", keyFile: directory.path + "/tls.key"),
                serverName: "api.example.com"))
        expect(configuration.upstreams[0].dns.interval, equals: .seconds(5))
        expect(
            configuration.accounts,
            equals: AccountsConfiguration(
                prefix: "/me", upstream: 0, messages: [.unauthorized: "No."], isThrottled: false,
                signInsPerAddress: 9))
        expect(
            configuration.session,
            equals: SessionConfiguration(
                store: .valkey, idleTimeout: .seconds(60), absoluteTimeout: .seconds(120), maxSessions: 7,
                maxSessionsPerAccount: 3,
                secrets: [Secret(Self.secret)], cacheSize: 9,
                sqlite: SQLiteConfiguration(path: directory.path + "/sessions.sqlite"),
                valkey: ValkeyConfiguration(
                    addresses: [HostAndPort(host: "one", port: 26379), HostAndPort(host: "::1", port: 26379)],
                    topology: .sentinel, sentinelPrimary: "main", user: "gateway", password: Secret("p"),
                    sentinelPassword: Secret("s"),
                    tls: UpstreamTLSConfiguration(caFile: directory.path + "/tls.crt", serverName: "valkey.test"),
                    prefix: "a:b", timeout: .seconds(1), replicas: 2),
                cookie: CookieConfiguration(name: "__Host-s", sameSite: .lax, persistence: .onRequest)))
        expect(
            configuration.limits,
            equals: LimitsConfiguration(head: 2_048, fields: 10, target: 1_024, body: 0, connections: 5)
        )
        expect(configuration.timeouts.drain, equals: .seconds(7))
        expect(configuration.trustedProxies.count, equals: 2)
        expect(configuration.logging, equals: LoggingConfiguration(level: "debug", format: .text, accessLog: false))
        expect(
            configuration.tracing,
            equals: TracingConfiguration(exporter: .log, sampler: SamplerConfiguration(ratio: 0.5)))
        expect(configuration.eventLoops, equals: 2)
        expect(configuration.routes[0].bodyLimit, equals: 1_048_576)
        expect(configuration.routes[0].responseHeadTimeout, equals: .milliseconds(250))
        expect(configuration.routes[0].messages, equals: [.failedRequest: "Sorry."])
        expect(configuration.routes[0].methods, equals: ["GET", "PURGE"])
    }

    @Test func flagsGoBeforeTheEnvironmentAndThatBeforeTheFile() throws {
        let directory = try ConfigFixture()
        let key = "session.idleTimeout"
        let environment = ["CLOAKROOM_SESSION_IDLE_TIMEOUT": "6m"]
        let file = try directory.load()
        expect(file.configuration.session.idleTimeout, equals: .seconds(900))
        expect(file.values.first { $0.key == key }?.origin, equals: directory.path + "/cloakroom.yaml:11:16")
        let variable = try directory.load(environment: environment)
        expect(variable.configuration.session.idleTimeout, equals: .seconds(360))
        expect(variable.values.first { $0.key == key }?.origin, equals: "environment CLOAKROOM_SESSION_IDLE_TIMEOUT")
        let flag = try directory.load(environment: environment, overrides: [(key, "5m"), (key, "7m")])
        expect(flag.configuration.session.idleTimeout, equals: .seconds(420))
        expect(flag.values.first { $0.key == key }?.origin, equals: "--set")
        expect(file.values.first { $0.key == "session.store" }?.origin, equals: "default")
    }

    @Test func variablesAndFlagsReachIntoListsAndAddItems() throws {
        let configuration = try ConfigFixture().load(
            environment: ["CLOAKROOM_ROUTES_0_PATH": "/all", "CLOAKROOM_ROUTES_0_METHODS": "GET, POST"],
            overrides: [
                ("routes.2.name", "added"), ("routes.2.methods", "PUT, PATCH"), ("routes.2.path", "/added"),
                ("routes.2.upstream", "third"), ("routes.2.requiresAuthorization", "false"),
                ("upstreams.third.targets", "http://localhost"),
            ]
        ).configuration
        expect(configuration.routes[0].pattern.description, equals: "/all")
        expect(configuration.routes[0].methods, equals: ["GET", "POST"])
        expect(configuration.routes[2].methods, equals: ["PUT", "PATCH"])
        let upstream = try require(configuration.routes[2].upstream)
        expect(configuration.upstreams[upstream].targets.map(\.description), equals: ["http://localhost:80"])
    }

    @Test func valueErrorsOfTheEnvironmentAndOfFlagsNameTheirSource() throws {
        let valueErrors = try ConfigFixture().valueErrors(
            environment: [
                "CLOAKROOM_SESSION_IDLE_TIMEOUT": "15", "CLOAKROOM_SESION_STORE": "memory", "OTHER": "x",
                "CLOAKROOM_SERVICE_HOST": "10.0.0.1", "CLOAKROOM_PORT": "tcp://10.0.0.1:8443",
                "CLOAKROOM_PORT_8443_TCP_ADDR": "10.0.0.1",
            ],
            overrides: [
                ("session.stoer", "memory"), ("session", "x"), ("limits.fields", "many"), ("routes.9.path", "/"),
            ])
        expect(
            valueErrors,
            equals: [
                "environment: CLOAKROOM_SESION_STORE: unknown variable (did you mean CLOAKROOM_SESSION_STORE?)",
                "environment: CLOAKROOM_SESSION_IDLE_TIMEOUT: must be a duration with a unit, not 15"
                    + " (write 15s, 15m or another of ms, s, m, h, d)",
                "--set: limits.fields: must be a whole number, not \"many\" (write a number from 1 to 1000)",
                "--set: session.stoer: unknown key (did you mean \"store\"?)",
                "--set: session: must be a key, not a section (set one of the keys in it)",
                "--set: routes.9.path: unknown key (the next index is 2)",
            ])
    }

    @Test("Without variables, for which no names are made, values, origins and errors are the same")
    func noVariables() throws {
        let ignored = ["CLOAKROOM_SERVICE_HOST": "10.0.0.1"]
        let tracing = ["OTEL_SERVICE_NAME": "shop"]
        let overrides = [
            (key: "upstreams.api.targets.0", value: "http://a.test"), (key: "routes.2.path", value: "/added"),
        ]
        expect(!ConfigSources(file: nil, environment: tracing).hasVariables)
        expect(ConfigSources(file: nil, environment: ignored).hasVariables)
        let good = try ConfigFixture()
        let values = try good.load(environment: tracing).values
        expect(values, equals: try good.load(environment: tracing.merging(ignored) { $1 }).values)
        expect(values.first { $0.key == "tracing.serviceName" }?.origin, equals: "environment OTEL_SERVICE_NAME")
        let bad = try ConfigFixture(ConfigFixture.good.replacing("15m", with: "15").replacing("inject", with: "injct"))
        let errors = bad.valueErrors(environment: tracing, overrides: overrides)
        #expect(errors.count > 3, "\(errors)")
        expect(errors, equals: bad.valueErrors(environment: tracing.merging(ignored) { $1 }, overrides: overrides))
    }

    @Test func aVariableOfAnUpstreamThatTheFileDoesNotNameIsToldSo() throws {
        let valueErrors = try ConfigFixture().valueErrors(
            environment: [
                "CLOAKROOM_UPSTREAMS_THIRD_TARGETS": "http://localhost", "CLOAKROOM_RATE_LIMITS_USER_REQUESTS": "1/s",
                "CLOAKROOM_UPSTREAMS_OTER_TARGETS": "http://localhost",
            ])
        expect(
            valueErrors,
            equals: [
                "environment: CLOAKROOM_RATE_LIMITS_USER_REQUESTS: unknown variable (name the rate limit in the file first)",
                "environment: CLOAKROOM_UPSTREAMS_OTER_TARGETS: unknown variable"
                    + " (did you mean CLOAKROOM_UPSTREAMS_OTHER_TARGETS?)",
                "environment: CLOAKROOM_UPSTREAMS_THIRD_TARGETS: unknown variable (name the upstream in the file first)",
            ])
    }

    @Test func aFlagForAnItemOfAListOfValuesIsToldHowListsAreWritten() throws {
        let valueErrors = try ConfigFixture().valueErrors(
            overrides: [("routes.0.methods.0", "GET"), ("trustedProxies.1", "::1")])
        expect(
            valueErrors,
            equals: [
                "--set: routes.0.methods.0: must be a key, not an item of a list"
                    + " (write the whole list: routes.0.methods=one,another)",
                "--set: trustedProxies.1: must be a key, not an item of a list"
                    + " (write the whole list: trustedProxies=one,another)",
            ])
    }

    @Test func allValueErrorsAreToldAtOnceByLine() throws {
        let yaml = ConfigFixture.good
            .replacingOccurrences(of: "path: /episodes", with: "path: episodes")
            .replacingOccurrences(of: "15m", with: "15")
            .replacingOccurrences(of: "requiresAuthorization: true", with: "requiresAuthorization: maybe")
            .replacingOccurrences(of: "targets: [\"http://127.0.0.1:9001\"]", with: "target: x")
            .replacingOccurrences(of: "signIn: {", with: "signIn: { methd: POST,")
        let valueErrors = try ConfigFixture(yaml).valueErrors()
        expect(
            valueErrors.map { $0.prefix { $0 != " " } },
            equals: [
                "cloakroom.yaml:7:15:", "cloakroom.yaml:9:5:", "cloakroom.yaml:11:16:", "cloakroom.yaml:16:11:",
                "cloakroom.yaml:24:28:",
            ])
    }

    @Test func anEmptyFileMissesWhatIsRequired() throws {
        try expect(
            ConfigFixture("# nothing\n").valueErrors(),
            equals: [
                "cloakroom.yaml: listeners: required key missing (write it)",
                "cloakroom.yaml: upstreams: required key missing (write it)",
            ])
    }

    @Test(arguments: [
        ("- a\n", "cloakroom.yaml:1:1: the file must be a mapping of keys (begin with a key such as \"listeners:\")"),
        (
            "a: 1\n---\nb: 2\n",
            "cloakroom.yaml:2:1: the file must be valid YAML: there must be one document (remove the line ---)"
        ),
        (
            "a:\n\tb: 1\n",
            "cloakroom.yaml:2:1: the file must be valid YAML: a value cannot begin with this character"
                + " (indent with spaces, not tabs)"
        ),
        (
            "a: [*nobody]\n",
            "cloakroom.yaml:1:5: the file must be valid YAML: the name after * is not defined"
                + " (write the value out, or in quotation marks)"
        ),
        (
            "a: [*.example.com]\n",
            "cloakroom.yaml:1:6: the file must be valid YAML: did not find expected alphabetic or numeric character"
                + " (check indentation, colons and quotation marks; write paths with {} in a list, and names with *,"
                + " as \"/videos/{id}\" and \"*.example.com\")"
        ),
        (
            "a: [/videos/{id}]\n",
            "cloakroom.yaml:1:4: the file must be valid YAML: the list has no ] at its end, or no comma before 1:13"
                + " (write commas between items, and ] after the last one; write paths with {} in a list, and names with *,"
                + " as \"/videos/{id}\" and \"*.example.com\")"
        ),
    ])
    func whatIsNoConfigurationAtAllIsTold(_ yaml: String, _ valueError: String) throws {
        try expect(ConfigFixture(yaml).valueErrors(), equals: [valueError])
    }

    @Test func aMissingFileIsTold() throws {
        let problems = #expect(throws: ConfigDiagnostics.self) {
            try loadConfig(ConfigSources(file: "/nowhere/c.yaml"))
        }
        expect(
            problems?.description,
            equals: "/nowhere/c.yaml: must be an existing file: \"/nowhere/c.yaml\" (create it, or correct the path)")
    }

    static let secret = "0123456789abcdef0123456789abcdef"

    static let everything = """
        listeners:
          - address: "[::]:8443"
            tls: { certificateFile: tls.crt, keyFile: tls.key, minimumVersion: 1.3 }
        admin: { enabled: false, token: 0123456789abcdef }
        upstreams:
          api:
            targets: ["http://one:9000", "http://[::1]:9000/", "https://two", "HTTPS://two:444", "unix:/run/a b@c.sock"]
            tls: { caFile: tls.crt, certificateFile: tls.crt, keyFile: tls.key, serverName: api.example.com }
            dns: { interval: 5s }
            preserveHost: false
            apiToken: { header: X-Key, value: k7Tq-upstream }
            signIn: { path: /auth }
            refresh:
              { method: PUT, path: /renew, credentials: json, accessToken: a.b, refreshToken: c, expiresIn: d,
                rejectedStatuses: [400, 401] }
            pool:
              maxConnections: 1
              maxPending: 0
              pendingTimeout: 1ms
              idleTimeout: 1h30m
        accounts:
          { prefix: /me, upstream: api, throttle: false, signInsPerAddress: 9, messages: { unauthorized: "No." } }
        csrf:
          trustedOrigins: ["HTTPS://A.test:443", "http://b.test:3000"]
          requireHeader: X-CSRF=1
        cors: { origins: ["https://[::1]:8443"] }
        session:
          store: Valkey
          secrets: [\(secret)]
          cacheSize: 9
          sqlite: { path: sessions.sqlite }
          valkey:
            addresses: ["one:26379", "[::1]:26379"]
            topology: sentinel
            sentinelPrimary: main
            user: gateway
            password: p
            sentinelPassword: s
            tls: { caFile: tls.crt, serverName: valkey.test }
            prefix: a:b
            timeout: 1s
            replicas: 2
          idleTimeout: 1m
          absoluteTimeout: 2m
          maxSessions: 7
          maxSessionsPerAccount: 3
          cookie: { name: __Host-s, secure: true, sameSite: lax, persistent: onRequest }
        routes:
          - name: all
            methods: [GET, PURGE]
            path: /*
            requiresAuthorization: true
            bodyLimit: 1MiB
            responseHeadTimeout: 250ms
            messages: { failed_request: Sorry. }
        limits: { head: 2KiB, fields: 10, body: 0, connections: 5 }
        timeouts: { header: 1s, bodyIdle: 2s, keepAlive: 3s, connect: 4s, responseHead: 5s, identity: 6s, drain: 7s }
        trustedProxies: [10.0.0.0/8, "::1"]
        logging: { level: DEBUG, format: text, accessLog: false }
        tracing: { exporter: log, ratio: 0.5 }
        eventLoops: 2

        """
}
