import CloakroomCore
import NIOCore
import Testing

@testable import CloakroomSessions

@Suite("Replies to CLUSTER SLOTS")
struct ClusterSlotsTests {
    private static func blob(_ text: String) -> RESPValue { .blob(ByteBuffer(string: text)) }

    private static func node(_ host: RESPValue, _ port: Int64, _ more: RESPValue...) -> RESPValue {
        .array([host, .integer(port), blob("id")] + more)
    }

    private static func row(_ first: Int64, _ last: Int64, _ nodes: RESPValue...) -> RESPValue {
        .array([.integer(first), .integer(last)] + nodes)
    }

    private static func parse(_ rows: RESPValue...) throws -> ClusterSlots {
        try ClusterSlots(.array(rows), asked: "asked.test")
    }

    private func owner(_ slots: ClusterSlots, _ slot: Int) -> String? {
        let index = slots.owners[slot]
        return index == ClusterSlots.none ? nil : slots.primaries[Int(index)].address.description
    }

    @Test("Rows name the slots of primaries, and their replicas")
    func rows() throws {
        let slots = try Self.parse(
            Self.row(0, 99, Self.node(Self.blob("10.0.0.1"), 1), Self.node(Self.blob("10.0.0.4"), 4)),
            Self.row(200, 16_383, Self.node(Self.blob("10.0.0.2"), 2)),
            Self.row(100, 100, Self.node(Self.blob("10.0.0.1"), 1), Self.node(Self.blob("10.0.0.4"), 4)))
        #expect(owner(slots, 0) == "10.0.0.1:1")
        #expect(owner(slots, 99) == "10.0.0.1:1")
        #expect(owner(slots, 100) == "10.0.0.1:1")
        #expect(owner(slots, 101) == nil)
        #expect(owner(slots, 200) == "10.0.0.2:2")
        #expect(owner(slots, 16_383) == "10.0.0.2:2")
        #expect(slots.primaries.count == 2)
        #expect(slots.replicas == [HostAndPort(host: "10.0.0.4", port: 4)])
        #expect(try Self.parse().primaries.isEmpty)
    }

    @Test("A server without a host has the host that was asked, and its own port")
    func missingHosts() throws {
        for host in [RESPValue.null, Self.blob(""), Self.blob("?")] {
            #expect(owner(try Self.parse(Self.row(0, 1, Self.node(host, 7))), 0) == "asked.test:7")
        }
    }

    @Test("Addresses are IPv4, IPv6 or names")
    func addresses() throws {
        for (host, text) in [("::1", "[::1]:7"), ("[::1]", "[::1]:7"), ("a-b.test", "a-b.test:7")] {
            #expect(owner(try Self.parse(Self.row(0, 1, Self.node(Self.blob(host), 7))), 0) == text)
        }
        for host in ["a b", "a:b", "a/b", "\u{e4}", String(repeating: "a", count: 254), "[a]b"] {
            #expect(throws: ClusterSlotsError.malformed, "\(host)") {
                try Self.parse(Self.row(0, 1, Self.node(Self.blob(host), 7)))
            }
        }
    }

    @Test("The host name in the metadata is the TLS name of an IP address")
    func hostNames() throws {
        let map = RESPValue.map([
            RESPValue.Pair(key: Self.blob("ip"), value: Self.blob("10.0.0.1")),
            RESPValue.Pair(key: Self.blob("hostname"), value: Self.blob("valkey-1.test")),
        ])
        let pairs = RESPValue.array([Self.blob("hostname"), Self.blob("valkey-1.test")])
        for metadata in [map, pairs] {
            let slots = try Self.parse(Self.row(0, 1, Self.node(Self.blob("10.0.0.1"), 7, metadata)))
            #expect(slots.primaries.first?.name == "valkey-1.test")
            let named = try Self.parse(Self.row(0, 1, Self.node(Self.blob("other.test"), 7, metadata)))
            #expect(named.primaries.first?.name == nil)
        }
        for odd in [
            RESPValue.null, .array([Self.blob("hostname")]), .array([Self.blob("hostname"), Self.blob("10.0.0.9")]),
            .array([Self.blob("hostname"), Self.blob("a b")]), .array([Self.blob("hostname"), .integer(1)]),
        ] {
            let slots = try Self.parse(Self.row(0, 1, Self.node(Self.blob("10.0.0.1"), 7, odd)))
            #expect(slots.primaries.first?.name == nil)
        }
    }

    @Test("A slot with two primaries is an error, also within a row that covers everything")
    func overlaps() {
        let (a, b) = (Self.node(Self.blob("a"), 1), Self.node(Self.blob("b"), 2))
        for rows in [
            [Self.row(0, 10, a), Self.row(10, 20, b)], [Self.row(0, 10, a), Self.row(0, 10, a)],
            [Self.row(5, 5, a), Self.row(0, 16_383, b)],
        ] {
            #expect(throws: ClusterSlotsError.overlap) { try ClusterSlots(.array(rows), asked: "x") }
        }
    }

    @Test("Values of other types and numbers out of range are errors")
    func malformed() {
        let good = Self.node(Self.blob("a"), 1)
        let values: [RESPValue] = [
            .null, .integer(1), .map([]), Self.blob("x"), .array([.null]), .array([.array([])]),
            .array([.array([.integer(0), .integer(1)])]), .array([.array([.integer(0), Self.blob("1"), good])]),
            .array([Self.row(-1, 1, good)]), .array([Self.row(0, 16_384, good)]), .array([Self.row(2, 1, good)]),
            .array([Self.row(.min, .max, good)]), .array([Self.row(0, 1, .null)]), .array([Self.row(0, 1, .array([]))]),
            .array([Self.row(0, 1, Self.node(.integer(1), 1))]), .array([Self.row(0, 1, Self.node(Self.blob("a"), 0))]),
            .array([Self.row(0, 1, Self.node(Self.blob("a"), 65_536))]), .array([Self.row(0, 1, good, .null)]),
            .array([Self.row(0, 1, Self.node(Self.blob("a"), -1))]),
        ]
        for (index, value) in values.enumerated() {
            #expect(throws: ClusterSlotsError.malformed, "value \(index)") { try ClusterSlots(value, asked: "x") }
        }
    }

    @Test("The number of servers is limited")
    func many() throws {
        func rows(_ count: Int64) -> RESPValue {
            .array((0..<count).map { Self.row($0, $0, Self.node(Self.blob("h\($0)"), 1)) })
        }
        #expect(try ClusterSlots(rows(1_000), asked: "x").primaries.count == 1_000)
        #expect(throws: ClusterSlotsError.tooMany) { try ClusterSlots(rows(1_001), asked: "x") }
        let replicas = (0..<1_001).map { Self.node(Self.blob("h\($0)"), 1) }
        #expect(throws: ClusterSlotsError.tooMany) {
            try ClusterSlots(
                .array([.array([.integer(0), .integer(1), Self.node(Self.blob("p"), 1)] + replicas)]), asked: "x")
        }
    }
}
