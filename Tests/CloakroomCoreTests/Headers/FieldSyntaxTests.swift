import CloakroomWire
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Syntax of fields")
struct FieldSyntaxTests {
    private static let received = Array("X-Forwarded-Method: get".utf8)

    private static func equals(_ received: [UInt8], _ text: [UInt8], count: Int) -> Bool {
        ASCII.equals(received.span, ByteRange(start: 3, count: count), text)
    }

    private static func equals(_ start: Int, _ count: Int, _ text: StaticString) -> Bool {
        ASCII.equals(received.span, ByteRange(start: start, count: count), text)
    }

    private static func hasPrefix(_ text: StaticString) -> Bool {
        ASCII.hasPrefix(received.span, ByteRange(start: 0, count: received.count), text)
    }

    @Test("Names are equal in any case of their letters only, whatever their length", arguments: 0...20)
    func equality(count: Int) {
        let text = Array("a-z09_~mq.zy!`{@:xw/".utf8.prefix(count))
        let received = Array("AAA".utf8) + text + Array("B".utf8)
        var wrong: [String] = []
        for position in 0..<count {
            for byte in UInt8.min...UInt8.max {
                var other = received
                other[3 + position] = byte
                let isEqual = Self.equals(other, text, count: count)
                if isEqual != (ASCII.lower(byte) == text[position]) { wrong.append("\(position): \(byte)") }
            }
        }
        expect(empty: wrong, "\(wrong)")
        expect(Self.equals(received, text, count: count))
        expect(!Self.equals(received, text + [UInt8(ascii: "b")], count: count))
        expect(!Self.equals(received, text, count: count + 1))
    }

    @Test("A constant is compared as other names are")
    func constant() {
        expect(Self.equals(0, 18, "x-forwarded-method"))
        expect(!Self.equals(0, 18, "x-forwarded-methoe"))
        expect(!Self.equals(0, 18, "x-forwarded_method"))
        expect(!Self.equals(0, 17, "x-forwarded-method"))
        expect(Self.equals(20, 3, "get"))
        expect(Self.equals(20, 0, ""))
        expect(Self.hasPrefix("x-forwarded-"))
        expect(!Self.hasPrefix("x-forwarded-uri"))
    }
}
