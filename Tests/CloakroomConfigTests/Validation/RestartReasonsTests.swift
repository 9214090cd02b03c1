import CloakroomCore
import Foundation
import TestSupport
import Testing

@testable import CloakroomConfig

@Suite struct RestartReasonsTests {
    @Test func aConfigurationThatIsTheSameNeedsNoRestart() throws {
        let directory = try ConfigFixture()
        try expect(directory.load().restartRequirements(since: directory.load().configuration), equals: [])
    }

    @Test func whatCanBeTakenOverIsNoReason() throws {
        let running = try ConfigFixture().load().configuration
        let yaml = ConfigFixture.good.replacingOccurrences(of: "path: /videos/{id}", with: "path: /films/{id}")
            .replacingOccurrences(of: "http://127.0.0.1:9001", with: "https://127.0.0.1:9002")
            .replacingOccurrences(of: "127.0.0.1:0\n", with: "127.0.0.1:0\n    hosts: [a.test]\n")
            .replacingOccurrences(of: "name: video\n", with: "name: video\n    hosts: [a.test]\n")
        let next = try ConfigFixture(
            yaml + """
                accounts: { prefix: /me, messages: { unauthorized: "No." } }
                csrf: { trustedOrigins: ["https://a.test"] }
                cors: { origins: ["https://b.test"] }
                limits: { body: 1KiB, head: 2KiB }
                timeouts: { header: 1s, tunnelIdle: 1s }
                logging: { level: debug }
                reload: { interval: 0s }

                """
        ).load()
        expect(next.configuration != running)
        expect(next.restartRequirements(since: running), equals: [])
    }

    @Test func eachKeyThatCannotBeTakenOverIsToldAtItsPlace() throws {
        let running = try ConfigFixture().load().configuration
        let directory = try ConfigFixture(
            ConfigFixture.good.replacingOccurrences(of: "idleTimeout: 15m", with: "idleTimeout: 14m")
                + "admin: { enabled: false }\neventLoops: 2\n")
        let reasons = try directory.load(
            environment: ["CLOAKROOM_SESSION_MAX_SESSIONS": "5", "OTEL_SERVICE_NAME": "edge"],
            overrides: [("limits.connections", "7")]
        ).restartRequirements(since: running).map {
            $0.description.replacingOccurrences(of: directory.path + "/", with: "")
        }
        let end =
            ": cannot change while the gateway runs (restart the gateway; with serve --take-over no connection"
            + " is refused)"
        expect(
            reasons,
            equals: [
                "cloakroom.yaml:11:16: session.idleTimeout" + end, "cloakroom.yaml:26:19: admin.enabled" + end,
                "cloakroom.yaml:27:13: eventLoops" + end, "environment: CLOAKROOM_SESSION_MAX_SESSIONS" + end,
                "environment: OTEL_SERVICE_NAME" + end, "--set: limits.connections" + end,
            ])
    }

    /// The shutdown timeouts must not change at run time, because process supervisors are configured for them.
    @Test func theTimesThatAnEndGoesByAreThoseOfTheStart() throws {
        let running = try ConfigFixture().load().configuration
        let next = try ConfigFixture(ConfigFixture.good + "timeouts: { drain: 1s, identity: 1s }\n").load()
        expect(next.restartRequirements(since: running).map(\.key), equals: ["timeouts.drain", "timeouts.identity"])
    }

    @Test func listenersComeAndGoWithARestartOnly() throws {
        let one = try ConfigFixture().load()
        let two = try ConfigFixture().load(overrides: [("listeners.1.address", "127.0.0.1:0")])
        expect(
            two.restartRequirements(since: one.configuration).map(\.message),
            equals: [
                "their number cannot change from 1 to 2 while the gateway runs"
            ])
        expect(one.restartRequirements(since: two.configuration).map(\.key), equals: ["listeners"])
        expect(one.restartRequirements(since: two.configuration).map(\.line), equals: [1])
    }

    @Test func aSecretThatChangedInItsFileIsToldAtTheKeyThatNamesTheFile() throws {
        let directory = try ConfigFixture(ConfigFixture.good + "admin: { tokenFile: token }\n")
        try directory.write("0123456789abcdef\n", to: "token")
        let running = try directory.load().configuration
        try directory.write("fedcba9876543210\n", to: "token")
        let reasons = try directory.load().restartRequirements(since: running)
        expect(reasons.map(\.key), equals: ["admin.tokenFile"])
        expect(reasons.map(\.line), equals: [26])
        expect(!reasons.description.contains("fedcba"))
    }

    /// The reference states for each key whether a change requires a restart; this must match the behavior.
    @Test func theReferenceSaysOfEveryKeyWhatIsTrue() throws {
        let directory = try ConfigFixture(Self.everySection)
        for name in ["a", "b"] {
            try directory.write("-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n", to: name + ".pem")
        }
        for name in ["a.svg", "a.css"] { try directory.write("x", to: name) }
        let running = try directory.load().configuration
        // Keys that conflict with the base configuration or have no effect on the plan.
        let excepted = [
            "listeners.0.behindTLSProxy", "listeners.0.redirectToHTTPS", "listeners.0.development",
            "reload.interval", "upstreams.api.health.grpc",
            "accounts.identities", "routes.0.onMissingSession", "routes.0.authorization",
            "upstreams.api.claimHeaders.api.join",
            "upstreams.api.tokensFor", "routes.0.stripPrefix", "routes.0.cookiePaths", "routes.0.stream.message",
            "routes.0.stream.origins", "responseFields.hsts.includeSubDomains", "responseFields.hsts.preload",
            // Conflict with those of a listener for clients, and with targets: see `ExternalUpstreamTests`.
            "upstreams.api.external",
            // Requires another name: see `CookieDomainTests`.
            "session.cookie.domain",
            // Requires `sameSite: None`: see `EmbeddedCookieTests`.
            "session.cookie.partitioned",
        ]
        let keys = DocumentedKeys.all().map { key in
            (key.path.map { $0 == "NAME" ? "api" : $0 }, key.isSecret ? "secret" : key.expectation)
        }
        for (path, expectation) in keys where !expectation.hasPrefix("path of a file that holds") {
            let key = path.joined(separator: ".")
            // Keys of providers and sites, and those that require one: see `IdentitiesSectionTests`, `SitesSectionTests`,
            // `AppsSectionTests`, `AssertionSectionTests`. The gateway ignores `prove`.
            guard !excepted.contains(key), !["identities", "sites", "prove"].contains(path[0]),
                !key.hasPrefix("routes.0.require."), !key.hasPrefix("routes.0.redirect."),
                !key.hasPrefix("routes.0.files."), !key.hasPrefix("accounts.apps."),
                !key.hasPrefix("listeners.0.forwardAuth."), !key.hasPrefix("upstreams.api.assertion.")
            else {
                continue
            }
            let value = try require(
                Self.others[key] ?? Self.others[path.suffix(2).joined(separator: ".")] ?? path.last.flatMap {
                    Self.others[$0]
                }
                    ?? (path.contains("messages") ? "Other." : nil), "no other value for \(key)")
            let loaded = try directory.load(overrides: [(key, value)])
            expect(loaded.configuration != running, "\(key) has that value already")
            expect(loaded.restartRequirements(since: running).isEmpty != RestartRequiredKeys.contains(path), "\(key)")
        }
    }

    private static let everySection = """
        tracing: { otlp: { endpoint: "https://collector/v1/traces" } }
        listeners:
          - address: 127.0.0.1:8443
            tls:
              certificateFile: a.pem
              keyFile: a.pem
              additionalCertificates: [{ certificateFile: a.pem, keyFile: a.pem }]
              clientCertificates: { caFile: a.pem }
            proxyProtocol: { trustedSources: [10.0.0.0/8] }
        admin:
          token: 00112233445566778899aabbccddeeff
          tls:
            certificateFile: a.pem
            keyFile: a.pem
            clientCertificates: { caFile: a.pem }
        upstreams:
          api:
            targets: ["https://one"]
            protocol: auto
            health: { path: /health }
            tls: { caFile: a.pem, certificateFile: a.pem, keyFile: a.pem }
            apiToken: { value: demo }
            client: { id: a, secret: b }
            signIn: { path: /auth, credentials: form, success: a }
            refresh: { path: /auth, credentials: form, success: a }
            revoke: { path: /auth, credentials: form }
            user: { path: /auth, success: a }
          other: { targets: ["http://two"], signIn: { path: /auth } }
        accounts: { upstream: api }
        csrf: { requireHeader: X-CSRF=1 }
        session:
          store: valkey
          secrets: [0123456789abcdef0123456789abcdef]
          sqlite: { path: a.sqlite }
          valkey: { addresses: ["one:1"], sentinelPrimary: main, tls: { caFile: a.pem, certificateFile: a.pem, keyFile: a.pem } }
        rateLimits: { api: { by: address, requests: 10/m } }
        routes:
          - { name: all, methods: [GET, POST], path: /*, upstream: api, requiresAuthorization: false }

        """

    /// A value different from the current one, by key, by the last two names of the key, or by its last name.
    private static let others = [
        "claimHeaders.api": "sub", "claim": "sub", "set.api": "other", "add.api": "other", "default.api": "other",
        "remove": "X-Other", "preset": "page", "own": "api", "hsts.maxAge": "7d",
        "accounts.publicURL": "https://a.test", "login.returnTo": "/x",
        "address": "127.0.0.1:9999", "certificateFile": "b.pem", "keyFile": "b.pem", "caFile": "b.pem",
        "minimumVersion": "1.3", "mode": "optional", "device.mode": "auto", "device.lifetime": "7m",
        "device.offer": "3m", "device.settle": "7s", "device.streams": "2h",
        "http2": "false", "trustedSources": "10.0.0.0/9", "enabled": "false", "token": "0123456789abcdef",
        "tokenScope": "everything", "buckets": "0.002,1", "allowedHosts": "admin.test", "hosts": "other.test",
        "targets": "https://three", "serverName": "three", "preserveHost": "false",
        "header": "X-Other", "bearer.scheme": "Token", "value": "other", "method": "PATCH", "path": "/other",
        "credentials": "json",
        "accessToken": "other", "refreshToken": "other", "expiresIn": "other", "maxConnections": "7",
        "maxPending": "7", "pendingTimeout": "7s", "idleTimeout": "7s",
        "prefix": "/other", "valkey.prefix": "other", "accounts.upstream": "other",
        "routes.0.upstream": "other", "passFields": "X-HTTP-Method-Override", "members.name": "other",
        "members.password": "other",
        "static.api": "other", "client.id": "other", "client.secret": "other", "authentication": "client_secret_post",
        "success": "other", "requireHeader": "X-Other=1", "errorCode": "other",
        "basic.idle": "7s", "basic.maximum": "7m", "basic.entries": "7",
        "endsOn": "other", "accounts.name.member": "other", "kind": "text", "throttle": "false", "store": "sqlite",
        "absoluteTimeout": "7h",
        "maxSessions": "7", "maxSessionsPerAccount": "7", "secrets": "fedcba9876543210fedcba9876543210",
        "cacheSize": "7", "sqlite.path": "b.sqlite", "addresses": "two:2", "topology": "sentinel",
        "sentinelPrimary": "other",
        "replicas": "2",
        "user": "other", "user.id": "other", "sessionSource": "other", "password": "other", "sentinelPassword": "other",
        "timeout": "7s", "secure": "false",
        "cookie.name": "__Host-other", "sameSite": "Lax", "persistent": "always", "trustedOrigins": "https://a.test",
        "name": "other",
        "origins": "https://a.test", "methods": "PUT", "requiresAuthorization": "true",
        "inject": "bearer", "bodyLimit": "7", "responseHeadTimeout": "7s", "bodyIdleTimeout": "7s",
        "websocket": "true", "accessLogRatio": "0.5", "head": "32KiB", "fields": "7", "body": "7",
        "connections": "7", "connectionsPerAddress": "7", "streamsPerConnection": "7", "timeouts.header": "7s",
        "bodyIdle": "7s", "keepAlive": "7s", "connect": "7s", "responseHead": "7s", "identity": "7s",
        "tunnelIdle": "7s", "drain": "7s", "trustedProxies": "10.0.0.0/8", "level": "debug", "format": "text",
        "by": "route", "requests": "20/m", "burst": "7", "enforce": "false", "shared": "true", "when.api": "free",
        "any": "free", "all": "free", "none": "free",
        "rate": "api",
        "rateKeys": "2048", "rateFields": "always",
        "accessLog": "false", "exporter": "log", "sampler": "always_on", "ratio": "0.5", "serviceName": "other",
        "resourceAttributes": "a=1", "endpoint": "http://c:4318/v1/traces", "headers": "a=1", "queueLimit": "7777",
        "interval": "7s", "eventLoops": "7", "rejectedStatuses": "499", "signInsPerAddress": "7",
        "url": "https://three", "weight": "7", "tier": "7", "zone": "b", "protocol": "http2",
        "keep": "7s", "policy": "requests", "slowStart": "7s",
        "health.timeout": "1s", "fall": "7", "health.statuses": "204",
        "port": "77", "health.apiToken": "true", "consecutive": "7", "share": "0.7",
        "inFlight.target": "7", "inFlight": "7", "attempts": "3",
        "retry.statuses": "503", "retry.methods": "PUT", "budget": "0.7", "attemptTimeout": "7s",
        "streamWindow": "1MiB", "requestBuffer": "7",
        "requestBuffers": "7", "minimumRate": "7", "pressureRate": "7", "inFlightPerAddress": "7",
        "inFlightPerSession": "7", "forwardAs": "/other/*", "addPrefix": "/other", "lifetime": "7s", "idle": "7s",
        "errors": "true", "logo": "a.svg", "style": "a.css",
        "message": "7", "deadline": "7s", "retry": "false", "timed": "false", "grpc": "true",
    ]
}
