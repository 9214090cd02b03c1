/// Which part of a resource a request asks for with `Range` (RFC 9110 §14.1.2, §14.2).
enum ByteRange: Equatable {
    /// All of it: no range was asked for, or none that has to be honoured.
    case whole
    /// These bytes, never none.
    case part(Range<Int>)
    /// Bytes that are not there (416).
    case unsatisfiable

    /// Reads the field for a resource of `length` bytes. Several ranges, other units and what is malformed are ignored,
    /// as a server may.
    init(_ field: String?, length: Int) {
        self = .whole
        guard let field, field.lowercased().hasPrefix("bytes=") else { return }
        let spec = field.dropFirst("bytes=".count)
        let ends = spec.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard ends.count == 2, let first = Self.position(ends[0]), let last = Self.position(ends[1]) else { return }
        switch (first, last) {
        case (nil, nil): return
        case (nil, let count?): self = Self.clamped(max(0, length - count), length, length)
        case (let first?, nil): self = Self.clamped(first, length, length)
        case (let first?, let last?):
            guard first <= last else { return }
            self = Self.clamped(first, last < length ? last + 1 : length, length)
        }
    }

    private static func clamped(_ start: Int, _ end: Int, _ length: Int) -> ByteRange {
        start < length && start < end ? .part(start..<end) : .unsatisfiable
    }

    /// A number, `.some(nil)` for none, and nothing for what is neither.
    private static func position(_ text: Substring) -> Int?? {
        if text.isEmpty { return .some(nil) }
        guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(text) else { return nil }
        return .some(number)
    }
}
