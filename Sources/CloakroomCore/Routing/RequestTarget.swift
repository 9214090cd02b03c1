public import CloakroomWire

/// A parsed request target (RFC 9112 §3.2). Policy and upstream use the same bytes of it.
///
/// Every path has one normal form: characters that are allowed unencoded in a segment are decoded, all others are
/// percent-encoded in upper case: also `[`, `]` and `|`, which browsers send as they are (URL Standard, path
/// percent-encode set). Only a plus keeps its form, because some servers decode a plain one as a space.
/// Ambiguous paths (dot segments, encoded slashes and dots, backslashes, semicolons, double slashes) are rejected, not
/// repaired. The query does not affect routing and is forwarded unchanged.
public struct RequestTarget: Sendable, Equatable {
    /// The path within the target's bytes. Empty means `/`.
    public var path: ByteRange
    /// The query with its question mark; empty if there is none.
    public var query: ByteRange
    /// The authority of an absolute-form target, which takes precedence over `Host` (RFC 9112 §3.2.2).
    public var authority: ByteRange?
    /// Whether the path's normal form differs from its bytes: it is then in the scratch space passed to the parser.
    public var isPathRewritten: Bool
    /// Whether the target is `*`, which is valid only for `OPTIONS`.
    public var isAsterisk: Bool

    /// An empty target.
    public static var empty: RequestTarget {
        let nothing = ByteRange(start: 0, count: 0)
        return RequestTarget(path: nothing, query: nothing, authority: nil, isPathRewritten: false, isAsterisk: false)
    }

    /// Parses a target.
    /// - Parameters:
    ///   - bytes: The target of the request line.
    ///   - scratch: Receives the normal form of a path that is not in normal form.
    /// - Throws: ``RequestTargetError`` if the target has no normal form.
    public static func parse(_ bytes: Span<UInt8>, scratch: inout [UInt8]) throws(RequestTargetError) -> RequestTarget {
        guard bytes.count > 0 else { throw .malformed }
        if bytes[0] == UInt8(ascii: "/") {
            return try parsePathAndQuery(bytes, from: 0, scratch: &scratch)
        }
        if bytes.count == 1, bytes[0] == UInt8(ascii: "*") {
            let empty = ByteRange(start: 0, count: 0)
            return RequestTarget(path: empty, query: empty, authority: nil, isPathRewritten: false, isAsterisk: true)
        }
        let start = try schemeEnd(bytes)
        var end = start
        while end < bytes.count, bytes[end] != UInt8(ascii: "/"), bytes[end] != UInt8(ascii: "?") { end += 1 }
        guard Authority.isValid(bytes.extracting(start..<end)) else { throw .authority }
        var target = try parsePathAndQuery(bytes, from: end, scratch: &scratch)
        target.authority = ByteRange(start: start, count: end - start)
        return target
    }

    private static func schemeEnd(_ bytes: Span<UInt8>) throws(RequestTargetError) -> Int {
        var index = 0
        for expected in StaticBytes.http.utf8 {
            guard index < bytes.count, bytes[index] | 0x20 == expected else { throw .malformed }
            index += 1
        }
        if index < bytes.count, bytes[index] | 0x20 == UInt8(ascii: "s") { index += 1 }
        for expected in StaticBytes.colonSlashSlash.utf8 {
            guard index < bytes.count, bytes[index] == expected else { throw .malformed }
            index += 1
        }
        return index
    }

    private enum StaticBytes {
        static let http = "http"
        static let colonSlashSlash = "://"
    }

    private static func parsePathAndQuery(
        _ bytes: Span<UInt8>, from start: Int, scratch: inout [UInt8]
    ) throws(RequestTargetError) -> RequestTarget {
        var index = start
        var segmentStart = start
        var needsRewriting = false
        while index < bytes.count {
            let byte = bytes[index]
            if PathByte.isAllowed(byte) {
                index += 1
                continue
            }
            if byte == UInt8(ascii: "?") { break }
            if byte == UInt8(ascii: "/") {
                if index > start { try checkSegment(bytes, from: segmentStart, to: index) }
                if index > start, index == segmentStart { throw .emptySegment }
                segmentStart = index + 1
            } else if byte == UInt8(ascii: "%") || PathByte.isEncoded(byte) {
                needsRewriting = true
            } else {
                throw PathByte.rejection(of: byte)
            }
            index += 1
        }
        if index > start { try checkSegment(bytes, from: segmentStart, to: index) }
        let path = ByteRange(start: start, count: index - start)
        if needsRewriting {
            try PathByte.normalize(bytes.extracting(start..<index), into: &scratch)
        }
        let query = ByteRange(start: index, count: bytes.count - index)
        while index < bytes.count {
            let byte = bytes[index]
            guard byte > 0x20, byte < 0x7f else { throw .character }
            guard byte != UInt8(ascii: "#") else { throw .fragment }
            index += 1
        }
        return RequestTarget(
            path: path, query: query, authority: nil, isPathRewritten: needsRewriting, isAsterisk: false)
    }

    private static func checkSegment(_ bytes: Span<UInt8>, from start: Int, to end: Int) throws(RequestTargetError) {
        let count = end - start
        guard count == 1 || count == 2, bytes[start] == UInt8(ascii: ".") else { return }
        if count == 1 || bytes[start + 1] == UInt8(ascii: ".") { throw .dotSegment }
    }
}

/// Why a request target was rejected. The response is 400 in each case.
public enum RequestTargetError: Error, Sendable, Equatable, CaseIterable {
    /// Neither a path, an `http` or `https` address, nor `*`.
    case malformed
    /// The authority of an absolute address is invalid.
    case authority
    /// A `.` or `..` segment, plain or encoded.
    case dotSegment
    /// Two slashes in a row.
    case emptySegment
    /// `#` or `%23`.
    case fragment
    /// A backslash, a semicolon or a NUL, or a slash, plain or encoded, that would change the meaning of the path.
    case separator
    /// A percent sign without two hexadecimal digits after it, or bytes that are an overlong or invalid encoding of a
    /// character (RFC 3629 §3).
    case percentEncoding
    /// A control character, a space, or a non-ASCII character.
    case character
}

enum PathByte {
    /// Characters that are allowed unencoded in a segment (RFC 3986 §3.3), without the semicolon.
    @inline(__always)
    static func isAllowed(_ byte: UInt8) -> Bool {
        // Bit n of a mask is set if byte n (or 64 + n) is allowed: letters, digits and -._~!$&'()*+,=:@
        let low: UInt64 = 0x27ff_7fd2_0000_0000
        let high: UInt64 = 0x47ff_fffe_87ff_ffff
        return Byte.isIn(byte, low: low, high: high)
    }

    /// Characters that are accepted unencoded and forwarded percent-encoded.
    @inline(__always)
    static func isEncoded(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "[") || byte == UInt8(ascii: "]") || byte == UInt8(ascii: "|")
    }

    static func rejection(of byte: UInt8) -> RequestTargetError {
        switch byte {
        case UInt8(ascii: "#"): .fragment
        case UInt8(ascii: "\\"), UInt8(ascii: ";"): .separator
        default: .character
        }
    }

    /// Writes the normal form of a path with percent-encoded bytes.
    static func normalize(_ path: Span<UInt8>, into scratch: inout [UInt8]) throws(RequestTargetError) {
        scratch.removeAll(keepingCapacity: true)
        var index = 0
        /// The byte that was decoded last, if it directly precedes.
        var previous: UInt8 = 0
        while index < path.count {
            let byte = path[index]
            guard byte == UInt8(ascii: "%") else {
                if isEncoded(byte) {
                    scratch.append(UInt8(ascii: "%"))
                    scratch.append(UInt8(ascii: "0") + byte >> 4)
                    // The second digit of each of them is a letter.
                    scratch.append(UInt8(ascii: "A") + byte & 0xf - 10)
                } else {
                    scratch.append(byte)
                }
                index += 1
                previous = 0
                continue
            }
            guard index + 2 < path.count, let high = Byte.hexadecimal(path[index + 1]),
                let low = Byte.hexadecimal(path[index + 2])
            else {
                throw .percentEncoding
            }
            let value = UInt8(truncatingIfNeeded: high << 4 | low)
            switch value {
            case UInt8(ascii: "."): throw .dotSegment
            case UInt8(ascii: "#"): throw .fragment
            case UInt8(ascii: "/"), UInt8(ascii: "\\"), UInt8(ascii: ";"), 0: throw .separator
            case 0x01...0x1f, 0x7f: throw .character
            case 0xc0, 0xc1, 0xf5...0xff: throw .percentEncoding
            case 0x80...0x9f where previous == 0xe0: throw .percentEncoding
            case 0x80...0x8f where previous == 0xf0: throw .percentEncoding
            case _ where value != UInt8(ascii: "+") && isAllowed(value):
                scratch.append(value)
            default:
                scratch.append(UInt8(ascii: "%"))
                scratch.append(upperCase(path[index + 1]))
                scratch.append(upperCase(path[index + 2]))
            }
            index += 3
            previous = value
        }
    }

    private static func upperCase(_ byte: UInt8) -> UInt8 {
        byte >= UInt8(ascii: "a") && byte <= UInt8(ascii: "f") ? byte - 0x20 : byte
    }
}

/// The authority of a request: `Host`, or the authority of an absolute-form target (RFC 9110 §7.2).
public enum Authority {
    /// Whether the bytes are exactly a host name or address, with or without a port: no user, no list, not empty.
    public static func isValid(_ bytes: Span<UInt8>) -> Bool {
        guard bytes.count > 0, bytes.count <= 255 else { return false }
        var index = 0
        if bytes[0] == UInt8(ascii: "[") {
            index = 1
            while index < bytes.count, bytes[index] != UInt8(ascii: "]") {
                switch bytes[index] {
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
                    UInt8(ascii: "A")...UInt8(ascii: "F"), UInt8(ascii: ":"), UInt8(ascii: "."):
                    index += 1
                default: return false
                }
            }
            guard index > 2, index < bytes.count else { return false }
            index += 1
        } else {
            while index < bytes.count, isUnreserved(bytes[index]) { index += 1 }
            guard index > 0 else { return false }
        }
        guard index < bytes.count else { return true }
        guard bytes[index] == UInt8(ascii: ":") else { return false }
        index += 1
        guard bytes.count - index <= 5 else { return false }
        while index < bytes.count {
            guard bytes[index] >= UInt8(ascii: "0"), bytes[index] <= UInt8(ascii: "9") else { return false }
            index += 1
        }
        return true
    }

    /// Whether a host name may contain the character (RFC 3986 §2.3), and a path as it is.
    @inline(__always)
    package static func isUnreserved(_ byte: UInt8) -> Bool {
        // Bit n of a mask is set if byte n (or 64 + n) is allowed: letters, digits and -._~
        let low: UInt64 = 0x03ff_6000_0000_0000
        let high: UInt64 = 0x47ff_fffe_87ff_fffe
        if byte < 64 { return low >> UInt64(byte) & 1 != 0 }
        return byte < 128 && high >> UInt64(byte - 64) & 1 != 0
    }
}
