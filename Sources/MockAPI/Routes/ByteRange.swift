/// The part of a resource requested by `Range` (RFC 9110 §14.1.2, §14.2).
enum ByteRange: Equatable {
    /// The whole resource: no range was requested, or none that must be honoured.
    case whole
    /// These bytes, at least one.
    case part(Range<Int>)
    /// A range outside of the resource (416).
    case unsatisfiable

    /// Parses the field for a resource of `length` bytes. Multiple ranges, other units and malformed values are
    /// ignored, as permitted.
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

    /// A number; `.some(nil)` for an empty text; `nil` for other text.
    private static func position(_ text: Substring) -> Int?? {
        if text.isEmpty { return .some(nil) }
        guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(text) else { return nil }
        return .some(number)
    }
}
