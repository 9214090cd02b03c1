import Foundation
import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("The line buffer")
struct LineBufferTests {
    private func text(_ body: (inout LineBuffer) -> Void) -> String {
        var line = LineBuffer(reserving: 1)
        body(&line)
        return line.text
    }

    @Test("Numbers are written in decimal at any length")
    func numbers() {
        var values: [UInt64] = Array(0...1_100) + [9_999, 10_000, 123_456_789, .max, .max - 1]
        for exponent in 0..<64 { values.append(1 << UInt64(exponent)) }
        for value in values {
            expect(text { $0.append(decimal: value) }, equals: "\(value)")
        }
        expect(text { $0.append(decimal: Int64.min) }, equals: "\(Int64.min)")
        expect(text { $0.append(padded: 7, digits: 3) }, equals: "007")
        expect(text { $0.append(padded: 2_026, digits: 4) }, equals: "2026")
    }

    @Test("Durations are milliseconds with three decimals")
    func milliseconds() {
        for (nanoseconds, expected) in [
            (0, "0.000"), (999, "0.000"), (1_000, "0.001"), (10_000, "0.010"), (123_456, "0.123"),
            (999_999_999, "999.999"), (1_000_000_000, "1000.000"), (86_400_000_000_000, "86400000.000"),
        ] as [(UInt64, String)] {
            expect(text { $0.append(milliseconds: nanoseconds) }, equals: expected)
        }
    }

    @Test("Hexadecimal values are written in full, with leading zeros")
    func hexadecimal() {
        for value: UInt64 in [0, 1, 0xabcd_ef01_2345_6789, .max] {
            let digits = String(value, radix: 16)
            expect(text { $0.appendHex(value) }, equals: String(repeating: "0", count: 16 - digits.count) + digits)
        }
    }

    @Test("Escaping does not depend on the position in the text")
    func everyBytePosition() throws {
        for byte in UInt8.min...UInt8.max {
            for position in 0..<19 {
                var bytes = Array("/abcdefghijklmnopqr".utf8)
                bytes[position] = byte
                let json = text { $0.append(json: bytes.span) }
                let decoded = try JSONSerialization.jsonObject(with: Data(json.utf8), options: .fragmentsAllowed)
                expect(decoded as? String, equals: String(decoding: bytes, as: UTF8.self))
                expect(!json.utf8.contains { $0 < 0x20 || $0 == 0x7f })
            }
        }
    }

    @Test("Any bytes result in valid text: UTF-8 is kept, invalid sequences become one or several U+FFFD")
    func anyBytes() throws {
        var generator = SeededGenerator(seed: 42)
        let likely: [UInt8] =
            Array("aZ/%\"\\\n\u{7f}".utf8) + [0xe2, 0x80, 0xa8, 0xc2, 0x85, 0xf0, 0x9f, 0x98, 0xff]
        for _ in 0..<2_000 {
            let bytes = (0..<Int.random(in: 0...40, using: &generator)).map { _ in
                likely.randomElement(using: &generator) ?? 0
            }
            let json = text { $0.append(json: bytes.span) }
            let decoded = try JSONSerialization.jsonObject(with: Data(json.utf8), options: .fragmentsAllowed)
            let parts = (decoded as? String)?.unicodeScalars.split(separator: "\u{fffd}").map(String.init)
            // The number of U+FFFD per invalid sequence is unspecified.
            let expected = String(decoding: bytes, as: UTF8.self).unicodeScalars.split(separator: "\u{fffd}")
            expect(parts, equals: expected.map(String.init))
        }
    }

    @Test("Line breaks and bidirectional controls are escaped; other characters are kept")
    func layoutControls() {
        for scalar in Array(0x2028...0x202e) + Array(0x2066...0x2069) as [UInt32] {
            let character = Unicode.Scalar(scalar).map(String.init) ?? ""
            expect(text { $0.append(escaped: character.utf8.span) }, equals: "\\u" + String(scalar, radix: 16))
        }
        for character in ["\u{2027}", "\u{202f}", "\u{2065}", "\u{206a}", "\u{1028}", "é漢😀"] {
            expect(text { $0.append(escaped: character.utf8.span) }, equals: character)
        }
    }

    @Test("A buffer whose contents were taken is empty and grows as required")
    func growth() {
        var line = LineBuffer(reserving: 1)
        for _ in 0..<1_000 { line.append("0123456789") }
        expect(line.take(), equals: Array(String(repeating: "0123456789", count: 1_000).utf8))
        expect(empty: line.bytes)
        line.append("x")
        expect(line.text, equals: "x")
    }
}
