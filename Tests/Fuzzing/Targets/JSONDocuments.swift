import CloakroomCore
import CloakroomIdentity
import Foundation

extension FuzzTarget {
    /// A JSON document (RFC 8259) of a client or an upstream. Foundation parses it too, and the results must be equal
    /// if both accept it.
    static let json = FuzzTarget(
        "json",
        words: [
            "{", "}", "[", "]", ",", ":", "\"", "\\", "\\\"", "\\/", "\\u0041", "\\ud83d\\ude00", "\\ud800", "\\u0000",
            "null", "true", "false", "0", "-0", "-", "1e5", "1.", ".5", "01", "1E400", "1e-400", "12345678901234567890",
            "\"a\":", "{}", "[]", " ", "\t", "\n", "\r", "\u{feff}", "\u{0}", "é", "\u{1f600}", "// a\n", "NaN", "'a'",
        ],
        times: [LinearTime(JSONTexts.families, shortest: 8_192) { _ = JSONValue(document: $0) }]
    ) { bytes throws(Violation) in
        let value = JSONValue(document: bytes)
        try require(JSONValue(document: bytes) == value, "parsing twice gives different results")
        let foundation = try? JSONSerialization.jsonObject(with: Data(bytes), options: .fragmentsAllowed)
        guard let value else {
            try require(
                foundation == nil || JSONTexts.mayBeRejected(bytes, foundation),
                "a valid document is rejected")
            return
        }
        guard let foundation else {
            // A number may be too large for Foundation, and be infinite here.
            return try require(JSONTexts.hasInfiniteNumber(value), "accepted, and Foundation rejects it")
        }
        // RFC 8259 §4 does not define which of two members with the same name is used.
        guard !JSONTexts.hasDoubledName(bytes, foundation) else { return }
        try require(
            JSONTexts.isSame(value, foundation), "Foundation parses it differently: \(value) and \(foundation)")
        try require(String(validating: bytes, as: UTF8.self) != nil, "accepted, but not UTF-8")
    }
}

/// Test inputs and simple checks of JSON texts.
enum JSONTexts {
    /// Inputs that are expensive for a JSON parser that does superfluous work.
    static let families: [LinearTime.Family] = [
        .made("nesting") {
            Array(repeating: UInt8(ascii: "["), count: $0 / 2) + Array(repeating: UInt8(ascii: "]"), count: $0 / 2)
        },
        .repeated("nests, 31 deep", nest(30) + ",", prefix: "[", suffix: "0]"),
        .repeated("nests, 500 deep", nest(499) + ",", prefix: "[", suffix: "0]"),
        .repeated("nested objects", #"{"a":"#),
        .repeated(
            "objects, 30 deep", String(repeating: #"{"a":"#, count: 29) + "0" + String(repeating: "}", count: 29) + ",",
            prefix: "[", suffix: "0]"),
        .repeated("unclosed lists", "["),
        .repeated("small lists", "[1],", prefix: "[", suffix: "0]"),
        .repeated("small objects", #"{"a":1},"#, prefix: "[", suffix: "0]"),
        .repeated("commas", ",", prefix: "[", suffix: "]"),
        .repeated("numbers", "1,", prefix: "[", suffix: "1]"),
        .repeated("longest numbers", String(repeating: "7", count: 1_024) + ",", prefix: "[", suffix: "1]"),
        .repeated("one long number", "1"),
        .repeated("one long fraction", "1", prefix: "0."),
        .repeated("one long exponent", "1", prefix: "1e"),
        .repeated("escapes", #"\""#, prefix: "\"", suffix: "\""),
        .repeated("escaped characters", #"\u00e9"#, prefix: "\"", suffix: "\""),
        .repeated("surrogates", #"\ud83d\ude00"#, prefix: "\"", suffix: "\""),
        .repeated("unpaired surrogates", #"\ud83d"#, prefix: "\"", suffix: "\""),
        .repeated("combining marks", "\u{301}", prefix: "\"e", suffix: "\""),
        .repeated("a name of combining marks", "\u{301}\u{316}", prefix: "{\"e", suffix: "\":0}"),
        .repeated("backslashes", #"\"#, prefix: "\""),
        .repeated("one long string", "a", prefix: "\"", suffix: "\""),
        .repeated("an open string", "a", prefix: "\""),
        .repeated("strings", #""a","#, prefix: "[", suffix: "0]"),
        .repeated("one name", #""a":0,"#, prefix: "{", suffix: #""a":0}"#),
        .numbered("names of combining marks", prefix: "{", suffix: "}", separator: ",") {
            "\"\($0)\(String(repeating: "\u{301}\u{323}", count: 64))\":1"
        },
        .numbered("many names", prefix: "{", suffix: "}", separator: ",") { #""name\#($0)":\#($0)"# },
        .numbered("names with a common prefix", prefix: "{", suffix: "}", separator: ",") {
            "\"" + String(repeating: "a", count: 40) + "\($0)\":null"
        },
        .repeated("blanks", " ", suffix: "0"),
        .repeated("lines", "\r\n", prefix: "[", suffix: "]"),
    ]

    private static func nest(_ depth: Int) -> String {
        String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
    }

    /// Whether a document that Foundation accepts may be rejected by other parsers. The reasons are: another encoding,
    /// a byte order mark, zero bytes, lists 32 deep, a trailing comma, a duplicate name, a number outside the range of
    /// floating point, an unpaired surrogate.
    static func mayBeRejected(_ bytes: [UInt8], _ value: Any?) -> Bool {
        if bytes.contains(0) || bytes.contains(0xef) || bytes.first ?? 0 >= 0xfe { return true }
        guard let value else { return true }
        let outside = outsideStrings(bytes)
        var (depth, deepest) = (0, 0)
        for byte in outside {
            if "[{".utf8.contains(byte) { depth += 1 }
            if "]}".utf8.contains(byte) { depth -= 1 }
            deepest = max(deepest, depth)
        }
        let text = String(decoding: outside, as: UTF8.self)
        return deepest >= 32 || text.contains(",]") || text.contains(",}") || hasDoubledName(bytes, value)
            || text.contains { "eE".contains($0) } || outside.count > 300
            || String(decoding: bytes, as: UTF8.self).lowercased().contains(#"\ud"#)
    }

    static func hasInfiniteNumber(_ value: JSONValue) -> Bool {
        switch value {
        case .number(let number): number.isInfinite
        case .array(let members): members.contains(where: hasInfiniteNumber)
        case .object(let members): members.values.contains(where: hasInfiniteNumber)
        default: false
        }
    }

    static func hasDoubledName(_ bytes: [UInt8], _ value: Any) -> Bool {
        outsideStrings(bytes).count { $0 == UInt8(ascii: ":") } != memberCount(value)
    }

    /// The bytes outside of strings, without white space.
    private static func outsideStrings(_ bytes: [UInt8]) -> [UInt8] {
        var outside: [UInt8] = []
        var isInString = false
        var isEscaped = false
        for byte in bytes {
            if isEscaped {
                isEscaped = false
            } else if byte == UInt8(ascii: "\\") {
                isEscaped = true
            } else if byte == UInt8(ascii: "\"") {
                isInString.toggle()
                if isInString { outside.append(byte) }
            } else if !isInString, byte > 0x20 {
                outside.append(byte)
            }
        }
        return outside
    }

    private static func memberCount(_ value: Any) -> Int {
        if let members = value as? [String: Any] {
            return members.values.reduce(members.count) { $0 + memberCount($1) }
        }
        if let list = value as? [Any] { return list.reduce(0) { $0 + memberCount($1) } }
        return 0
    }

    /// The scalars of a text without byte order marks, some of which Foundation drops.
    private static func withoutMarks(_ text: String) -> [Unicode.Scalar] {
        text.unicodeScalars.filter { $0.value != 0xfeff }
    }

    static func isSame(_ value: JSONValue, _ other: Any) -> Bool {
        switch value {
        case .null: other is NSNull
        case .bool(let bool): (other as? NSNumber)?.boolValue == bool || other as? Bool == bool
        case .number(let number):
            (other as? NSNumber).map { number.isInfinite || isClose($0.doubleValue, number) } ?? false
        case .string(let text): (other as? String).map { withoutMarks($0) == withoutMarks(text) } ?? false
        case .array(let members):
            (other as? [Any]).map { $0.count == members.count && zip(members, $0).allSatisfy(isSame) } ?? false
        case .object(let members):
            (other as? [String: Any]).map { others in
                others.count == members.count
                    && members.allSatisfy { name, member in
                        others.contains { withoutMarks($0.key) == withoutMarks(name.text) && isSame(member, $0.value) }
                    }
            } ?? false
        }
    }

    /// Foundation keeps long numbers as decimals.
    private static func isClose(_ left: Double, _ right: Double) -> Bool {
        left == right || abs(left - right) <= 1e-9 * max(abs(left), abs(right))
    }
}
