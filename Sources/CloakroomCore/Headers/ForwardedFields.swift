package import CloakroomWire
import NIOCore

/// The fields that upstreams get from the gateway alone, where another proxy sends them: API tokens, tokens, claims, and
/// what routes set.
///
/// A proxy replaces those fields of the client that the gateway's response has. So each response has all of them, and
/// other spellings, which the upstream may take for the same field, are not accepted from clients at all.
package final class ForwardedFields: Sendable {
    /// As configured, with the position in ``spellings``.
    private let names: [(text: String, position: Int)]
    /// Of the names, and of ``SpoofableFields/overrides``.
    private let spellings: FieldNameSet
    private let filter: FieldNameSet.Filter
    private let variants = FieldLineVariants()
    /// Whether each position has a bit in the key of a variant, in addition to ``envoyBit``.
    private let hasVariants: Bool
    private static let envoyBit: UInt64 = 1 << 63

    package init(_ configuration: GatewayConfiguration) {
        let fixed: [String] = ["Authorization", "Cookie", "X-Client-Cert-Subject"]
        var names: [String: String] = [:]
        for name in fixed + configuration.upstreams.flatMap(\.tokenHeaders) + configuration.claimHeaderNames
            + configuration.requestFieldNames
        where names[name.lowercased()] == nil {
            names[name.lowercased()] = name
        }
        let all = names.values + SpoofableFields.overrides
        let spellings = FieldNameSet(all)
        self.spellings = spellings
        filter = FieldNameSet.Filter(all)
        hasVariants = all.count < 64
        self.names = names.values.sorted().map { ($0, spellings.index(of: $0) ?? 0) }
    }

    /// Whether a field of a client has one of the names, in any spelling, or names another method, path or host than those
    /// that are decided about. `Authorization` and `Cookie` have only one spelling, are read here, and are always replaced. Also
    /// a field that names another address or user in a spelling other than with hyphens, which no proxy removes.
    package func rejects(_ head: borrowing RequestHead) -> Bool {
        let bytes = head.bytes.readableBytesUInt8Span
        return head.fields.contains {
            if filter.mayContain($0, of: bytes), $0.name != .authorization, $0.name != .cookie,
                spellings.index(bytes, $0.nameRange) != nil
            {
                return true
            }
            return $0.name == .other && !Self.hasOnlyHyphens(bytes, $0.nameRange)
                && SpoofableFields.ofProxies.contains(bytes, $0.nameRange)
        }
    }

    /// Whether a name has no characters but letters, digits and hyphens. Checks eight bytes at a time, the last ones of which
    /// may be checked twice.
    package static func hasOnlyHyphens(_ bytes: Span<UInt8>, _ name: ByteRange) -> Bool {
        let last = name.end - 8
        guard last >= name.start else {
            var word: UInt64 = 0x6161_6161_6161_6161
            for index in name.start..<name.end { word = word << 8 | UInt64(bytes[index]) }
            return hasOnlyHyphens(word)
        }
        var index = name.start
        while hasOnlyHyphens(bytes.bytes.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self)) {
            if index == last { return true }
            index = min(index + 8, last)
        }
        return false
    }

    @inline(__always)
    private static func hasOnlyHyphens(_ word: UInt64) -> Bool {
        let (ones, high): (UInt64, UInt64) = (0x0101_0101_0101_0101, 0x8080_8080_8080_8080)
        let low = word & ~high
        // The high bit of each byte: set if it is at least the first, and not beyond the last one.
        func isWithin(_ word: UInt64, _ range: ClosedRange<UInt64>) -> UInt64 {
            (word &+ (0x80 - range.lowerBound) &* ones) & ~(word &+ (0x7f - range.upperBound) &* ones)
        }
        let isLetter = isWithin(low | 0x20 &* ones, 0x61...0x7a)
        return (isLetter | isWithin(low, 0x30...0x39) | isWithin(low, 0x2d...0x2d)) & ~word & high == high
    }

    /// The field lines that a response which permits has in addition: the names that it lacks, without values, and
    /// `Cache-Control`.
    /// - Parameters:
    ///   - lines: The complete field lines of the response.
    ///   - forEnvoy: Whether a further line lists the names, which Envoy then removes from the request.
    package func missing(in lines: Span<UInt8>, forEnvoy: Bool) -> [UInt8] {
        guard hasVariants else {
            var present: Set<Int> = []
            spellings.forEachIndex(in: lines) { present.insert($0) }
            return made(forEnvoy) { present.contains($0) }
        }
        var present: UInt64 = 0
        spellings.forEachIndex(in: lines) { present |= 1 << UInt64($0) }
        return variants.lines(present | (forEnvoy ? Self.envoyBit : 0)) {
            made(forEnvoy) { present >> UInt64($0) & 1 != 0 }
        }
    }

    private func made(_ forEnvoy: Bool, _ isPresent: (Int) -> Bool) -> [UInt8] {
        let empty = names.filter { !isPresent($0.position) }.map(\.text)
        let removed = forEnvoy && !empty.isEmpty
        let list = removed ? "x-envoy-auth-headers-to-remove: \(empty.joined(separator: ","))\r\n" : ""
        return Array((empty.map { "\($0): \r\n" }.joined() + list + "Cache-Control: no-store\r\n").utf8)
    }
}
