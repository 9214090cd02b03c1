import CloakroomWire

/// How a response field is represented in header blocks.
enum FieldIndexing: UInt8 {
    /// Inserted in the dynamic table when it recurs.
    case indexed
    /// Not inserted: the value changes with most responses and would evict reusable entries.
    case plain
    /// Not inserted, and never by intermediaries either: the value is sensitive (RFC 7541 §7.1.3).
    case never
}

/// The name of a response field: its index in the static table, 0 if it is not there, and its representation.
struct ResponseFieldName {
    var index: UInt8
    var indexing: FieldIndexing
}

/// Maps names of response fields, regardless of case.
struct ResponseFieldNames: Sendable {
    static let shared = ResponseFieldNames()

    private let fixed: StaticTable
    /// By index in the static table.
    private let indexing: [FieldIndexing]
    /// Indices by hash, with linear probing; 0 is a free slot.
    private let slots: [UInt8]

    private init() {
        let fixed = StaticTable.shared
        self.fixed = fixed
        indexing = [.indexed] + StaticTable.fields.map { Self.indexing(of: $0.name) }
        var slots = [UInt8](repeating: 0, count: 256)
        for (offset, field) in StaticTable.fields.enumerated() where !field.name.hasPrefix(":") {
            let index = offset + 1
            let entry = fixed.entries[index]
            var slot = Self.slot(fixed.bytes.span, from: entry.start, count: Int(entry.line.nameCount))
            while slots[slot] != 0 { slot = (slot + 1) & 0xff }
            slots[slot] = UInt8(index)
        }
        self.slots = slots
    }

    private static func indexing(of name: String) -> FieldIndexing {
        switch name {
        case "set-cookie", "authorization", "proxy-authorization", "proxy-authenticate", "www-authenticate": .never
        case "location", "content-location", "etag", "last-modified", "content-length", "content-range", "age",
            "expires":
            .plain
        default: .indexed
        }
    }

    /// Returns the representation of a name.
    /// - Parameter field: The known field with this name.
    @inline(__always)
    func name(_ bytes: Span<UInt8>, from start: Int, count: Int, _ field: KnownField) -> ResponseFieldName {
        switch field {
        case .xRequestID, .traceparent, .tracestate: return ResponseFieldName(index: 0, indexing: .plain)
        // The most frequent ones, by their index in the static table.
        case .contentLength: return ResponseFieldName(index: 28, indexing: .plain)
        case .contentType: return ResponseFieldName(index: 31, indexing: .indexed)
        case .date: return ResponseFieldName(index: 33, indexing: .indexed)
        case .setCookie: return ResponseFieldName(index: 55, indexing: .never)
        case .proxyAuthenticationInfo: return ResponseFieldName(index: 0, indexing: .never)
        default: break
        }
        let index = index(bytes, from: start, count: count)
        if index == 0, Self.equals(bytes, from: start, count: count, "authentication-info") {
            return ResponseFieldName(index: 0, indexing: .never)
        }
        return ResponseFieldName(index: index, indexing: indexing[Int(index)])
    }

    private func index(_ bytes: Span<UInt8>, from start: Int, count: Int) -> UInt8 {
        guard count > 0 else { return 0 }
        var slot = Self.slot(bytes, from: start, count: count)
        while slots[slot] != 0 {
            let index = slots[slot]
            let entry = fixed.entries[Int(index)]
            if count == Int(entry.line.nameCount),
                Self.equals(bytes, from: start, count: count, fixed.bytes.span, at: entry.start)
            {
                return index
            }
            slot = (slot + 1) & 0xff
        }
        return 0
    }

    private static func slot(_ bytes: Span<UInt8>, from start: Int, count: Int) -> Int {
        let first = Int(Byte.lowerCase(bytes[start]))
        let last = Int(Byte.lowerCase(bytes[start + count - 1]))
        return (count &* 7 &+ first &* 31 &+ last) & 0xff
    }

    @inline(__always)
    private static func equals(
        _ bytes: Span<UInt8>, from start: Int, count: Int, _ names: Span<UInt8>, at nameStart: Int
    ) -> Bool {
        for index in 0..<count where Byte.lowerCase(bytes[start + index]) != names[nameStart + index] { return false }
        return true
    }

    /// Whether a name is that of a text in lower case.
    static func equals(_ bytes: Span<UInt8>, from start: Int, count: Int, _ name: StaticString) -> Bool {
        guard count == name.utf8CodeUnitCount else { return false }
        return name.withUTF8Buffer { other in
            for index in 0..<count where Byte.lowerCase(bytes[start + index]) != other[index] { return false }
            return true
        }
    }
}
