import Glibc
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Addresses that are parsed without allocation")
struct AddressBitsTests {
    private static func parse(_ text: String) -> AddressBits? { AddressBits(Array(text.utf8).span) }

    /// What the C library makes of the same text.
    private static func system(_ text: String) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: 16)
        if inet_pton(AF_INET, text, &bytes) == 1 { return Array(bytes.prefix(4)) }
        return inet_pton(AF_INET6, text, &bytes) == 1 ? bytes : nil
    }

    private static func expected(_ text: String) -> [UInt8]? {
        guard let bytes = system(text) else { return nil }
        return bytes.count == 16 && bytes.starts(with: IPAddress.mappedPrefix) ? Array(bytes.suffix(4)) : bytes
    }

    private static func bytes(_ bits: AddressBits) -> [UInt8] {
        let all = bits.high.bigEndianBytes + bits.low.bigEndianBytes
        return bits.isVersion6 ? all : Array(all.suffix(4))
    }

    private static let samples = [
        "192.0.2.1", "0.0.0.0", "255.255.255.255", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.256", "1..2.3", "1.2.3.",
        ".1.2.3", "::", "::1", "1::", "1::2", "2001:db8::1", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9",
        "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1::3::5", ":::", ":", ":1", "1:", "1:2:3:4:5:6:7:", "12345::", "g::",
        "::ffff:192.0.2.1", "::FFFF:192.0.2.1", "::192.0.2.1", "1:2:3:4:5:6:192.0.2.1", "1:2:3:4:5:6:7:192.0.2.1",
        "192.0.2.1::", "::192.0.2", "fe80::1%eth0", "[::1]", "", "1", "a", "1.2.3.4:80", "abcd:EF01::",
        "0:0:0:0:0:0:0:0",
        "::ffff:0:1", "1:2::1.2.3.4", "::1.2.3.4:5",
    ]

    @Test("Each text is accepted and read as by the C library", arguments: samples)
    func texts(text: String) {
        expect(Self.parse(text).map(Self.bytes), equals: Self.expected(text), "\(text)")
        expect(IPAddress.bytes(of: text), equals: Self.system(text), "\(text)")
    }

    @Test("So is any text of the same characters")
    func random() {
        let characters = Array("0123:::::..af")
        var accepted = 0
        for seed in 1...20 as ClosedRange<UInt64> {
            var generator = SeededGenerator(seed: seed)
            for _ in 0..<2_000 {
                let text = String(
                    (0..<Int.random(in: 1...18, using: &generator)).compactMap { _ in
                        characters.randomElement(using: &generator)
                    })
                let expected = Self.expected(text)
                if expected != nil { accepted += 1 }
                expect(Self.parse(text).map(Self.bytes), equals: expected, "\(text)")
            }
        }
        #expect(accepted > 100)
    }

    @Test("The key of a client is the same, whichever way its address is read", arguments: samples)
    func keys(text: String) {
        expect(Self.parse(text).map { ClientAddressKey($0) }, equals: ClientAddressKey(text))
    }

    @Test("A block contains an address, whichever way it is read")
    func blocks() throws {
        let blocks = try ["10.0.0.0/8", "192.0.2.1", "2001:db8::/32", "::/0", "0.0.0.0/0", "2001:db8::/47"].map {
            try require(CIDRBlock($0))
        }
        for text in Self.samples + ["10.1.2.3", "2001:db8:1::1", "2001:db9::", "2001:db8:2::"] {
            guard let bits = Self.parse(text), !text.lowercased().hasPrefix("::ffff:") else { continue }
            for block in blocks { expect(block.contains(bits), equals: block.contains(text), "\(block) \(text)") }
        }
    }
}
