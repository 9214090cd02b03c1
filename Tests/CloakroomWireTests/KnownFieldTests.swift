import TestSupport
import Testing

@testable import CloakroomWire

@Suite("Known fields")
struct KnownFieldTests {
    private func field(_ name: String) -> KnownField {
        let bytes = Array("xx\(name)yy".utf8)
        return KnownFieldTable.shared.field(bytes.span, from: 2, count: name.utf8.count)
    }

    @Test("are recognized in any case", arguments: KnownField.allCases.filter { $0 != .other })
    func names(known: KnownField) {
        let title = known.text.split(separator: "-").map { $0.prefix(1).uppercased() + $0.dropFirst() }
        expect(field(known.text), equals: known)
        expect(field(known.text.uppercased()), equals: known)
        expect(field(title.joined(separator: "-")), equals: known)
    }

    @Test("are not recognized if one character differs", arguments: KnownField.allCases.filter { $0 != .other })
    func neighbours(known: KnownField) {
        let name = Array(known.text.utf8)
        let tokens = (UInt8.min...UInt8.max).filter(Byte.isToken)
        for place in name.indices {
            for byte in tokens where byte | 0x20 != name[place] | 0x20 || byte == UInt8(ascii: "_") {
                var other = name
                other[place] = byte
                let found = KnownFieldTable.shared.field(other.span, from: 0, count: other.count)
                expect(found, equals: .other, "\(String(decoding: other, as: UTF8.self))")
            }
        }
        expect(field(known.text + "x"), equals: .other)
        expect(field(String(known.text.dropLast())), equals: .other)
    }

    @Test("are not recognized by a name that is longer than all known names")
    func longNames() {
        expect(field(String(repeating: "a", count: 26)), equals: .other)
        expect(field(String(repeating: "a", count: 10_000)), equals: .other)
        expect(field(""), equals: .other)
    }
}
