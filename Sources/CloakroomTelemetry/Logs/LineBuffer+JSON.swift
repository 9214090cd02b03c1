import CloakroomWire

extension LineBuffer {
    /// Appends a JSON string with quotation marks (RFC 8259, section 7).
    mutating func append(json text: String) {
        append(json: text.utf8.span)
    }

    /// Appends a JSON string from arbitrary bytes: invalid UTF-8 becomes U+FFFD. In addition to JSON's escapes, DEL,
    /// the C1 controls, line separators and bidirectional controls are escaped, so a line cannot control the terminal
    /// that displays it or imitate another line.
    mutating func append(json text: Span<UInt8>) {
        append(byte: UInt8(ascii: "\""))
        append(escaped: text)
        append(byte: UInt8(ascii: "\""))
    }

    /// Appends the content of a JSON string.
    mutating func append(escaped text: Span<UInt8>) {
        var index = 0
        while index < text.count {
            index += append(plainPrefixOf: text.extracting(index...))
            guard index < text.count else { break }
            let byte = text[index]
            if byte >= 0x80 {
                index += append(multibyte: text, at: index)
                continue
            }
            index += 1
            switch byte {
            case UInt8(ascii: "\""): append("\\\"")
            case UInt8(ascii: "\\"): append("\\\\")
            case UInt8(ascii: "\n"): append("\\n")
            case UInt8(ascii: "\r"): append("\\r")
            case UInt8(ascii: "\t"): append("\\t")
            default: append(unicodeEscape: UInt16(byte))
            }
        }
    }

    /// Appends a JSON number, or a string for NaN and infinity.
    mutating func append(json value: Double) {
        if value.isFinite {
            append(plain: value.description)
        } else {
            append(json: value.description)
        }
    }

    private mutating func append(unicodeEscape scalar: UInt16) {
        append("\\u")
        for shift in [12, 8, 4, 0] as [UInt16] {
            append(byte: Byte.hexDigit(UInt8(truncatingIfNeeded: scalar >> shift & 0x0f)))
        }
    }

    /// Appends the character at `start` and returns its length in bytes.
    private mutating func append(multibyte text: Span<UInt8>, at start: Int) -> Int {
        let length = Self.sequenceLength(text, at: start)
        if length == 0 {
            append("\u{FFFD}")
            return 1
        }
        if length == 2, text[start] == 0xc2, text[start + 1] < 0xa0 {
            append(unicodeEscape: UInt16(text[start + 1]))
        } else if length == 3, let scalar = Self.layoutControl(text, at: start) {
            append(unicodeEscape: scalar)
        } else {
            for index in start..<(start + length) { append(byte: text[index]) }
        }
        return length
    }

    /// U+2028 to U+202E and U+2066 to U+2069: line and paragraph separators, and bidirectional embeddings, overrides
    /// and isolates (UAX #9); otherwise `nil`.
    private static func layoutControl(_ text: Span<UInt8>, at start: Int) -> UInt16? {
        guard text[start] == 0xe2 else { return nil }
        return switch (text[start + 1], text[start + 2]) {
        case (0x80, let last) where (0xa8...0xae).contains(last): 0x2000 | UInt16(last & 0x3f)
        case (0x81, let last) where (0xa6...0xa9).contains(last): 0x2040 | UInt16(last & 0x3f)
        default: nil
        }
    }

    /// The length of the well-formed sequence at `start` (Unicode, table 3-7); 0 if it is not well-formed.
    private static func sequenceLength(_ text: Span<UInt8>, at start: Int) -> Int {
        let (length, second): (Int, ClosedRange<UInt8>)
        switch text[start] {
        case 0xc2...0xdf: (length, second) = (2, 0x80...0xbf)
        case 0xe0: (length, second) = (3, 0xa0...0xbf)
        case 0xed: (length, second) = (3, 0x80...0x9f)
        case 0xe1...0xef: (length, second) = (3, 0x80...0xbf)
        case 0xf0: (length, second) = (4, 0x90...0xbf)
        case 0xf1...0xf3: (length, second) = (4, 0x80...0xbf)
        case 0xf4: (length, second) = (4, 0x80...0x8f)
        default: return 0
        }
        guard start + length <= text.count, second.contains(text[start + 1]) else { return 0 }
        for index in (start + 2)..<(start + length) where !(0x80...0xbf).contains(text[index]) { return 0 }
        return length
    }
}
