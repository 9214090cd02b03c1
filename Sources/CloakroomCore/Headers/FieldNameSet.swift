import CloakroomWire

/// Field names that a client must not send past us, whatever their spelling.
///
/// Upstreams that turn names into variables read `X_API_TOKEN`, `X.Api.Token` and `x-api-token` as one; so do we: case is
/// folded, and every character that is no letter or digit counts as a hyphen.
struct FieldNameSet: Sendable {
    private let names: [[UInt8]]
    /// Bit n says that a name of n bytes is in the set; 63 stands for all longer ones.
    private let lengths: UInt64
    /// Names that begin with this are in the set too; empty for none.
    private let prefix: [UInt8]

    init(_ names: [String], prefix: String = "") {
        self.names = Set(names.map { $0.utf8.map(Self.fold) }).sorted { $0.lexicographicallyPrecedes($1) }
        self.lengths = self.names.reduce(0) { $0 | 1 << UInt64(min($1.count, 63)) }
        self.prefix = prefix.utf8.map(Self.fold)
    }

    /// Whether a name folds to one of the set.
    @inline(__always)
    func contains(_ bytes: Span<UInt8>, _ name: ByteRange) -> Bool {
        if lengths >> UInt64(min(name.count, 63)) & 1 != 0, search(bytes, name) { return true }
        return !prefix.isEmpty && hasPrefix(bytes, name)
    }

    private func hasPrefix(_ bytes: Span<UInt8>, _ name: ByteRange) -> Bool {
        guard name.count >= prefix.count else { return false }
        var index = 0
        while index < prefix.count, Self.fold(bytes[name.start + index]) == prefix[index] { index += 1 }
        return index == prefix.count
    }

    private func search(_ bytes: Span<UInt8>, _ name: ByteRange) -> Bool {
        for candidate in names where candidate.count == name.count {
            var index = 0
            while index < name.count, Self.fold(bytes[name.start + index]) == candidate[index] { index += 1 }
            if index == name.count { return true }
        }
        return false
    }

    private static func fold(_ byte: UInt8) -> UInt8 {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): byte | 0x20
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"): byte
        default: UInt8(ascii: "-")
        }
    }
}
