import CloakroomWire

/// The response fields that certain shared caches obey instead of `Cache-Control`, and so also instead of its `private`:
/// `CDN-Cache-Control` and the same for one cache (RFC 9213), `Surrogate-Control` (Edge Architecture Specification §2.4),
/// `X-Accel-Expires` (nginx) and `Edge-Control` (Akamai).
package enum SharedCacheFields {
    private static let names = FieldNameSet(["Surrogate-Control", "X-Accel-Expires", "Edge-Control"])
    private static let suffix = FieldNameSet(["-Cache-Control"])

    /// Whether a field, in any spelling, is one of them. `Cache-Control` is none.
    static func contains(_ bytes: Span<UInt8>, _ name: ByteRange) -> Bool {
        // Of most fields the length or the last letter, which is that of control or expires, differs.
        guard name.count >= 12 else { return false }
        let last = bytes[name.end - 1] | 0x20
        guard last == UInt8(ascii: "l") || last == UInt8(ascii: "s") else { return false }
        let end = ByteRange(start: max(name.end - 14, name.start), count: min(name.count, 14))
        return names.contains(bytes, name) || name.count > 14 && suffix.contains(bytes, end)
    }

    /// The same for a name that is given as a string.
    package static func contains(_ name: String) -> Bool {
        contains(Array(name.utf8).span, ByteRange(start: 0, count: name.utf8.count))
    }
}
