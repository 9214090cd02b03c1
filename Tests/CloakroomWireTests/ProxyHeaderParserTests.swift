import NIOCore
import TestSupport
import Testing

@testable import CloakroomWire

@Suite("The PROXY header (proxy-protocol.txt)")
struct ProxyHeaderParserTests {
    private static let signature: [UInt8] = [
        0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a,
    ]

    /// Returns a version 2 header.
    private static func binary(
        command: UInt8 = 0x21, _ family: UInt8, _ content: [UInt8], length: Int? = nil
    ) -> [UInt8] {
        let length = length ?? content.count
        return signature + [command, family, UInt8(length >> 8 & 0xff), UInt8(length & 0xff)] + content
    }

    private static func line(_ text: String) -> [UInt8] { Array("PROXY \(text)\r\n".utf8) }

    private static let version4: [UInt8] = [192, 0, 2, 1, 198, 51, 100, 2, 0xdb, 0x93, 0x01, 0xbb]
    private static let version6: [UInt8] =
        [0x20, 0x01, 0x0d, 0xb8] + Array(repeating: 0, count: 11) + [1]
        + [0x20, 0x01, 0x0d, 0xb8] + Array(repeating: 0, count: 11) + [2] + [0xdb, 0x93, 0x01, 0xbb]

    /// A header and the source that it contains.
    struct Good: Sendable {
        var header: [UInt8]
        var address: String?
        var port = 56_211
    }

    static let headers: [Good] = [
        Good(header: line("TCP4 192.0.2.1 198.51.100.2 56211 443"), address: "192.0.2.1"),
        Good(
            header: line("TCP4 255.255.255.255 255.255.255.255 65535 65535"), address: "255.255.255.255", port: 65_535),
        Good(header: line("TCP4 192.0.2.1 198.51.100.2 0 0"), address: "192.0.2.1", port: 0),
        Good(header: line("TCP6 2001:db8::1 2001:DB8::2 56211 443"), address: "2001:db8::1"),
        Good(
            header: line(
                "TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535"),
            address: "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", port: 65_535),
        Good(header: line("UNKNOWN")),
        Good(header: line("UNKNOWN what ever")),
        Good(
            header: line(
                "UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535")),
        Good(header: binary(0x11, version4), address: "192.0.2.1"),
        Good(header: binary(0x21, version6), address: "2001:db8::1"),
        // Extensions are skipped: a NOOP, and a name.
        Good(
            header: binary(0x11, version4 + [0x04, 0, 2, 0, 0] + [0x02, 0, 4, 0x74, 0x65, 0x73, 0x74]),
            address: "192.0.2.1"),
        Good(header: binary(0x11, version4 + Array(repeating: 4, count: 4_068)), address: "192.0.2.1"),
        // LOCAL: from the proxy itself, regardless of the addresses.
        Good(header: binary(command: 0x20, 0x00, [])),
        Good(header: binary(command: 0x20, 0x11, version4)),
        Good(header: binary(command: 0x20, 0xff, [1, 2, 3])),
        // Valid, but not TCP over IP.
        Good(header: binary(0x00, [])),
        Good(header: binary(0x00, [1, 2, 3])),
        Good(header: binary(0x12, version4)),
        Good(header: binary(0x22, version6)),
        Good(header: binary(0x31, Array(repeating: 0x61, count: 216))),
        Good(header: binary(0x32, Array(repeating: 0x61, count: 216))),
    ]

    static let others: [(bytes: [UInt8], error: ProxyHeaderError)] = [
        (Array("GET / HTTP/1.1\r\nHost: a\r\n\r\n".utf8), .signature),
        (Array("PROXX TCP4".utf8), .signature),
        (Array("proxy TCP4".utf8), .signature),
        (Array("PROXY\r\n".utf8), .signature),
        (Array("PRI * HTTP/2.0\r\n\r\n".utf8), .signature),
        ([0x16, 0x03, 0x01, 0x02, 0x00], .signature),
        ([0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0d], .signature),
        (line(""), .line),
        (line("TCP"), .line),
        (line("TCP5 192.0.2.1 198.51.100.2 1 2"), .line),
        (line("tcp4 192.0.2.1 198.51.100.2 1 2"), .line),
        (line("UNKNOWNX"), .line),
        (line(" UNKNOWN"), .line),
        (line("TCP4"), .line),
        (line("TCP4 192.0.2.1 198.51.100.2 1"), .line),
        (line("TCP4 192.0.2.1 198.51.100.2 1 2 3"), .line),
        (line("TCP4  192.0.2.1 198.51.100.2 1 2"), .line),
        (line("TCP4 192.0.2.1 198.51.100.2 1 2 "), .line),
        (Array("PROXY UNKNOWN\n".utf8), .line),
        (Array("PROXY UNKNOWN\r\r\n".utf8), .line),
        (Array("PROXY UNKNOWN a\rb\r\n".utf8), .line),
        (Array("PROXY UNKNOWN a\nb\r\n".utf8), .line),
        (line("UNKNOWN " + String(repeating: "x", count: 92)), .line),
        (Array(("PROXY " + String(repeating: "x", count: 200)).utf8), .line),
        (line("TCP4 192.0.2.256 198.51.100.2 1 2"), .address),
        (line("TCP4 192.0.02.1 198.51.100.2 1 2"), .address),
        (line("TCP4 192.0.2 198.51.100.2 1 2"), .address),
        (line("TCP4 192.0.2.1 nowhere 1 2"), .address),
        (line("TCP4 192.0.2.1\u{0} 198.51.100.2 1 2"), .address),
        (line("TCP4 2001:db8::1 2001:db8::2 1 2"), .address),
        (line("TCP6 192.0.2.1 198.51.100.2 1 2"), .address),
        (line("TCP6 2001:db8::1::2 2001:db8::2 1 2"), .address),
        (line("TCP6 fe80::1%lo 2001:db8::2 1 2"), .address),
        (line("TCP4 192.0.2.1 198.51.100.2 65536 2"), .address),
        (line("TCP4 192.0.2.1 198.51.100.2 01 2"), .address),
        (line("TCP4 192.0.2.1 198.51.100.2 +1 2"), .address),
        (line("TCP4 192.0.2.1 198.51.100.2 1 -2"), .address),
        (line("TCP4 192.0.2.1 198.51.100.2  2"), .address),
        (binary(command: 0x11, 0x11, version4), .version),
        (binary(command: 0x22, 0x11, version4), .version),
        (binary(command: 0x31, 0x11, version4), .version),
        (binary(0x13, version4), .version),
        (binary(0x10, version4), .version),
        (binary(0x01, []), .version),
        (binary(0x41, version4), .version),
        (binary(0x11, version4.dropLast()), .length),
        (binary(0x11, []), .length),
        (binary(0x21, version4), .length),
        (binary(0x31, version6), .length),
        (binary(0x11, version4, length: 4_081), .length),
        (binary(command: 0x20, 0x00, [], length: 65_535), .length),
    ]

    /// Parses bytes in two pieces, and returns the unconsumed bytes too.
    private static func read(_ bytes: [UInt8], cut: Int) throws -> (ProxyHeader?, [UInt8]) {
        var parser = ProxyHeaderParser()
        var buffer = ByteBuffer(bytes: bytes[..<cut])
        if let header = try parser.parse(&buffer) {
            return (header, Array(buffer.readableBytesView) + bytes[cut...])
        }
        expect(buffer.readableBytes, equals: 0)
        buffer = ByteBuffer(bytes: bytes[cut...])
        let header = try parser.parse(&buffer)
        return (header, Array(buffer.readableBytesView))
    }

    @Test("A header contains the source at every split, and following bytes are not consumed", arguments: headers)
    func good(_ example: Good) throws {
        let following = Array("GET / HTTP/1.1\r\n".utf8)
        // Every split, except for the header with the maximum of extensions.
        for cut in stride(from: 0, through: example.header.count, by: example.header.count > 300 ? 97 : 1) {
            let (header, rest) = try Self.read(example.header + following, cut: cut)
            expect(header != nil)
            expect(header?.source?.ipAddress, equals: example.address)
            if example.address != nil { expect(header?.source?.port, equals: example.port) }
            expect(rest, equals: following)
        }
    }

    @Test("A header is incomplete before its last byte", arguments: headers)
    func incomplete(_ example: Good) throws {
        var parser = ProxyHeaderParser()
        var buffer = ByteBuffer(bytes: example.header.dropLast())
        try expect(parser.parse(&buffer), equals: nil)
    }

    @Test("Anything else is rejected at every split", arguments: others)
    func bad(_ bytes: [UInt8], error: ProxyHeaderError) {
        for cut in 0...bytes.count {
            #expect(throws: error) { try Self.read(bytes, cut: cut) }
        }
    }

    @Test("An invalid header is rejected at its first invalid byte")
    func early() {
        for bytes: [UInt8] in [[0x47], [0x16], [0x00], [0x0d, 0x0d], Array("PR ".utf8), Array("PROXY\t".utf8)] {
            var parser = ProxyHeaderParser()
            var buffer = ByteBuffer(bytes: bytes)
            #expect(throws: ProxyHeaderError.signature) { try parser.parse(&buffer) }
        }
    }

    @Test("Random bytes give an error or a header, and never more than the maximum length is consumed")
    func random() throws {
        var generator = SeededGenerator(seed: 20_140_518)
        var outcomes: [Bool: Int] = [:]
        for _ in 0..<4_000 {
            guard let example = Self.headers.randomElement(using: &generator) else { continue }
            var bytes = example.header + Array(repeating: 0x41, count: 5_000)
            for _ in 0..<Int.random(in: 1...3, using: &generator) {
                let place = Int.random(in: 0..<min(example.header.count, 60), using: &generator)
                bytes[place] = UInt8.random(in: 0...255, using: &generator)
            }
            var parser = ProxyHeaderParser()
            var buffer = ByteBuffer(bytes: bytes)
            let isHeader = (try? parser.parse(&buffer)) != nil
            #expect(bytes.count - buffer.readableBytes <= 4_096)
            outcomes[isHeader, default: 0] += 1
        }
        // Both outcomes must occur, or the mutations are too weak or too strong.
        #expect(outcomes[true, default: 0] > 100)
        #expect(outcomes[false, default: 0] > 100)
    }

    @Test("Rule 77: a header keeps at most twice the bytes of a line, in all splits")
    func storage() throws {
        // Version 2 with an extension that is longer than the limit of the parser's copy.
        let start = Self.binary(0x11, Self.version4, length: 4_000)
        try StorageProperty.check(PeerStream(start: start) { _ in [0x41] }, bound: 256) {
            var parser = ProxyHeaderParser()
            return { read in
                var read = read
                let header = try parser.parse(&read)
                return header == nil ? parser.storage : nil
            }
        }
    }
}
