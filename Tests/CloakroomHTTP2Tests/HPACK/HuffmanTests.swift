import TestSupport
import Testing

@testable import CloakroomHTTP2

@Suite("The Huffman code of header strings")
struct HuffmanTests {
    @Test(
        "RFC 7541 §C.4, §C.6: examples",
        arguments: [
            ("www.example.com", "f1e3 c2e5 f23a 6ba0 ab90 f4ff"), ("no-cache", "a8eb 1064 9cbf"),
            ("custom-key", "25a8 49e9 5ba9 7d7f"), ("custom-value", "25a8 49e9 5bb8 e8b4 bf"), ("302", "6402"),
            ("private", "aec3 771a 4b"),
            ("Mon, 21 Oct 2013 20:13:21 GMT", "d07abe941054d444a8200595040b8166e082a62d1bff"),
            ("https://www.example.com", "9d29 ad17 1863 c78f 0b97 c8e9 ae82 ae43 d3"), ("", ""),
        ])
    func examples(text: String, encoded: String) {
        expect(HuffmanText.encode(Array(text.utf8)), equals: hex(encoded))
        expect(HuffmanText.decode(hex(encoded)), equals: Array(text.utf8))
    }

    @Test("Every byte, repeated 1 to 20 times, is decoded to itself")
    func everyByte() {
        for byte in UInt8.min...UInt8.max {
            for count in 1...20 {
                let text = [UInt8](repeating: byte, count: count)
                let encoded = HuffmanText.encode(text)
                expect(HuffmanText.decode(encoded), equals: text)
                expect(Huffman.shared.decodedCount(encoded.span, from: 0, count: encoded.count), equals: count)
            }
        }
    }

    @Test("Random bytes are decoded to themselves, in a room of exactly their size and not in a smaller one")
    func random() {
        var random = SeededGenerator(seed: 1)
        for length in 0..<200 {
            let text = (0..<length).map { _ in UInt8.random(in: 0...255, using: &random) }
            let encoded = HuffmanText.encode(text)
            expect(HuffmanText.decode(encoded, room: length), equals: text)
            if length > 0 { expect(HuffmanText.decode(encoded, room: length - 1), equals: nil) }
        }
    }

    @Test(
        "RFC 7541 §5.2: EOS, padding of more than seven bits, and padding that is not all 1 are errors",
        arguments: [
            "ff", "ffff", "ffffff", "ffffffff", "ffffffffff", "f1e3 c2e5 f23a 6ba0 ab90 f4ff ff", "18", "1e", "fe",
            "07 f8", "ffff ffff fc", "ffff fff0",
        ])
    func invalid(encoded: String) {
        let bytes = hex(encoded)
        expect(HuffmanText.decode(bytes, room: 100), equals: nil)
        expect(Huffman.shared.decodedCount(bytes.span, from: 0, count: bytes.count), equals: nil)
    }
}
