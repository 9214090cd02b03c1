import CloakroomWire

/// Field names that must not be forwarded, in any spelling.
///
/// Upstreams that map names to variables treat `X_API_TOKEN`, `X.Api.Token` and `x-api-token` as equal. This set does
/// the same: case is folded, and every character that is not a letter or digit counts as a hyphen.
package struct FieldNameSet: Sendable {
    /// In the order of their lengths.
    private let names: [[UInt8]]
    /// The number of names that are shorter than n bytes, for n up to 63; then that of all names.
    private let shorter: [Int]
    private let prefixes: [[UInt8]]
    /// Indexed by the low five bits of a name's first byte: bit n is set if the set contains a name of n bytes with
    /// such a first byte; bit 63 is for all longer names. An inline array would be copied for each field that is searched
    /// for in a set that a class has.
    private let lengths: [UInt64]
    /// Bit n is set if a prefix begins with a byte whose low five bits are n.
    private let prefixStarts: UInt32

    /// - Parameter prefixes: Names that begin with one of these are in the set too.
    init(_ names: [String], prefixes: [String] = []) {
        let names = Set(names.map { $0.utf8.map(Self.fold) }).sorted {
            $0.count == $1.count ? $0.lexicographicallyPrecedes($1) : $0.count < $1.count
        }
        self.names = names
        shorter = (0...64).map { length in names.count { min($0.count, 63) < length } }
        self.prefixes = prefixes.map { $0.utf8.map(Self.fold) }
        var lengths = [UInt64](repeating: 0, count: 32)
        for name in names {
            for start in Self.starts(of: name) { lengths[start] |= 1 << UInt64(min(name.count, 63)) }
        }
        self.lengths = lengths
        prefixStarts = self.prefixes.flatMap(Self.starts).reduce(0) { $0 | 1 << UInt32($1) }
    }

    /// Returns the low five bits that the first byte of a spelling may have: those of a letter are the same in both
    /// cases, and a byte that is folded to a hyphen may have any.
    static func starts(of name: [UInt8]) -> [Int] {
        guard let first = name.first else { return [] }
        return first == UInt8(ascii: "-") ? Array(0..<32) : [Int(first & 0x1f)]
    }

    /// Whether the set contains the folded name.
    @inline(__always)
    func contains(_ bytes: Span<UInt8>, _ name: ByteRange) -> Bool {
        guard !name.isEmpty else { return false }
        let start = Int(bytes[name.start] & 0x1f)
        if lengths[start] >> UInt64(min(name.count, 63)) & 1 != 0, Self.index(in: names, shorter, bytes, name) != nil {
            return true
        }
        return prefixStarts >> UInt32(start) & 1 != 0 && Self.beginsWithOne(of: prefixes, bytes, name)
    }

    /// Whether the set contains the folded name, given as a string.
    func contains(_ name: String) -> Bool {
        let bytes = Array(name.utf8)
        return contains(bytes.span, ByteRange(start: 0, count: bytes.count))
    }

    /// Returns the position of the folded name; `nil` if the set does not contain it, apart from prefixes.
    @inline(__always)
    func index(_ bytes: Span<UInt8>, _ name: ByteRange) -> Int? { Self.index(in: names, shorter, bytes, name) }

    /// Calls a function with the position of the name of each line, if the set contains it, apart from prefixes.
    /// - Parameter lines: Complete field lines.
    @inline(__always)
    func forEachIndex(in lines: Span<UInt8>, _ found: (Int) -> Void) {
        var start = 0
        while start < lines.count {
            let end = FieldScan.first(0x0a, in: lines, from: start, to: lines.count)
            let colon = FieldScan.first(UInt8(ascii: ":"), in: lines, from: start, to: end)
            if let index = index(lines, ByteRange(start: start, count: colon - start)) { found(index) }
            start = end + 1
        }
    }

    /// Returns the position of the folded name, given as a string.
    func index(of name: String) -> Int? {
        let bytes = Array(name.utf8)
        return index(bytes.span, ByteRange(start: 0, count: bytes.count))
    }

    /// The spelling to which all equal names are folded.
    package static func folded(_ name: String) -> String { String(decoding: name.utf8.map(fold), as: UTF8.self) }

    // Static, because a call with `self` copied the whole set for each field of a head: 470 instructions a request.

    private static func beginsWithOne(of prefixes: [[UInt8]], _ bytes: Span<UInt8>, _ name: ByteRange) -> Bool {
        // By index, because iteration retains each of them.
        for index in prefixes.indices where prefixes[index].count <= name.count {
            if begins(bytes, name, with: prefixes[index]) { return true }
        }
        return false
    }

    private static func index(
        in names: [[UInt8]], _ shorter: [Int], _ bytes: Span<UInt8>, _ name: ByteRange
    ) -> Int? {
        let length = min(name.count, 63)
        for index in shorter[length]..<shorter[length + 1] where names[index].count == name.count {
            // Most have no other spelling, which is compared faster.
            if ASCII.equals(bytes, name, names[index]) || begins(bytes, name, with: names[index]) { return index }
        }
        return nil
    }

    private static func begins(_ bytes: Span<UInt8>, _ name: ByteRange, with text: [UInt8]) -> Bool {
        var index = 0
        while index < text.count, fold(bytes[name.start + index]) == text[index] { index += 1 }
        return index == text.count
    }

    private static func fold(_ byte: UInt8) -> UInt8 {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): byte | 0x20
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"): byte
        default: UInt8(ascii: "-")
        }
    }

    /// Excludes most fields by the length and the first byte of their name, without memory of its own.
    struct Filter: Sendable {
        private let lengths: UInt64
        private let starts: UInt32

        init(_ names: [String]) {
            let folded = names.map { $0.utf8.map(FieldNameSet.fold) }
            lengths = folded.reduce(0) { $0 | 1 << UInt64(min($1.count, 63)) }
            starts = folded.flatMap(FieldNameSet.starts).reduce(0) { $0 | 1 << UInt32($1) }
        }

        @inline(__always)
        func mayContain(_ field: FieldSlice, of bytes: Span<UInt8>) -> Bool {
            lengths &>> UInt64(min(field.nameCount, 63)) & 1 != 0
                && starts &>> UInt32(bytes[Int(field.nameStart)] & 0x1f) & 1 != 0
        }
    }
}
