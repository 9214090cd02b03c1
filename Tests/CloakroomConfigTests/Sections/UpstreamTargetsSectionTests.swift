import CloakroomCore
import Foundation
import TestSupport
import Testing

@testable import CloakroomConfig

@Suite struct UpstreamTargetsSectionTests {
    private static let plain = "[\"http://127.0.0.1:9000\"]"

    private static func yaml(_ targets: String) -> String {
        ConfigFixture.good.replacingOccurrences(of: plain, with: targets)
    }

    private static func targets(
        _ yaml: String, environment: [String: String] = [:], overrides: [(key: String, value: String)] = []
    ) throws -> [UpstreamTargetConfiguration] {
        try ConfigFixture(yaml).load(environment: environment, overrides: overrides).configuration.upstreams[0].targets
    }

    private static func target(
        _ host: String, weight: Int = 100, tier: Int = 0, zone: String? = nil
    ) -> UpstreamTargetConfiguration {
        var target = UpstreamTargetConfiguration(HostAndPort(host: host, port: 80))
        (target.weight, target.tier, target.zone) = (weight, tier, zone)
        return target
    }

    @Test func aListOfAddressesIsReadAsBefore() throws {
        let config = try ConfigFixture(Self.yaml("[\"http://a\", \"http://b\"]")).load()
        expect(config.configuration.upstreams[0].targets, equals: [Self.target("a"), Self.target("b")])
        expect(
            config.values.contains { $0.key == "upstreams.api.targets" && $0.value == "[http://a:80, http://b:80]" })
        expect(config.warnings, equals: [])
    }

    @Test(
        "Passwords and an API token that a public address gets unencrypted are a warning",
        arguments: [
            ("http://api.example.com", true), ("http://203.0.113.1", true), ("http://[2001:db8::1]", true),
            ("https://api.example.com", false), ("http://api", false), ("http://api.api.svc.cluster.local", false),
            ("http://10.1.2.3", false), ("http://[fd00::1]", false),
            ("http://localhost", false), ("http://127.0.0.1", false), ("unix:/run/api.sock", false),
        ])
    func clearText(_ target: String, isWarned: Bool) throws {
        let port = target.hasPrefix("http:") ? ":80" : ""
        let yaml = Self.yaml("[\"\(target)\(port)\"]")
        let all = "upstreams.api.targets: passwords and tokens would be sent unencrypted to \(target)\(port)"
        let messages = try ConfigFixture(yaml).load().warnings.map(\.description)
        expect(messages.contains { $0.contains(all) }, equals: isWarned, "\(messages)")
        expect(messages.count, equals: (isWarned ? 1 : 0), "\(messages)")
    }

    @Test func anAddressAndAMappingCanBeItemsOfOneList() throws {
        let yaml = Self.yaml(
            """

                  - http://a
                  - { url: "http://b", weight: 7, tier: 2, zone: west }
                  - url: unix:/run/api.sock
                    weight: 0
                zone: east
            """)
        var socket = UpstreamTargetConfiguration(unixSocket: "/run/api.sock")
        socket.weight = 0
        let expected = [Self.target("a"), Self.target("b", weight: 7, tier: 2, zone: "west"), socket]
        try expect(Self.targets(yaml), equals: expected)
    }

    @Test func printedValuesOfAMixedListHaveTheirPositions() throws {
        let fixture = try ConfigFixture(Self.yaml("[\"http://a\", { url: \"http://b\", weight: 7 }]"))
        let values = try fixture.load().values.filter { $0.key.hasPrefix("upstreams.api.targets") }.map {
            "\($0.key) \($0.value) \($0.origin.replacing(fixture.path + "/", with: ""))"
        }
        expect(
            values,
            equals: [
                "upstreams.api.targets.0.url http://a:80 cloakroom.yaml:5:15",
                "upstreams.api.targets.0.weight 100 default", "upstreams.api.targets.0.tier 0 default",
                "upstreams.api.targets.1.url http://b:80 cloakroom.yaml:5:34",
                "upstreams.api.targets.1.weight 7 cloakroom.yaml:5:54", "upstreams.api.targets.1.tier 0 default",
            ])
    }

    @Test func flagsAndVariablesChangeItemsOfEitherKindAndAppendOne() throws {
        let plain = Self.yaml("[\"http://a\", \"http://b\"]")
        try expect(
            Self.targets(
                plain, environment: ["CLOAKROOM_UPSTREAMS_API_TARGETS_1_WEIGHT": "0"],
                overrides: [("upstreams.api.targets.0.tier", "1"), ("upstreams.api.targets.2.url", "http://c")]),
            equals: [Self.target("a", tier: 1), Self.target("b", weight: 0), Self.target("c")])
        let mapped = Self.yaml("[{ url: \"http://a\", weight: 3 }]")
        try expect(
            Self.targets(mapped, overrides: [("upstreams.api.targets.0.weight", "4")]),
            equals: [
                Self.target("a", weight: 4)
            ])
    }

    @Test func aFlagSetsTheURLOfAnItemOfEitherKindAndAppendsOne() throws {
        let overrides: [(key: String, value: String)] = [
            ("upstreams.api.targets.0", "http://c"), ("upstreams.api.targets.2", "http://d"),
        ]
        for list in ["[\"http://a\", \"http://b\"]", "[{ url: \"http://a\", weight: 3 }, \"http://b\"]"] {
            let weight = list.contains("weight") ? 3 : 100
            try expect(
                Self.targets(Self.yaml(list), overrides: overrides),
                equals: [Self.target("c", weight: weight), Self.target("b"), Self.target("d")])
        }
        try expect(
            ConfigFixture().valueErrors(overrides: [("upstreams.api.targets.0", "ftp://a")]),
            equals: [
                "--set: upstreams.api.targets.0.url: must be an address of an upstream, not \"ftp:\""
                    + " (write http://host:port, https://host:port or unix:/path)"
            ])
    }

    @Test func aFlagOrAVariableReplacesTheWholeListOfEitherKind() throws {
        for list in ["[\"http://a\", \"http://b\"]", "[{ url: \"http://a\", weight: 3 }, \"http://b\"]"] {
            try expect(
                Self.targets(
                    Self.yaml(list), environment: ["CLOAKROOM_UPSTREAMS_API_TARGETS": "http://c,http://d"]),
                equals: [Self.target("c"), Self.target("d")])
            try expect(
                Self.targets(Self.yaml(list), overrides: [("upstreams.api.targets", "http://e")]),
                equals: [
                    Self.target("e")
                ])
        }
    }

    @Test(arguments: mistakes)
    func aMistakeIsReportedWithItsPlaceAndARemedy(_ example: DiagnosticCase) throws {
        try example.check()
    }

    static let mistakes = DiagnosticCase.table(
        #"""
        \#(plain) ⇒ [{ weight: 1 }]
        → 5:15: upstreams.api.targets.0.url: required key missing (write it)
        \#(plain) ⇒ [{ url: "ftp://a" }]
        → 5:22: upstreams.api.targets.0.url: must be an address of an upstream, not "ftp:" (write http://host:port, https://host:port or unix:/path)
        \#(plain) ⇒ ["h2c://a"]
        → 5:15: upstreams.api.targets.0: h2c is not supported as the scheme of a target (write http:// or https://, and protocol: h2c or http2)
        \#(plain) ⇒ [{ url: "http://a", weigth: 1 }]
        → 5:34: upstreams.api.targets.0.weigth: unknown key (did you mean "weight"?)
        \#(plain) ⇒ [{ url: "http://a", weight: 1001 }]
        → 5:42: upstreams.api.targets.0.weight: must be in the allowed range, not 1001 (write 0 to 1000)
        \#(plain) ⇒ [{ url: "http://a", weight: -1 }]
        → 5:42: upstreams.api.targets.0.weight: must be in the allowed range, not -1 (write 0 to 1000)
        \#(plain) ⇒ [{ url: "http://a", tier: 10 }]
        → 5:40: upstreams.api.targets.0.tier: must be in the allowed range, not 10 (write 0 to 9)
        \#(plain) ⇒ [{ url: "http://a", zone: "a b" }]
        → 5:40: upstreams.api.targets.0.zone: must be a name, not "a b" (write at most 64 letters, digits, dots, hyphens and underscores, a letter or digit first)
        \#(plain) ⇒ ["http://a", "http://b", "http://A:80/"]
        → 5:39: upstreams.api.targets.2: http://A:80 must not be listed twice (keep one of them, with a weight)
        \#(plain) ⇒ [{ url: "unix:/a" }, "unix:/a"]
        → 5:35: upstreams.api.targets.1.url: unix:/a must not be listed twice (keep one of them, with a weight)
        \#(plain) ⇒ [{ url: "http://a", weight: 0 }, { url: "http://b", weight: 0 }]
        → 5:5: upstreams.api.targets: must have a target with a weight above 0: all are drained (raise the weight of one, or leave weight out)
        \#(plain) ⇒ [\#(many)]
        → 5:14: upstreams.api.targets: must have at most 64 targets, not 65 (name a host with several addresses, or divide the upstream)
        \#(plain) ⇒ ["https://a", "http://b"]\n    protocol: http2
        → 6:15: upstreams.api.protocol: http2 conflicts with target http://b:80, which has no TLS (write h2c, or https:// targets)
        \#(plain) ⇒ ["unix:/a"]\n    protocol: http2
        → 6:15: upstreams.api.protocol: http2 conflicts with target unix:/a, which has no TLS (write h2c, or https:// targets)
        \#(plain) ⇒ ["http://b", "https://a"]\n    protocol: h2c
        → 6:15: upstreams.api.protocol: h2c conflicts with target https://a:443, which has TLS (write http2, or http:// targets)
        \#(plain) ⇒ ["http://b"]\n    protocol: http3
        → 6:15: upstreams.api.protocol: must be one of the allowed values, not "http3" (write http1, http2, h2c or auto)
        """#)

    private static let many = (1...65).map { "\"http://a\($0)\"" }.joined(separator: ", ")

    @Test func aFullListOf64TargetsIsAccepted() throws {
        let list = "[" + (1...64).map { "\"http://a\($0)\"" }.joined(separator: ", ") + "]"
        try expect(Self.targets(Self.yaml(list)).count, equals: 64)
    }

    @Test(arguments: [
        ("[\"http://a\", \"https://a\"]", UpstreamProtocol.auto), ("[\"https://a\"]", .http2),
        ("[\"http://a\", \"unix:/a\"]", .h2c), ("[\"http://a\", \"https://a:80\"]", .http1),
    ])
    func aProtocolThatFitsItsTargetsIsAccepted(_ list: String, _ version: UpstreamProtocol) throws {
        let yaml = Self.yaml("\(list)\n    protocol: \(version.rawValue)")
        try expect(ConfigFixture(yaml).load().configuration.upstreams[0].protocolVersion, equals: version)
    }

    @Test func aZoneWithoutThatOfTheGatewayCausesAWarning() throws {
        let yaml = Self.yaml("[{ url: \"http://a\", zone: west }]")
        let fixture = try ConfigFixture(yaml)
        try expect(
            fixture.load().warnings.map { $0.description.replacing(fixture.path + "/", with: "") },
            equals: [
                "cloakroom.yaml:5:40: warning: upstreams.api.targets.0.zone: has no effect without the zone of the"
                    + " gateway (set upstreams.api.zone, or leave it out)"
            ])
        try expect(fixture.load(overrides: [("upstreams.api.zone", "east")]).warnings, equals: [])
    }
}
