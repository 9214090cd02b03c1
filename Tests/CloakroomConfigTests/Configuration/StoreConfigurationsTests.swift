import CloakroomConfig
import Foundation
import TestSupport
import Testing

@testable import CloakroomCore

@Suite struct StoreConfigurationsTests {
    private static let secret = LoadConfigTests.secret
    private static let other = "fedcba9876543210fedcba9876543210"

    /// The valid configuration with other lines instead of the idle timeout, which is line 11.
    private func directory(_ lines: String...) throws -> ConfigFixture {
        try ConfigFixture(
            ConfigFixture.good.replacingOccurrences(of: "idleTimeout: 15m", with: lines.joined(separator: "\n  ")))
    }

    @Test func oneKeyChoosesAmongStoresThatAreAllSetUp() throws {
        let directory = try directory(
            "secrets: [\(Self.secret)]", "sqlite: { path: a.sqlite }", "valkey: { addresses: [localhost:6379] }")
        for store in SessionConfiguration.Store.allCases {
            let configuration = try directory.load(overrides: [("session.store", store.rawValue)]).configuration.session
            expect(configuration.store, equals: store)
            expect(configuration.sqlite.path, equals: directory.path + "/a.sqlite")
            expect(
                configuration.valkey,
                equals: ValkeyConfiguration(addresses: [HostAndPort(host: "localhost", port: 6379)]))
        }
    }

    @Test func aStoreThatIsChosenSaysWhatItNeeds() throws {
        let secrets = " (make one with openssl rand -base64 48, or name a file that holds it in secretsFile)"
        try expect(
            directory("store: sqlite").valueErrors(),
            equals: [
                "cloakroom.yaml:10:1: session.secrets: required key missing: the store sqlite seals sessions" + secrets,
                "cloakroom.yaml:10:1: session.sqlite.path: required key missing:"
                    + " the store sqlite keeps sessions in a file"
                    + " (write its path)",
            ])
        try expect(
            directory("store: valkey").valueErrors(),
            equals: [
                "cloakroom.yaml:10:1: session.secrets: required key missing: the store valkey seals sessions" + secrets,
                "cloakroom.yaml:10:1: session.valkey.addresses: required key missing:"
                    + " the store valkey connects to a server"
                    + " (write a list such as [127.0.0.1:6379])",
            ])
        try expect(
            directory("store: redis").valueErrors(),
            equals: [
                "cloakroom.yaml:11:10: session.store: must be valkey, which covers Valkey and Redis (write valkey)"
            ])
    }

    @Test func secretsAreReadFromAFileOneALine() throws {
        let directory = try directory("store: sqlite", "secretsFile: secrets", "sqlite: { path: /tmp/a.sqlite }")
        try directory.write("\(Self.secret)\r\n\n   \n\(Self.other)\n\n", to: "secrets")
        let config = try directory.load()
        expect(config.configuration.session.secrets, equals: [Secret(Self.secret), Secret(Self.other)])
        expect(config.configuration.session.sqlite.path, equals: "/tmp/a.sqlite")
        let value = config.values.first { $0.key == "session.secrets" }
        expect(value?.value, equals: "[<redacted>, <redacted>]")
        expect(value?.origin, equals: "secret file \(directory.path)/secrets")
        try directory.write("\n", to: "secrets")
        expect(
            directory.valueErrors(),
            equals: [
                "cloakroom.yaml:12:16: session.secretsFile: must be a file with content: \"secrets\""
                    + " (put the secrets into it, one per line, the newest first)"
            ])
    }

    @Test func secretsComeFromTheEnvironmentInOneVariable() throws {
        let directory = try directory("store: valkey", "valkey: { addresses: [a:1] }")
        let configuration = try directory.load(environment: [
            "CLOAKROOM_SESSION_SECRETS": "\(Self.secret),\(Self.other)"
        ]).configuration
        expect(configuration.session.secrets, equals: [Secret(Self.secret), Secret(Self.other)])
    }

    @Test func theTopologyIsChosenByTheServerUnlessItIsSet() throws {
        func valkey(_ section: String) throws -> ValkeyConfiguration {
            try directory("valkey: { \(section) }").load().configuration.session.valkey
        }
        try expect(valkey("addresses: [a:1]").topology, equals: .auto)
        try expect(valkey("addresses: [a:1], topology: single").topology, equals: .single)
        try expect(valkey("addresses: [a:1], sentinelPrimary: m, topology: sentinel").topology, equals: .sentinel)
        let cluster = try valkey("addresses: [\"a:1\", \"b:1\"], topology: cluster")
        expect(cluster.topology, equals: .cluster)
        expect(cluster.addresses, equals: [HostAndPort(host: "a", port: 1), HostAndPort(host: "b", port: 1)])
        try expect(directory("valkey: { topology: ring }").valueErrors().count, equals: 1)
    }

    @Test func tlsWithTheServerIsOnWhereItsSectionIs() throws {
        func tls(_ section: String) throws -> UpstreamTLSConfiguration? {
            try directory("valkey: { addresses: [a:1]\(section) }").load().configuration.session.valkey.tls
        }
        try expect(tls(""), equals: nil)
        try expect(tls(", tls: { enabled: true }"), equals: UpstreamTLSConfiguration())
        try expect(tls(", tls: { serverName: a.test }"), equals: UpstreamTLSConfiguration(serverName: "a.test"))
        try expect(tls(", tls: { enabled: false, serverName: a.test }"), equals: nil)
    }

    @Test(
        arguments: pairs(
            #"""
            secrets: [short-canary]
            → 11:13: session.secrets.0: must be at least 32 bytes long (\#(openssl))
            secrets: short-canary
            → 11:12: session.secrets: must be a list (write [one, another])
            secrets: [\#(secret), \#(secret)]
            → 11:47: session.secrets.1: must be unique (keep one of them)
            secrets: ["\#(secret) "]
            → 11:13: session.secrets.0: must be text without control characters and without blanks at its ends (\#(openssl))
            cacheSize: 0
            → 11:14: session.cacheSize: must be in the allowed range, not 0 (write 1 to 100000000)
            sqlite: { path: ":memory:" }
            → 11:19: session.sqlite.path: must be the path of a file, not ":memory:" (write one such as sessions.sqlite)
            valkey: { addresses: ["redis://joe:canary@a:1"] }
            → 11:25: session.valkey.addresses.0: must be an address without user and password (write host:port such as 127.0.0.1:6379)
            valkey: { addresses: ["rediss://a:1"] }
            → 11:25: session.valkey.addresses.0: must be an address without a scheme (write host:port such as 127.0.0.1:6379; enable TLS in tls)
            valkey: { addresses: [a] }
            → 11:25: session.valkey.addresses.0: must be host:port, not "a" (write host:port such as 127.0.0.1:6379)
            valkey: { addresses: [] }
            → 11:24: session.valkey.addresses: must not be empty (write at least one)
            valkey: { addresses: ["a:1", "b:1"] }
            → 11:24: session.valkey.addresses: must be one server unless sentinelPrimary is set or topology is cluster (keep one; for sentinels, write the primary's name in sentinelPrimary; for a cluster, write topology: cluster)
            valkey: { topology: sentinel }
            → 11:23: session.valkey.topology: requires sentinelPrimary (write the primary's name at the sentinels in sentinelPrimary)
            valkey: { sentinelPrimary: m, topology: cluster }
            → 11:30: session.valkey.sentinelPrimary: not supported with topology cluster (write topology: sentinel, or leave it out)
            valkey: { sentinelPrimary: m, topology: single }
            → 11:30: session.valkey.sentinelPrimary: not supported with topology single (write topology: sentinel, or leave it out)
            valkey: { sentinelPassword: canary }
            → 11:31: session.valkey.sentinelPassword: not supported without sentinelPrimary (set sentinelPrimary, or leave it out)
            valkey: { timeout: 5ms }
            → 11:22: session.valkey.timeout: must be in the allowed range, not 5ms (write 10ms to 1m)
            valkey: { replicas: 6 }
            → 11:23: session.valkey.replicas: must be in the allowed range, not 6 (write 0 to 5)
            valkey: { prefix: a b }
            → 11:21: session.valkey.prefix: must be a prefix, not "a b" (write at most 64 letters, digits, colons, hyphens and underscores)
            valkey: { password: "canary\\n" }
            → 11:23: session.valkey.password: must be text without control characters (write plain text; a file may end with one line break)
            """#))
    func aValueErrorInAStoreIsToldWithItsPlace(_ line: String, _ valueError: String) throws {
        let valueErrors = try directory(line).valueErrors()
        expect(valueErrors, equals: ["cloakroom.yaml:\(valueError)"])
        expect(!valueErrors.joined().contains("canary"))
    }

    private static let openssl = "make one with openssl rand -base64 48"

    @Test func theDirectoryOfTheFileHasToBeThereOnlyWhereItIsUsed() throws {
        let directory = try directory("secrets: [\(Self.secret)]", "sqlite: { path: nowhere/a.sqlite }")
        expect(directory.valueErrors(), equals: [])
        expect(
            directory.valueErrors(overrides: [("session.store", "sqlite")]),
            equals: [
                "cloakroom.yaml:12:19: session.sqlite.path: must be in an existing folder: \"nowhere\""
                    + " (create it, or correct the path)"
            ])
    }
}
