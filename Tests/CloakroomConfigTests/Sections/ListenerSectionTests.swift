import CloakroomConfig
import CloakroomCore
import Testing

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
        let listener = try #require(try Self.load().listeners.first)
        #expect(!listener.http2)
        #expect(listener.proxyProtocolSources == nil)
        #expect(try Self.load("http2: true").listeners.first?.http2 == true)
    }

    @Test("The sources of PROXY headers are addresses and ranges")
    func proxyProtocol() throws {
        let configuration = try Self.load("proxyProtocol: { trustedSources: [10.0.0.0/8, \"::1\"] }")
        #expect(
            configuration.listeners.first?.proxyProtocolSources
                == [CIDRBlock("10.0.0.0/8"), CIDRBlock("::1")].compactMap(\.self))
    }

    @Test(
        "The PROXY protocol requires trusted sources",
        arguments: pairs(
            #"""
            proxyProtocol: { trustedSources: [] }
            → 3:38: listeners.0.proxyProtocol.trustedSources: must not be empty (write at least one)
            proxyProtocol: { trustedSources: [10.0.0.1/8] }
            → 3:39: listeners.0.proxyProtocol.trustedSources.0: must be an address or range, not "10.0.0.1/8" (write one such as 10.0.0.0/8, with no bits set after the prefix)
            proxyProtocol: true
            → 3:5: listeners.0.proxyProtocol: must be a section of keys, not one value (write its keys below it, indented)
            """#))
    func valueErrors(keys: String, valueError: String) throws {
        let valueErrors = try ConfigFixture.valueErrors(replacing: "address: 127.0.0.1:0", by: Self.listener(keys))
        #expect(valueErrors == ["cloakroom.yaml:" + valueError])
    }

    @Test("The proxyProtocol section requires trustedSources")
    func missingSources() throws {
        let valueErrors = try ConfigFixture.valueErrors(
            replacing: "address: 127.0.0.1:0", by: Self.listener("proxyProtocol: {}"))
        #expect(valueErrors.count == 1)
        #expect(valueErrors.first?.contains("proxyProtocol") == true)
    }

    @Test("Connections are limited in total and per address")
    func limits() throws {
        let limits = try ConfigFixture().load().configuration.limits
        #expect(limits.connections == 20_000)
        #expect(limits.connectionsPerAddress == 1_000)
        let unlimited = try ConfigFixture().load(overrides: [("limits.connectionsPerAddress", "0")])
        #expect(unlimited.configuration.limits.connectionsPerAddress == 0)
        #expect(try ConfigFixture().valueErrors(overrides: [("limits.connectionsPerAddress", "-1")]).count == 1)
    }
}
