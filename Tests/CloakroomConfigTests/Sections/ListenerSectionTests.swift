import CloakroomConfig
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Listener protocols and limits")
struct ListenerSectionTests {
    /// A configuration with the listener's address and further keys of the listener.
    private static func listener(_ keys: String...) -> String {
        (["address: 127.0.0.1:0"] + keys.map { "    " + $0 }).joined(separator: "\n")
    }

    private static func load(_ keys: String...) throws -> GatewayConfiguration {
        let yaml = ConfigFixture.good.replacing(
            "address: 127.0.0.1:0", with: (["address: 127.0.0.1:0"] + keys.map { "    " + $0 }).joined(separator: "\n"))
        return try ConfigFixture(yaml).load().configuration
    }

    @Test("In clear text, HTTP/2 is disabled by default, and no PROXY header is expected")
    func defaults() throws {
        let listener = try require(Self.load().listeners.first)
        expect(!listener.http2)
        expect(listener.proxyProtocolSources, equals: nil)
        try expect(Self.load("http2: true").listeners.first?.http2, equals: true)
    }

    @Test("The sources of PROXY headers are addresses and ranges")
    func proxyProtocol() throws {
        let configuration = try Self.load("proxyProtocol: { trustedSources: [10.0.0.0/8, \"::1\"] }")
        expect(
            configuration.listeners.first?.proxyProtocolSources,
            equals: [CIDRBlock("10.0.0.0/8"), CIDRBlock("::1")].compactMap(\.self))
    }

    @Test(
        "The PROXY protocol requires trusted sources",
        arguments: pairs(
            #"""
            proxyProtocol: { trustedSources: [] }
            → 3:38: listeners.0.proxyProtocol.trustedSources: must not be empty (write at least one)
            proxyProtocol: { trustedSources: [10.0.0.1/8] }
            → 3:39: listeners.0.proxyProtocol.trustedSources.0: must be an address or range, not "10.0.0.1/8": bits are set after the prefix (write 10.0.0.0/8)
            proxyProtocol: true
            → 3:5: listeners.0.proxyProtocol: must be a section of keys, not one value (write its keys below it, indented)
            """#))
    func valueErrors(keys: String, valueError: String) throws {
        let valueErrors = try ConfigFixture.valueErrors(replacing: "address: 127.0.0.1:0", by: Self.listener(keys))
        expect(valueErrors, equals: ["cloakroom.yaml:" + valueError])
    }

    @Test("The proxyProtocol section requires trustedSources")
    func missingSources() throws {
        let valueErrors = try ConfigFixture.valueErrors(
            replacing: "address: 127.0.0.1:0", by: Self.listener("proxyProtocol: {}"))
        expect(valueErrors.count, equals: 1)
        expect(valueErrors.first?.contains("proxyProtocol"), equals: true)
    }

    @Test("A listener that decides for another proxy has its kind, its addresses and its hosts")
    func forwardAuth() throws {
        let keys = "forwardAuth: { proxy: envoy, sources: [10.0.0.7, 10.1.0.0/16], hosts: [App.example.com] }"
        let listener = try require(Self.load(keys).listeners.first)
        expect(
            listener.forwardAuth,
            equals: ForwardAuthConfiguration(
                proxy: .envoy, sources: [CIDRBlock("10.0.0.7"), CIDRBlock("10.1.0.0/16")].compactMap(\.self),
                hosts: ["app.example.com"]))
        try expect(Self.load().listeners.first?.forwardAuth, equals: nil)
    }

    @Test(
        "Forward authorization needs all of its keys, does not believe every address, and serves nothing else",
        arguments: [
            ("forwardAuth: { sources: [10.0.0.7], hosts: [a.test] }", "forwardAuth.proxy: required key missing"),
            ("forwardAuth: { proxy: nginx, hosts: [a.test] }", "forwardAuth.sources: required key missing"),
            ("forwardAuth: { proxy: nginx, sources: [10.0.0.7] }", "forwardAuth.hosts: required key missing"),
            ("forwardAuth: { proxy: nginx, sources: [], hosts: [a.test] }", "sources: must not be empty"),
            ("forwardAuth: { proxy: nginx, sources: [0.0.0.0/0], hosts: [a.test] }", "must not be every address"),
            ("forwardAuth: { proxy: nginx, sources: [\"::/0\"], hosts: [a.test] }", "must not be every address"),
            (
                "forwardAuth: { proxy: apache, sources: [10.0.0.7], hosts: [a.test] }",
                "must be one of the allowed values"
            ),
        ])
    func forwardAuthErrors(keys: String, problem: String) throws {
        let found = try ConfigFixture.valueErrors(replacing: "address: 127.0.0.1:0", by: Self.listener(keys))
        expect(found.contains { $0.contains(problem) }, "\(found)")
    }

    @Test(
        "Keys of listeners for clients conflict with forward authorization",
        arguments: ["hosts: [a.test]", "behindTLSProxy: true", "development: true", "redirectToHTTPS: 443"])
    func forwardAuthConflicts(key: String) throws {
        let keys = "forwardAuth: { proxy: nginx, sources: [10.0.0.7], hosts: [a.test] }"
        let found = try ConfigFixture.valueErrors(replacing: "address: 127.0.0.1:0", by: Self.listener(keys, key))
        let name = key.prefix { $0 != ":" }
        expect(found.contains { $0.contains("listeners.0.\(name): conflicts with forwardAuth") }, "\(found)")
    }

    @Test("Connections are limited in total and per address")
    func limits() throws {
        let limits = try ConfigFixture().load().configuration.limits
        expect(limits.connections, equals: 20_000)
        expect(limits.connectionsPerAddress, equals: 1_000)
        let unlimited = try ConfigFixture().load(overrides: [("limits.connectionsPerAddress", "0")])
        expect(unlimited.configuration.limits.connectionsPerAddress, equals: 0)
        try expect(ConfigFixture().valueErrors(overrides: [("limits.connectionsPerAddress", "-1")]).count, equals: 1)
    }
}
