import CloakroomCore
import NIOCore
import TestSupport
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
        expect(owner(slots, 0), equals: "10.0.0.1:1")
        expect(owner(slots, 99), equals: "10.0.0.1:1")
        expect(owner(slots, 100), equals: "10.0.0.1:1")
        expect(owner(slots, 101), equals: nil)
        expect(owner(slots, 200), equals: "10.0.0.2:2")
        expect(owner(slots, 16_383), equals: "10.0.0.2:2")
        expect(slots.primaries.count, equals: 2)
        expect(slots.replicas, equals: [HostAndPort(host: "10.0.0.4", port: 4)])
        try expect(empty: Self.parse().primaries)
    }

    @Test("A server without a host has the host that was asked, and its own port")
    func missingHosts() throws {
        for host in [RESPValue.null, Self.blob("")] {
            expect(owner(try Self.parse(Self.row(0, 1, Self.node(host, 7))), 0), equals: "asked.test:7")
        }
    }

    @Test("A server without the name that its cluster prefers has its IP address, and never the host that was asked")
    func missingNames() throws {
        let unnamed = Self.blob("?")
        for (ip, address) in [("10.0.0.9", "10.0.0.9:7"), ("2001:db8::9", "[2001:db8::9]:7")] {
            let map = RESPValue.map([Self.blob("ip"), Self.blob(ip)])
            for metadata in [map, .array([Self.blob("ip"), Self.blob(ip)])] {
                let slots = try Self.parse(Self.row(0, 1, Self.node(unnamed, 7, metadata)))
                expect(owner(slots, 0), equals: address)
                expect(slots.primaries.first?.name, equals: nil)
            }
        }
        for odd in [
            RESPValue.null, .array([]), .array([Self.blob("ip")]), .array([Self.blob("ip"), Self.blob("")]),
            .array([Self.blob("ip"), .null]), .array([Self.blob("ip"), Self.blob("other.test")]),
            .array([Self.blob("hostname"), Self.blob("10.0.0.9")]), .array([Self.blob("ip"), Self.blob("?")]),
        ] {
            #expect(throws: ClusterSlotsError.unnamed, "\(odd)") {
                try Self.parse(Self.row(0, 1, Self.node(unnamed, 7, odd)))
            }
            // Replicas are not used, so one more that is unknown is no obstacle.
            let primary = Self.node(Self.blob("10.0.0.1"), 1)
            let slots = try Self.parse(Self.row(0, 1, primary, Self.node(unnamed, 7, odd), Self.node(.null, 8)))
            expect(slots.replicas, equals: [HostAndPort(host: "asked.test", port: 8)])
        }
        #expect(throws: ClusterSlotsError.unnamed) { try Self.parse(Self.row(0, 1, Self.node(unnamed, 7))) }
        expect(ClusterSlotsError.unnamed.disconnectReason.advice?.contains("cluster-announce-hostname"), equals: true)
        expect(ClusterSlotsError.overlap.disconnectReason, equals: .protocolError)
    }

    @Test("Addresses are IPv4, IPv6 or names")
    func addresses() throws {
        for (host, text) in [("::1", "[::1]:7"), ("[::1]", "[::1]:7"), ("a-b.test", "a-b.test:7")] {
            expect(owner(try Self.parse(Self.row(0, 1, Self.node(Self.blob(host), 7))), 0), equals: text)
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
            Self.blob("ip"), Self.blob("10.0.0.1"),
            Self.blob("hostname"), Self.blob("valkey-1.test"),
        ])
        let pairs = RESPValue.array([Self.blob("hostname"), Self.blob("valkey-1.test")])
        for metadata in [map, pairs] {
            let slots = try Self.parse(Self.row(0, 1, Self.node(Self.blob("10.0.0.1"), 7, metadata)))
            expect(slots.primaries.first?.name, equals: "valkey-1.test")
            let named = try Self.parse(Self.row(0, 1, Self.node(Self.blob("other.test"), 7, metadata)))
            expect(named.primaries.first?.name, equals: nil)
        }
        for odd in [
            RESPValue.null, .array([Self.blob("hostname")]), .array([Self.blob("hostname"), Self.blob("10.0.0.9")]),
            .array([Self.blob("hostname"), Self.blob("a b")]), .array([Self.blob("hostname"), .integer(1)]),
        ] {
            let slots = try Self.parse(Self.row(0, 1, Self.node(Self.blob("10.0.0.1"), 7, odd)))
            expect(slots.primaries.first?.name, equals: nil)
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
        try expect(ClusterSlots(rows(1_000), asked: "x").primaries.count, equals: 1_000)
        #expect(throws: ClusterSlotsError.tooMany) { try ClusterSlots(rows(1_001), asked: "x") }
        let replicas = (0..<1_001).map { Self.node(Self.blob("h\($0)"), 1) }
        #expect(throws: ClusterSlotsError.tooMany) {
            try ClusterSlots(
                .array([.array([.integer(0), .integer(1), Self.node(Self.blob("p"), 1)] + replicas)]), asked: "x")
        }
    }
}

@Suite("Hash slots")
struct HashSlotTests {
    @Test(
        "The slots are those of CLUSTER KEYSLOT",
        arguments: [
            ("123456789", 12_739), ("foo", 12_182), ("somekey", 11_058), ("foo{hash_tag}", 2_515),
            ("foo{}{bar}", 8_363), ("foo{{bar}}zap", 4_015), ("foo{bar}{zap}", 5_061), ("bar", 5_061), ("", 0),
            ("{}", 15_257), ("{", 4_092), ("a{b", 13_340), ("}{x}", 16_287),
            ("cloakroom:{0000000000000001}:session", 8_146),
        ] as [(String, UInt16)])
    func known(_ key: String, _ slot: UInt16) {
        expect(HashSlot.slot(of: key), equals: slot)
    }

    @Test("All keys of a session share a slot, and so do an account's")
    func sessions() {
        let keys = ValkeyKeys(prefix: "p")
        for number in 0..<100 as Range<UInt64> {
            let id = SessionID(number &* 0x9e37_79b9_7f4a_7c15)
            let slot = HashSlot.slot(of: keys.session(id))
            expect(HashSlot.slot(of: keys.lease(id)), equals: slot)
            expect(HashSlot.slot(of: keys.ended(id)), equals: slot)
        }
    }

    @Test("A command has the slot of its key, a script that of its first key, and PING none")
    func commands() {
        expect(ValkeyCommand("GET", key: "foo").slot, equals: 12_182)
        expect(ValkeyCommand("GET", key: "foo").encoded, equals: ValkeyCommand("GET", "foo").encoded)
        expect(SessionScripts.release.evalsha(["foo"], ["1"]).slot, equals: 12_182)
        expect(SessionScripts.release.eval(["foo"], ["1"]).slot, equals: 12_182)
        expect(ValkeyCommand("PING").slot, equals: nil)
    }

    @Test("Slots are collected into ranges")
    func ranges() {
        var ranges = SlotRanges()
        for slot in [0, 1, 2, 5, 7, 8] { ranges.append(slot) }
        expect(ranges.ranges, equals: [0..<3, 5..<6, 7..<9])
    }
}

@Suite("Redirections of a cluster")
struct ClusterRedirectionTests {
    @Test("MOVED and ASK name a slot and another server")
    func valid() throws {
        let asked = HostAndPort(host: "asked.test", port: 1)
        let cases: [(String, ClusterRedirection.Kind, Int, String)] = [
            ("MOVED 3999 127.0.0.1:6381", .moved, 3_999, "127.0.0.1:6381"),
            ("ASK 16383 valkey-1.test:6379", .ask, 16_383, "valkey-1.test:6379"),
            ("MOVED 0 ::1:6379", .moved, 0, "[::1]:6379"),
            ("MOVED 0 2001:db8::5:65535", .moved, 0, "[2001:db8::5]:65535"),
            ("MOVED 1 [::1]:6379", .moved, 1, "[::1]:6379"),
            ("MOVED 1 :6379", .moved, 1, "asked.test:6379"),
        ]
        for (line, kind, slot, address) in cases {
            let redirection = try require(RESPError(line: line).redirection, "\(line)")
            expect(redirection.kind, equals: kind)
            expect(redirection.slot, equals: slot)
            expect(redirection.address(from: asked)?.description, equals: address)
        }
    }

    @Test("The target of a redirection may be unknown: it is not the server that was asked")
    func unknown() throws {
        for line in ["MOVED 3999 ?:6379", "ASK 3999 ?:6379"] {
            let redirection = try require(RESPError(line: line).redirection)
            expect(redirection.slot, equals: 3_999)
            expect(redirection.address(from: HostAndPort(host: "asked.test", port: 1)), equals: nil)
        }
        expect(
            ClusterRedirection(line: "MOVED 3999 :6379")?.address(from: HostAndPort(host: "", port: 1))?.host,
            equals: "")
        expect(RESPError(line: "MOVED 3999 ?:0").redirection, equals: nil)
    }

    @Test(
        "Anything else is no redirection",
        arguments: [
            "MOVED", "MOVED 1", "MOVED 1 a", "MOVED 1 a:", "MOVED 1 a:0", "MOVED 1 a:65536", "MOVED 1 a:-1",
            "MOVED 16384 a:1", "MOVED -1 a:1", "MOVED x a:1", "MOVED 1 a:1 b", "MOVED  1 a:1", "MOVED 1 a b:1",
            "ASK 1 a/b:1", "ASK 1 a\u{0}:1", "ASK 1 \u{e4}:1", "ERR 1 a:1", "moved 1 a:1", "CLUSTERDOWN 1 a:1",
            "MOVED 1 \(String(repeating: "a", count: 254)):1",
        ])
    func invalid(_ line: String) {
        expect(RESPError(line: line).redirection, equals: nil)
    }
}
