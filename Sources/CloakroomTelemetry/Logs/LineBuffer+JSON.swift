extension LineBuffer {
    /// A JSON string, quotes included (RFC 8259, section 7).
    mutating func append(json text: String) {
        append(json: text.utf8.span)
    }

    /// A JSON string out of bytes that may be anything: what is not UTF-8 becomes U+FFFD. Beyond what JSON asks for, DEL
    /// and the C1 controls are escaped too, so that a line cannot steer the terminal that shows it.
    mutating func append(json text: Span<UInt8>) {
        append(byte: UInt8(ascii: "\""))
        append(escaped: text)
        append(byte: UInt8(ascii: "\""))
    }

    /// The inside of a JSON string.
    mutating func append(escaped text: Span<UInt8>) {
        var index = 0
        while index < text.count {
            let plain = Self.plainLength(text, from: index)
            if plain > 0 {
                // The run is copied as one block; the pointer does not leave the closure.
                text.extracting(index..<(index + plain)).withUnsafeBufferPointer { append($0) }
                index += plain
                continue
            }
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
            default: append(unicodeEscape: byte)
            }
        }
    }

    /// A JSON number, or a string for what JSON has no number for.
    mutating func append(json value: Double) {
        if value.isFinite {
            append(plain: value.description)
        } else {
            append(json: value.description)
        }
    }

    /// How many bytes from here on stand for themselves.
    private static func plainLength(_ text: Span<UInt8>, from start: Int) -> Int {
        var end = start
        while end < text.count {
            let byte = text[end]
            guard byte >= 0x20, byte < 0x7f, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\\") else { break }
            end += 1
        }
        return end - start
    }

    private mutating func append(unicodeEscape byte: UInt8) {
        append("\\u00")
        append(byte: Hex.digit(byte >> 4))
        append(byte: Hex.digit(byte & 0x0f))
    }

    /// Appends the character that starts at `start` and returns how many bytes it takes.
    private mutating func append(multibyte text: Span<UInt8>, at start: Int) -> Int {
        let length = Self.sequenceLength(text, at: start)
        if length == 0 {
            append("\u{FFFD}")
            return 1
        }
        if length == 2, text[start] == 0xc2, text[start + 1] < 0xa0 {
            append(unicodeEscape: text[start + 1])
        } else {
            for index in start..<(start + length) { append(byte: text[index]) }
        }
        return length
    }

    /// How long the well-formed sequence at `start` is (Unicode, table 3-7); 0 when it is not well-formed.
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
