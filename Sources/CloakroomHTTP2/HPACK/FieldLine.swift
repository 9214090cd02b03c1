import CloakroomWire

/// The use of a field line in a request's header block, determined once: when the line is decoded or inserted in a
/// table.
enum LineRole: UInt8 {
    /// A field that is only passed on.
    case plain
    /// Fields that are combined or evaluated.
    case host, cookie, priority
    /// The pseudo-fields of requests (RFC 9113 §8.3.1, RFC 8441 §4).
    case method, scheme, authority, path, protocolName
    /// A field that makes a request malformed: an invalid name or value, a connection-specific field, or a pseudo-field
    /// that requests do not have (RFC 9113 §8.2, §8.3).
    case malformed

    var isPseudoField: Bool {
        switch self {
        case .method, .scheme, .authority, .path, .protocolName: true
        case .plain, .host, .cookie, .priority, .malformed: false
        }
    }
}

/// The parts of a line `name: value CR LF` and its meaning, without its position.
struct FieldLine {
    var nameCount: UInt16
    var valueCount: UInt16
    var field: KnownField
    var role: LineRole

    /// The number of bytes of the line.
    @inline(__always) var count: Int { Int(nameCount) + Int(valueCount) + 4 }
    /// Offset of the value in the line.
    @inline(__always) var valueOffset: Int { Int(nameCount) + 2 }
    /// The size that the line counts in a dynamic table (RFC 7541 §4.1).
    @inline(__always) var tableSize: Int { Int(nameCount) + Int(valueCount) + 32 }
}

/// Determines the meaning of field lines.
struct FieldLineClassifier {
    private let names = KnownFieldTable.shared

    /// Returns the description of a line that begins at a position.
    func line(_ bytes: Span<UInt8>, at start: Int, nameCount: Int, valueCount: Int) -> FieldLine {
        var line = FieldLine(
            nameCount: UInt16(truncatingIfNeeded: nameCount), valueCount: UInt16(truncatingIfNeeded: valueCount),
            field: names.field(bytes, from: start, count: nameCount), role: .malformed)
        line.role = nameRole(bytes, at: start, nameCount, line.field)
        check(bytes, at: start, &line)
        return line
    }

    /// Returns the description of a line that begins at a position and has the name of another one.
    @inline(__always)
    func line(_ bytes: Span<UInt8>, at start: Int, named name: FieldLine, valueCount: Int) -> FieldLine {
        // The role of a malformed line may be that of its value.
        guard name.role != .malformed else {
            return line(bytes, at: start, nameCount: Int(name.nameCount), valueCount: valueCount)
        }
        var line = name
        line.valueCount = UInt16(truncatingIfNeeded: valueCount)
        check(bytes, at: start, &line)
        return line
    }

    /// Checks the value (RFC 9113 §8.2.1), and that `te` is only `trailers` (RFC 9113 §8.2.2).
    @inline(__always)
    private func check(_ bytes: Span<UInt8>, at start: Int, _ line: inout FieldLine) {
        let valueStart = start + line.valueOffset
        let end = valueStart + Int(line.valueCount)
        if valueStart < end {
            guard !Byte.isBlank(bytes[valueStart]), !Byte.isBlank(bytes[end - 1]),
                Byte.endOfFieldText(bytes, from: valueStart, to: end) == end
            else { return line.role = .malformed }
        }
        if line.field == .te, !bytes.matches("trailers", at: valueStart, count: Int(line.valueCount)) {
            line.role = .malformed
        }
    }

    private func nameRole(_ bytes: Span<UInt8>, at start: Int, _ count: Int, _ field: KnownField) -> LineRole {
        switch field {
        case .connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade, .http2Settings: return .malformed
        default: break
        }
        guard count > 0 else { return .malformed }
        if bytes[start] == UInt8(ascii: ":") { return pseudoRole(bytes, at: start, count) }
        // Known names are compared regardless of case, so this check cannot be omitted for them.
        for index in start..<(start + count) {
            let byte = bytes[index]
            guard Byte.isToken(byte), byte < UInt8(ascii: "A") || byte > UInt8(ascii: "Z") else { return .malformed }
        }
        switch field {
        case .host: return .host
        case .cookie: return .cookie
        default: return bytes.matches("priority", at: start, count: count) ? .priority : .plain
        }
    }

    private func pseudoRole(_ bytes: Span<UInt8>, at start: Int, _ count: Int) -> LineRole {
        if bytes.matches(":path", at: start, count: count) { return .path }
        if bytes.matches(":method", at: start, count: count) { return .method }
        if bytes.matches(":scheme", at: start, count: count) { return .scheme }
        if bytes.matches(":authority", at: start, count: count) { return .authority }
        if bytes.matches(":protocol", at: start, count: count) { return .protocolName }
        return .malformed
    }
}
