import CloakroomWire

/// Compares paths as the most lenient upstreams do.
///
/// Two paths are equal here if an upstream could serve both with one handler although their bytes differ. The
/// comparison ignores ASCII case, trailing blanks and dots of a segment, parameters after a semicolon, repeated and
/// trailing slashes, and any number of percent-encodings of one character. It treats a backslash as a slash, and the
/// path ends at an encoded NUL, `?` or `#`. Four characters whose case folds to an ASCII letter (Unicode
/// `CaseFolding.txt` and its simple mappings: U+0130, U+0131, U+017F, U+212A) equal that letter, and the blanks of
/// Unicode are blanks.
///
/// Not covered, because a comparison of paths cannot detect them: suffixes such as `.json`, compatibility forms of
/// letters (Unicode normalization), dot segments that are percent-encoded twice (``write(_:into:splitsEncoded:)``
/// detects them), and rewriting rules of the upstream.
enum LenientPath {
    private static let slash = UInt8(ascii: "/")
    private static let semicolon = UInt8(ascii: ";")
    private static let dot = UInt8(ascii: ".")
    /// An encoded separator that does not split a path. No path pattern contains this byte.
    private static let opaque: UInt8 = 0xff

    /// Returns the canonical form used by ``isEqual(_:to:)``: segments in lower case without ignored bytes, joined by
    /// slashes, without a slash at either end. Empty for `/`.
    static func canonical(_ path: Span<UInt8>) -> [UInt8] {
        var result: [UInt8] = []
        _ = write(path, into: &result)
        _ = result.popLast()
        return result
    }

    /// Writes the canonical form with a slash after each segment.
    /// - Parameter splitsEncoded: Whether an encoded separator acts like a plain one, as for servers that decode a path
    ///   repeatedly. Otherwise it is an ordinary character of its segment, as for those that split the path first.
    /// - Returns: Whether a segment is `..` for servers that decode it again or remove blanks. Such a path leads to its
    ///   parent, which the canonical form does not.
    static func write(_ path: Span<UInt8>, into result: inout [UInt8], splitsEncoded: Bool = true) -> Bool {
        var reader = Reader(splitsEncoded: splitsEncoded)
        var start = 0
        var isInParameters = false
        var hasParent = false
        result.removeAll(keepingCapacity: true)
        func close() {
            var end = result.count
            while end > start, isIgnoredAtEnd(result[end - 1]) { end -= 1 }
            if end == start, result.count > start + 1, result[start] == dot, result[start + 1] == dot {
                hasParent = true
            }
            result.removeLast(result.count - end)
            if end > start { result.append(slash) }
            start = result.count
        }
        while let byte = reader.next(path) {
            if byte == slash {
                close()
                isInParameters = false
            } else if byte == semicolon {
                isInParameters = true
            } else if !isInParameters {
                result.append(byte)
            }
        }
        close()
        return hasParent
    }

    /// Whether no segment of a path is ignored, split or continued after decoding: it has no percent sign, no plus and
    /// no segment that begins with a dot.
    /// - Parameter path: In the normal form of ``RequestTarget``.
    static func isPlain(_ path: Span<UInt8>) -> Bool {
        var previous: UInt8 = 0
        for index in path.indices {
            let byte = path[index]
            if byte == UInt8(ascii: "%") || byte == UInt8(ascii: "+") { return false }
            if byte == dot, previous == slash { return false }
            previous = byte
        }
        return true
    }

    /// Whether the canonical form of a path is `expected`. Allocates nothing; reads each byte at most twice.
    static func isEqual(_ path: Span<UInt8>, to expected: Span<UInt8>) -> Bool {
        var reader = Reader()
        var matched = 0
        var isAtStart = true
        var isInParameters = false
        while let byte = reader.next(path) {
            if byte == slash {
                isInParameters = false
                // A segment of ignored bytes only is skipped.
                if isAtStart { continue }
                isAtStart = true
                if matched == expected.count { continue }
                guard expected[matched] == slash else { return false }
                matched += 1
                continue
            }
            if isInParameters { continue }
            if isAtStart {
                // A blank or dot at the start of a segment is significant unless only ignored bytes follow.
                if byte == semicolon {
                    isInParameters = true
                    continue
                }
                if isIgnoredAtEnd(byte), reader.endsSegment(path) {
                    isInParameters = true
                    continue
                }
                isAtStart = false
            } else if matched == expected.count || expected[matched] == slash {
                // The expected segment is complete: only ignored bytes may follow.
                if byte == semicolon { isInParameters = true } else if !isIgnoredAtEnd(byte) { return false }
                continue
            }
            guard matched < expected.count, expected[matched] == byte else { return false }
            matched += 1
        }
        // If the expected path continues here, it has a segment that the path lacks.
        return matched == expected.count
    }

    /// Whether a byte is ignored at the end of a segment: blanks, control characters, dots, and the plus that some
    /// decoders treat as a space.
    @inline(__always)
    fileprivate static func isIgnoredAtEnd(_ byte: UInt8) -> Bool {
        byte <= 0x20 || byte == 0x7f || byte == UInt8(ascii: ".") || byte == UInt8(ascii: "+")
    }

    /// A position in a path whose bytes are decoded and case-folded one by one.
    private struct Reader {
        private let splitsEncoded: Bool
        private var index = 0

        init(splitsEncoded: Bool = true) {
            self.splitsEncoded = splitsEncoded
        }

        /// Returns the next byte; `nil` at the end of the path.
        mutating func next(_ path: Span<UInt8>) -> UInt8? {
            let isEncoded = index < path.count && path[index] == UInt8(ascii: "%")
            guard let byte = decoded(path) else { return nil }
            switch byte {
            case slash, semicolon, UInt8(ascii: "\\"), 0, UInt8(ascii: "?"), UInt8(ascii: "#"):
                guard splitsEncoded || !isEncoded else { return opaque }
            default: break
            }
            switch byte {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): return byte | 0x20
            case UInt8(ascii: "\\"): return slash
            case 0, UInt8(ascii: "?"), UInt8(ascii: "#"):
                index = path.count
                return nil
            case 0xc2...0xef: return folded(byte, path)
            default: return byte
            }
        }

        /// Whether only ignored bytes and parameters follow in this segment. Does not advance.
        func endsSegment(_ path: Span<UInt8>) -> Bool {
            var ahead = self
            while let byte = ahead.next(path) {
                if byte == slash || byte == semicolon { return true }
                guard isIgnoredAtEnd(byte) else { return false }
            }
            return true
        }

        /// Returns the next byte with all of its percent-encodings removed.
        private mutating func decoded(_ path: Span<UInt8>) -> UInt8? {
            guard index < path.count else { return nil }
            let byte = path[index]
            index += 1
            guard byte == UInt8(ascii: "%"), var value = Self.pair(path, at: index) else { return byte }
            index += 2
            // An encoded percent sign before two digits is another layer of encoding.
            while value == UInt8(ascii: "%"), let inner = Self.pair(path, at: index) {
                value = inner
                index += 2
            }
            return value
        }

        /// Returns the letter or blank that a non-ASCII character equals; its first byte for any other character.
        private mutating func folded(_ first: UInt8, _ path: Span<UInt8>) -> UInt8 {
            var ahead = self
            guard let second = ahead.decoded(path) else { return first }
            let equal: UInt8
            switch (first, second) {
            case (0xc2, 0x85), (0xc2, 0xa0): equal = 0x20
            case (0xc4, 0xb0), (0xc4, 0xb1): equal = UInt8(ascii: "i")
            case (0xc5, 0xbf): equal = UInt8(ascii: "s")
            case (0xe1, 0x9a), (0xe2, 0x80), (0xe2, 0x81), (0xe2, 0x84), (0xe3, 0x80), (0xef, 0xbb):
                guard let third = ahead.decoded(path) else { return first }
                switch (first, second, third) {
                case (0xe2, 0x84, 0xaa): equal = UInt8(ascii: "k")
                case (0xe1, 0x9a, 0x80), (0xe2, 0x80, 0x80...0x8a), (0xe2, 0x80, 0xa8), (0xe2, 0x80, 0xa9),
                    (0xe2, 0x80, 0xaf), (0xe2, 0x81, 0x9f), (0xe3, 0x80, 0x80), (0xef, 0xbb, 0xbf):
                    equal = 0x20
                default: return first
                }
            default: return first
            }
            index = ahead.index
            return equal
        }

        private static func pair(_ path: Span<UInt8>, at start: Int) -> UInt8? {
            guard start + 1 < path.count, let high = Byte.hexadecimal(path[start]),
                let low = Byte.hexadecimal(path[start + 1])
            else { return nil }
            return UInt8(truncatingIfNeeded: high << 4 | low)
        }
    }
}

extension PathPattern {
    /// The pattern of the paths that ``LenientPath/write(_:into:splitsEncoded:)`` writes for the pattern's own. The
    /// pattern of `/a/*` also matches what is written for `/a`.
    package var lenient: PathPattern {
        let folded = segments.compactMap { segment -> Segment? in
            guard case .literal(let text) = segment else { return segment }
            let bytes = LenientPath.canonical(Array(text.utf8).span)
            return bytes.isEmpty ? nil : .literal(String(decoding: bytes, as: UTF8.self))
        }
        return PathPattern(segments: folded.last == .wildcard ? folded : folded + [.literal("")])
    }

    /// What lenient servers may read, in the two readings of encoded separators, for ``lenient`` patterns.
    /// - Parameter path: In the normal form of ``RequestTarget``, without the query.
    package static func lenientReadings(of path: [UInt8]) -> [PathPattern] {
        [true, false].map { splitsEncoded in
            var scratch: [UInt8] = []
            _ = LenientPath.write(path.span, into: &scratch, splitsEncoded: splitsEncoded)
            return PathPattern(ofPath: scratch[...])
        }
    }

    /// The pattern of one path.
    /// - Parameter path: Without the slash at its beginning.
    package init(ofPath path: ArraySlice<UInt8>) {
        let parts = path.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        self.init(segments: parts.map { .literal(String(decoding: $0, as: UTF8.self)) })
    }
}
