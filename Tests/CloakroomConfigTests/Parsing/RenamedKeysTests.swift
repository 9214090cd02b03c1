import CloakroomCore
import Foundation
import Testing

@testable import CloakroomConfig

@Suite("Renamed keys") struct RenamedKeysTests {
    /// The example with all keys that have an old name.
    private static func yaml(_ top: String, _ listener: String, _ tls: String, _ session: String) -> String {
        ConfigFixture.good
            .replacingOccurrences(
                of: "127.0.0.1:0\n",
                with: """
                    127.0.0.1:0
                        \(listener): true
                      - address: 127.0.0.1:1
                        tls: { \(pair), \(tls): [{ \(pair) }] }

                    """
            )
            .replacingOccurrences(of: "  idleTimeout", with: "  \(session): 7\n  idleTimeout")
            .replacingOccurrences(of: "secure: false", with: "secure: true")
            .replacingOccurrences(of: "value: demo", with: "value: 5d41402abc4b2a76")
            .replacingOccurrences(of: "session:", with: "\(top): [10.0.0.0/8]\nsession:")
    }

    private static let pair = "certificateFile: a.pem, keyFile: a.pem"
    private static let old = yaml("trustedPeers", "tlsTerminatedInFront", "moreCertificates", "localSessions")
    private static let new = yaml("trustedProxies", "behindTLSProxy", "additionalCertificates", "cacheSize")

    private static func load(
        _ yaml: String = ConfigFixture.good, environment: [String: String] = [:],
        overrides: [(key: String, value: String)] = []
    ) throws -> LoadedConfig {
        let folder = try ConfigFixture(yaml)
        try folder.write("-----BEGIN CERTIFICATE-----\n-----BEGIN EC PRIVATE KEY-----\n", to: "a.pem")
        var sources = folder.sources(environment: environment, overrides: overrides)
        sources.isOffline = true
        return try loadConfig(sources)
    }

    private static func warnings(_ config: LoadedConfig) -> [String] {
        config.warnings.map { "\($0.line ?? 0):\($0.column ?? 0) \($0.key ?? ""): \($0.message)" }
    }

    /// Paths of files are left out: they begin with the folder of the test.
    private static func values(_ config: LoadedConfig) -> [String] {
        config.values.filter { $0.origin != "default" && !$0.key.hasSuffix("File") }.map { "\($0.key): \($0.value)" }
    }

    @Test("Old keys of the file have the effect of the new ones, each with a warning at its position")
    func file() throws {
        let old = try Self.load(Self.old)
        let new = try Self.load(Self.new)
        #expect(Self.warnings(new) == [])
        #expect(
            Self.warnings(old) == [
                "3:5 listeners.0.tlsTerminatedInFront: is deprecated: use behindTLSProxy",
                "5:52 listeners.1.tls.moreCertificates: is deprecated: use additionalCertificates",
                "13:1 trustedPeers: is deprecated: use trustedProxies",
                "15:3 session.localSessions: is deprecated: use cacheSize",
            ])
        #expect(Self.values(old) == Self.values(new))
        #expect(old.configuration.trustedProxies == new.configuration.trustedProxies)
        #expect(old.configuration.session.cacheSize == 7)
        #expect(old.configuration.listeners[1].tls?.additionalCertificates.count == 1)
    }

    @Test("Old names of variables and flags have the effect of the new ones, each with a warning")
    func variablesAndFlags() throws {
        let environment = try Self.load(
            Self.new,
            environment: [
                "CLOAKROOM_TRUSTED_PEERS": "::1", "CLOAKROOM_SESSION_LOCAL_SESSIONS": "8",
                "CLOAKROOM_LISTENERS_0_TLS_TERMINATED_IN_FRONT": "true",
                "CLOAKROOM_LISTENERS_1_TLS_MORE_CERTIFICATES_0_KEY_FILE": "b.pem",
            ])
        #expect(
            environment.warnings.map(\.description) == [
                "environment: warning: CLOAKROOM_LISTENERS_0_TLS_TERMINATED_IN_FRONT: is deprecated: use"
                    + " CLOAKROOM_LISTENERS_0_BEHIND_TLSPROXY",
                "environment: warning: CLOAKROOM_LISTENERS_1_TLS_MORE_CERTIFICATES_0_KEY_FILE: is deprecated: use"
                    + " CLOAKROOM_LISTENERS_1_TLS_ADDITIONAL_CERTIFICATES_0_KEY_FILE",
                "environment: warning: CLOAKROOM_SESSION_LOCAL_SESSIONS: is deprecated: use"
                    + " CLOAKROOM_SESSION_CACHE_SIZE",
                "environment: warning: CLOAKROOM_TRUSTED_PEERS: is deprecated: use CLOAKROOM_TRUSTED_PROXIES",
            ])
        #expect(environment.configuration.session.cacheSize == 8)
        let cache = environment.values.first { $0.key == "session.cacheSize" }
        #expect(cache?.origin == "environment CLOAKROOM_SESSION_LOCAL_SESSIONS")

        let flag = try Self.load(overrides: [("session.localSessions", "9")])
        #expect(
            flag.warnings.map(\.description) == ["--set: warning: session.localSessions: is deprecated: use cacheSize"])
        #expect(flag.configuration.session.cacheSize == 9)
    }

    @Test("A stronger source overrides a weaker one whichever name each of them uses")
    func layers() throws {
        let old = Self.old
        #expect(
            try Self.load(old, environment: ["CLOAKROOM_SESSION_CACHE_SIZE": "8"]).configuration.session.cacheSize == 8)
        #expect(
            try Self.load(Self.new, environment: ["CLOAKROOM_SESSION_LOCAL_SESSIONS": "8"]).configuration.session
                .cacheSize == 8)
    }

    @Test("Both names in one source are an error")
    func conflicts() throws {
        let both = ConfigFixture.good.replacingOccurrences(
            of: "  idleTimeout", with: "  localSessions: 7\n  cacheSize: 7\n  idleTimeout")
        let file = #expect(throws: ConfigDiagnostics.self) { try Self.load(both) }
        #expect(
            file?.problems.map { "\($0.line ?? 0):\($0.column ?? 0) \($0.message) (\($0.suggestion))" } == [
                "11:3 conflicts with cacheSize (keep only cacheSize: session.localSessions is its old name)"
            ])
        let environment = #expect(throws: ConfigDiagnostics.self) {
            try Self.load(environment: ["CLOAKROOM_TRUSTED_PEERS": "::1", "CLOAKROOM_TRUSTED_PROXIES": "::1"])
        }
        #expect(environment?.problems.map(\.message) == ["conflicts with CLOAKROOM_TRUSTED_PROXIES"])
        let parts = #expect(throws: ConfigDiagnostics.self) {
            try Self.load(
                Self.new,
                environment: [
                    "CLOAKROOM_LISTENERS_1_TLS_MORE_CERTIFICATES_0_CERTIFICATE_FILE": "a.pem",
                    "CLOAKROOM_LISTENERS_1_TLS_ADDITIONAL_CERTIFICATES_0_KEY_FILE": "a.pem",
                ])
        }
        #expect(parts?.problems.count == 1)
        #expect(parts?.problems.first?.message.hasPrefix("conflicts with ") == true)
        let flags = #expect(throws: ConfigDiagnostics.self) {
            try Self.load(overrides: [("trustedProxies", "::1"), ("trustedPeers", "::1")])
        }
        #expect(flags?.problems.map(\.message) == ["conflicts with trustedProxies"])
    }

    @Test("A variable that only begins with an old name is unknown by its own name, and service links are ignored")
    func longerVariables() throws {
        let name = "CLOAKROOM_SESSION_LOCAL_SESSIONS_MAX"
        let problems = #expect(throws: ConfigDiagnostics.self) { try Self.load(environment: [name: "5"]) }?.problems
        #expect(problems?.map(\.key) == [name])
        #expect(problems?.map(\.message) == ["unknown variable"])
        let links = [
            "CLOAKROOM_TRUSTED_PEERS_SERVICE_HOST": "10.0.0.1", "CLOAKROOM_TRUSTED_PEERS_PORT": "tcp://10.0.0.1:80",
            "CLOAKROOM_TRUSTED_PEERS_PORT_80_TCP_ADDR": "10.0.0.1",
        ]
        #expect(try Self.load(environment: links).warnings.isEmpty)
    }

    @Test("A misspelled key is corrected to the new name")
    func suggestion() throws {
        let yaml = ConfigFixture.good.replacingOccurrences(of: "  idleTimeout", with: "  cachSize: 7\n  idleTimeout")
        let problems = #expect(throws: ConfigDiagnostics.self) { try Self.load(yaml) }?.problems
        #expect(problems?.map(\.suggestion) == ["did you mean \"cacheSize\"?"])
    }

    @Test("Every old name leads to a key that exists, and no old name is a key")
    func table() {
        let known = Set(DocumentedKeys.all().map { $0.path.map { Int($0) == nil ? $0 : "#" } })
        for key in RenamedKeys.all {
            let new = key.old.dropLast() + [key.name]
            #expect(known.contains { $0.starts(with: new) }, "\(new)")
            #expect(!known.contains { $0.starts(with: key.old) }, "\(key.old)")
        }
    }
}
