import TestSupport
import Testing

@testable import CloakroomWire

@Suite("Byte classes")
struct ByteTests {
    @Test("RFC 9110 §5.6.2: a token consists of exactly these characters")
    func tokens() {
        let expected = Set(
            "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".utf8)
        expect(Set((UInt8.min...UInt8.max).filter(Byte.isToken)), equals: expected)
    }

    @Test("RFC 9110 §5.5: a field value has no control except the tab")
    func fieldText() {
        let rejected = (UInt8.min...UInt8.max).filter { !Byte.isFieldText($0) }
        expect(rejected, equals: Array(0...8) + Array(10...31) + [127])
    }

    @Test("Only digits have a value")
    func digits() {
        for byte in UInt8.min...UInt8.max {
            let character = Character(Unicode.Scalar(byte))
            let isASCII = byte < 0x80
            expect(Byte.decimal(byte), equals: (isASCII && character.isNumber ? character.wholeNumberValue : nil))
            expect(Byte.hexadecimal(byte).map(Int.init), equals: (isASCII ? character.hexDigitValue : nil))
        }
    }

    @Test("Hexadecimal digits are written in lower case")
    func hexDigits() {
        expect((0..<16).map { Byte.hexDigit($0) }, equals: Array("0123456789abcdef".utf8))
        expect(Byte.hexString([]), equals: "")
        expect(Byte.hexString([0x00, 0x0f, 0xf0, 0xab]), equals: "000ff0ab")
        for number in [0, 0x0123_4567, 0x89ab_cdef, UInt32.max] {
            let digits = withUnsafeBytes(of: Byte.hexDigits(number).bigEndian) { Array($0) }
            expect(
                String(decoding: digits, as: UTF8.self),
                equals: Byte.hexString(
                    (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - 8 * $0)) }))
        }
    }

    /// All positions of all bytes in runs of all lengths up to three words, which begin at any offset.
    private func ends(_ find: (Span<UInt8>, Int, Int) -> Int, _ isIn: (UInt8) -> Bool, filler: UInt8) -> [String] {
        var wrong: [String] = []
        for count in 0...24 {
            for position in 0..<max(count, 1) {
                for byte in UInt8.min...UInt8.max {
                    let start = position % 3
                    var run = Array(repeating: filler, count: start + count + 2)
                    if count > 0 { run[start + position] = byte }
                    let expected = run[start..<(start + count)].firstIndex { !isIn($0) } ?? start + count
                    let found = find(run.span, start, start + count)
                    if found != expected { wrong.append("\(byte) at \(position) of \(count): \(found)") }
                }
            }
        }
        return wrong
    }

    @Test("The end of a run is the first byte that is not in its class, whatever precedes and follows it")
    func runs() {
        let visible = { (byte: UInt8) in byte > 0x20 && byte != 0x7f }
        for filler in Array("aZ-".utf8) {
            expect(empty: ends({ Byte.endOfToken($0, from: $1, to: $2) }, { Byte.isToken($0) }, filler: filler))
        }
        for filler in Array("a~\u{e9}".utf8) {
            expect(empty: ends({ Byte.endOfVisible($0, from: $1, to: $2) }, visible, filler: filler))
        }
        for filler in Array("a \t".utf8) {
            expect(
                empty: ends({ Byte.endOfFieldText($0, from: $1, to: $2) }, { Byte.isFieldText($0) }, filler: filler))
        }
    }
}
