import TestSupport
import Testing

@testable import CloakroomCore

@Suite("The JSON parser")
struct JSONParserTests {
    private func read(_ text: String) -> JSONValue? { JSONValue(document: Array(text.utf8)) }

    private func nested(_ open: String, _ close: String, depth: Int, around value: String = "") -> String {
        String(repeating: open, count: depth) + value + String(repeating: close, count: depth)
    }

    @Test("Rule 31: rejects documents nested more than 32 deep")
    func depth() {
        for (open, close, value) in [("[", "]", ""), (#"{"a":"#, "}", "1"), ("[", "]", "{}"), (#"[{"a":"#, "}]", "0")] {
            let levels = open.count == 1 || open.hasPrefix("{") ? 1 : 2
            let inner = value == "{}" ? 1 : 0
            let fits = (32 - inner) / levels
            expect(read(nested(open, close, depth: fits, around: value)) != nil, "\(open) \(fits)")
            expect(read(nested(open, close, depth: fits + 1, around: value)), equals: nil, "\(open) \(fits + 1)")
        }
        expect(read(nested("[", "]", depth: 505)), equals: nil)
        // The depth is that of one position, not a sum over the document.
        expect(
            read("[" + Array(repeating: nested("[", "]", depth: 31), count: 100).joined(separator: ",") + "]") != nil)
    }

    @Test("Rule 20: rejects duplicate member names in any spelling and at any depth")
    func duplicates() {
        expect(read(#"{"a":1,"a":1}"#), equals: nil)
        expect(read(#"{"a":1,"b":2,"\u0061":3}"#), equals: nil)
        expect(read(#"[{"x":{"a":1,"a":2}}]"#), equals: nil)
        expect(read(#"{"a":{"a":1},"A":[{"a":1},{"a":2}]}"#) != nil)
        // Two Unicode spellings of one letter are two names: other parsers compare bytes, too.
        let value = read("{\"\u{e9}\":1,\"e\u{301}\":2}")
        expect(value?[path: "\u{e9}"], equals: .number(1))
        expect(value?[path: "e\u{301}"], equals: .number(2))
    }

    @Test(
        "Rule 20: rejects unpaired surrogates and invalid escapes",
        arguments: [
            #""\ud800""#, #""\udc00""#, #""\ud800\ud800""#, #""\ud800x""#, #""\ud800\n""#, #""\udc00\ud800""#,
            #""\u12""#,
            #""\u123g""#, #""\U0041""#, #""\"#, #""\u"#, #""\ud800\u"#, "\"\\", #""\a""#, #""\0""#, #""\u00""#,
        ])
    func escapes(text: String) {
        expect(read(text), equals: nil)
    }

    @Test("Rule 20: rejects invalid UTF-8, UTF-16, a byte order mark, control characters and other white space")
    func bytes() {
        let quote: [UInt8] = [0x22]
        for sequence: [UInt8] in [
            [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0x80], [0xe2, 0x82], [0xff],
        ] {
            expect(JSONValue(document: quote + sequence + quote), equals: nil)
            expect(JSONValue(document: quote + Array(#"\n"#.utf8) + sequence + quote), equals: nil)
            expect(JSONValue(document: Array(#"{""#.utf8) + sequence + Array(#"":1}"#.utf8)), equals: nil)
        }
        expect(JSONValue(document: #"{"a":1}"#.utf8.flatMap { [$0, 0] }), equals: nil)
        expect(JSONValue(document: [0xef, 0xbb, 0xbf] + Array("1".utf8)), equals: nil)
        for control in UInt8(0)..<0x20 { expect(JSONValue(document: quote + [control] + quote), equals: nil) }
        for space: UInt8 in [0x0b, 0x0c, 0xa0, 0x00, 0x85] { expect(JSONValue(document: [space, 0x31]), equals: nil) }
        expect(read("\u{a0}1"), equals: nil)
    }

    @Test("parses all escapes and all characters beyond the first plane")
    func decodes() {
        expect(
            read(#""\"\\\/\b\f\n\r\t\u0041\u00e9\uD83D\uDE00\u0000""#),
            equals: .string("\"\\/\u{8}\u{c}\n\r\tA\u{e9}😀\0"))
        expect(read("\"\u{10ffff}\u{7f}\""), equals: .string("\u{10ffff}\u{7f}"))
        expect(read(#""é\u0301""#)?.utf8, equals: Array("é\u{301}".utf8))
    }

    @Test(
        "parses numbers",
        arguments: [
            ("0", 0), ("-0", -0.0), ("7", 7), ("-12", -12), ("999999999999999", 999_999_999_999_999),
            ("1234567890123456789", 1.234_567_890_123_456_8e18), ("0.5", 0.5), ("-2.5e3", -2_500), ("1E+2", 100),
            ("1e-2", 0.01), ("1e400", .infinity), ("0e0", 0), ("9007199254740993", 9_007_199_254_740_992),
            // Whole, and not whole although the nearest value is.
            ("1.0", 1), ("120e-1", 12), ("1.5e1", 15), ("0.00e-999", 0), ("-0.0", -0.0),
            ("1e-99999999999999999999", .infinity),
            ("1e-999", .infinity), ("-1e-999", .infinity), ("0.99999999999999999999", .infinity),
            ("10000000000000000000000001e-24", .infinity), ("4503599627370497.4", .infinity),
            ("5e-324", .leastNonzeroMagnitude),
        ] as [(String, Double)])
    func numbers(text: String, number: Double) {
        expect(read(text), equals: .number(number))
        expect(read("[\(text),\(text)]"), equals: .array([.number(number), .number(number)]))
    }

    @Test(
        "Rule 20: rejects malformed numbers",
        arguments: [
            "00", "01", "-01", "-", "+1", ".5", "1.", "1.e1", "1e", "1e+", "0x10", "1_000", "Infinity", "NaN", "١",
        ])
    func noNumbers(text: String) {
        expect(read(text), equals: nil)
        expect(read("[\(text)]"), equals: nil)
    }

    @Test("Rule 31: rejects a number of more than 1,024 bytes")
    func longNumbers() {
        expect(read(String(repeating: "1", count: 1_024)) != nil)
        expect(read(String(repeating: "1", count: 1_025)), equals: nil)
    }
}

extension JSONValue {
    fileprivate var utf8: [UInt8]? { if case .string(let text) = self { Array(text.utf8) } else { nil } }
}
