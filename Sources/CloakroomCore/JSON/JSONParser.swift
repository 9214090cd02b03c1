import CloakroomWire

/// Parses JSON texts (RFC 8259) in one pass over their bytes.
///
/// The parser is strict, because another parser must not read a different meaning from the same bytes: UTF-8 only, no
/// byte order mark, no comments, no trailing comma, no leading zero, no control character and no lone surrogate in a
/// string, and no duplicate member name in an object (RFC 8259 §4 leaves its meaning open).
///
/// The cost is linear in the number of bytes. The recursion is bounded by ``maxDepth``, each byte is visited a fixed
/// number of times, and a number is at most ``maxNumberLength`` bytes long.
///
/// Folder `Support/`: JSON of clients and upstreams, parsed strictly and in linear time, and the spans of identity
/// calls.
package struct JSONParser {
    /// The maximum number of arrays and objects around a value; RFC 8259 §9 allows a limit.
    package static let maxDepth = 32
    /// The maximum length of a number in bytes; number conversion is not linear in the length.
    static let maxNumberLength = 1_024

    private let bytes: [UInt8]
    private var position = 0

    /// Parses a whole document.
    /// - Returns: `nil` for anything but exactly one value with white space around it.
    static func parse(_ document: [UInt8]) -> JSONValue? {
        var parser = JSONParser(document)
        parser.skipWhiteSpace()
        guard let value = parser.value(depth: 0) else { return nil }
        parser.skipWhiteSpace()
        return parser.position == document.count ? value : nil
    }

    private init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    // MARK: - Values

    /// - Parameter depth: The number of open arrays and objects.
    private mutating func value(depth: Int) -> JSONValue? {
        guard position < bytes.count else { return nil }
        switch bytes[position] {
        case UInt8(ascii: "{"): return depth < Self.maxDepth ? object(depth: depth + 1) : nil
        case UInt8(ascii: "["): return depth < Self.maxDepth ? array(depth: depth + 1) : nil
        case UInt8(ascii: "\""): return string().map(JSONValue.string)
        case UInt8(ascii: "t"): return literal("true", .bool(true))
        case UInt8(ascii: "f"): return literal("false", .bool(false))
        case UInt8(ascii: "n"): return literal("null", .null)
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return number()
        default: return nil
        }
    }

    private mutating func object(depth: Int) -> JSONValue? {
        position += 1
        var members: [JSONMemberName: JSONValue] = [:]
        skipWhiteSpace()
        if take(UInt8(ascii: "}")) { return .object(members) }
        while true {
            guard position < bytes.count, bytes[position] == UInt8(ascii: "\""), let name = string() else { return nil }
            skipWhiteSpace()
            guard take(UInt8(ascii: ":")) else { return nil }
            skipWhiteSpace()
            guard let value = value(depth: depth) else { return nil }
            guard members.updateValue(value, forKey: JSONMemberName(name)) == nil else { return nil }
            skipWhiteSpace()
            if take(UInt8(ascii: "}")) { return .object(members) }
            guard take(UInt8(ascii: ",")) else { return nil }
            skipWhiteSpace()
        }
    }

    private mutating func array(depth: Int) -> JSONValue? {
        position += 1
        var items: [JSONValue] = []
        skipWhiteSpace()
        if take(UInt8(ascii: "]")) { return .array(items) }
        while true {
            guard let value = value(depth: depth) else { return nil }
            items.append(value)
            skipWhiteSpace()
            if take(UInt8(ascii: "]")) { return .array(items) }
            guard take(UInt8(ascii: ",")) else { return nil }
            skipWhiteSpace()
        }
    }

    private mutating func literal(_ text: StaticString, _ value: JSONValue) -> JSONValue? {
        guard bytes.count - position >= text.utf8CodeUnitCount else { return nil }
        for index in 0..<text.utf8CodeUnitCount where bytes[position + index] != text.utf8Start[index] { return nil }
        position += text.utf8CodeUnitCount
        return value
    }

    // MARK: - Numbers

    private mutating func number() -> JSONValue? {
        let start = position
        let isNegative = take(UInt8(ascii: "-"))
        let first = position
        // A leading zero has no further digits: a following digit is an error in the caller's next step.
        guard take(UInt8(ascii: "0")) || skipDigits() else { return nil }
        var isInteger = true
        if take(UInt8(ascii: ".")) {
            isInteger = false
            guard skipDigits() else { return nil }
        }
        if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
            isInteger = false
            _ = take(UInt8(ascii: "+")) || take(UInt8(ascii: "-"))
            guard skipDigits() else { return nil }
        }
        guard position - start <= Self.maxNumberLength else { return nil }
        if isInteger, position - first <= 15 {
            var magnitude: UInt64 = 0
            for index in first..<position { magnitude = magnitude * 10 + UInt64(bytes[index] - UInt8(ascii: "0")) }
            return .number(isNegative ? -Double(magnitude) : Double(magnitude))
        }
        let text = bytes[start..<position]
        guard let number = Double(String(decoding: text, as: UTF8.self)) else { return nil }
        // `1e-999` must not be the user 0, nor `0.99999999999999999999` the user 1.
        return .number(number == number.rounded() && !Self.isWhole(text) ? .infinity : number)
    }

    /// Whether the last digit other than 0 is not after the decimal point, which the exponent moves.
    private static func isWhole(_ number: ArraySlice<UInt8>) -> Bool {
        let mantissa = number.prefix { $0 | 0x20 != UInt8(ascii: "e") }
        guard let last = mantissa.lastIndex(where: { (UInt8(ascii: "1")...UInt8(ascii: "9")).contains($0) }) else {
            return true
        }
        let point = mantissa.firstIndex(of: UInt8(ascii: ".")) ?? mantissa.endIndex
        let exponent = String(decoding: number.dropFirst(mantissa.count + 1), as: UTF8.self)
        let shift = exponent.isEmpty ? 0 : Int(exponent) ?? (exponent.hasPrefix("-") ? .min : .max)
        return (last < point ? last + 1 : last) - point <= shift
    }

    /// - Returns: Whether there was a digit.
    private mutating func skipDigits() -> Bool {
        let start = position
        while position < bytes.count, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(bytes[position]) {
            position += 1
        }
        return position > start
    }

    // MARK: - Strings

    private mutating func string() -> String? {
        position += 1
        let start = position
        while position < bytes.count {
            switch bytes[position] {
            case UInt8(ascii: "\""):
                defer { position += 1 }
                return try? String(copying: UTF8Span(validating: bytes.span.extracting(start..<position)))
            case UInt8(ascii: "\\"): return escapedString(after: Array(bytes[start..<position]))
            case 0..<0x20: return nil
            default: position += 1
            }
        }
        return nil
    }

    /// Parses the remainder of a string from its first escape on.
    private mutating func escapedString(after start: [UInt8]) -> String? {
        var decoded = start
        while position < bytes.count {
            let byte = bytes[position]
            position += 1
            switch byte {
            case UInt8(ascii: "\""): return String(validating: decoded, as: UTF8.self)
            case UInt8(ascii: "\\"): guard unescape(into: &decoded) else { return nil }
            case 0..<0x20: return nil
            default: decoded.append(byte)
            }
        }
        return nil
    }

    private mutating func unescape(into decoded: inout [UInt8]) -> Bool {
        guard position < bytes.count else { return false }
        let byte = bytes[position]
        position += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): decoded.append(byte)
        case UInt8(ascii: "b"): decoded.append(0x08)
        case UInt8(ascii: "f"): decoded.append(0x0c)
        case UInt8(ascii: "n"): decoded.append(0x0a)
        case UInt8(ascii: "r"): decoded.append(0x0d)
        case UInt8(ascii: "t"): decoded.append(0x09)
        case UInt8(ascii: "u"):
            guard let scalar = escapedScalar(), let encoded = UTF8.encode(scalar) else { return false }
            decoded.append(contentsOf: encoded)
        default: return false
        }
        return true
    }

    /// Parses the part after `\u`: four digits, or two surrogates that form one scalar.
    private mutating func escapedScalar() -> Unicode.Scalar? {
        guard let first = fourHexDigits() else { return nil }
        guard UTF16.isSurrogate(first) else { return Unicode.Scalar(first) }
        guard UTF16.isLeadSurrogate(first), take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")),
            let second = fourHexDigits(), UTF16.isTrailSurrogate(second)
        else { return nil }
        return Unicode.Scalar(0x1_0000 + (UInt32(first & 0x3ff) << 10 | UInt32(second & 0x3ff)))
    }

    private mutating func fourHexDigits() -> UInt16? {
        guard bytes.count - position >= 4 else { return nil }
        var unit: UInt16 = 0
        for _ in 0..<4 {
            guard let digit = Byte.hexadecimal(bytes[position]) else { return nil }
            unit = unit << 4 | UInt16(digit)
            position += 1
        }
        return unit
    }

    // MARK: - Bytes

    private mutating func skipWhiteSpace() {
        while position < bytes.count {
            switch bytes[position] {
            case 0x20, 0x09, 0x0a, 0x0d: position += 1
            default: return
            }
        }
    }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard position < bytes.count, bytes[position] == byte else { return false }
        position += 1
        return true
    }
}

/// Searches for one byte string in others (Knuth, Morris and Pratt), in time linear in both lengths.
///
/// An upstream chooses both the tokens and the documents that are searched for them. A search whose cost is the product
/// of the two lengths would let an upstream keep a thread busy.
package struct BytePattern {
    private let pattern: [UInt8]
    /// For each length of a match, the length of the next shorter match that ends at the same position.
    private let fallback: [Int]

    /// - Parameter pattern: Not empty.
    package init(_ pattern: [UInt8]) {
        self.pattern = pattern
        var fallback = [0]
        fallback.reserveCapacity(pattern.count)
        var length = 0
        for index in pattern.indices.dropFirst() {
            while length > 0, pattern[index] != pattern[length] { length = fallback[length - 1] }
            if pattern[index] == pattern[length] { length += 1 }
            fallback.append(length)
        }
        self.fallback = fallback
    }

    package func occurs(in text: [UInt8]) -> Bool {
        var length = 0
        for byte in text {
            while length > 0, byte != pattern[length] { length = fallback[length - 1] }
            if byte == pattern[length] { length += 1 }
            if length == pattern.count { return true }
        }
        return false
    }
}
