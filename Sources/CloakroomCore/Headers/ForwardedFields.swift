package import CloakroomWire
import NIOCore

/// The fields that upstreams get from the gateway alone, where another proxy sends them: API tokens, tokens, claims, and
/// what routes set.
///
/// A proxy replaces those fields of the client that the gateway's response has. So each response has all of them, and
/// other spellings, which the upstream may take for the same field, are not accepted from clients at all.
package final class ForwardedFields: Sendable {
    /// As configured.
    private let names: [String]
    private let spellings: FieldNameSet
    private static let overrides = FieldNameSet(SpoofableFields.overrides)

    package init(_ configuration: GatewayConfiguration) {
        let fixed: [String] = ["Authorization", "Cookie", "X-Client-Cert-Subject"]
        var names: [String: String] = [:]
        for name in fixed + configuration.upstreams.flatMap(\.tokenHeaders) + configuration.claimHeaderNames
            + configuration.requestFieldNames
        where names[name.lowercased()] == nil {
            names[name.lowercased()] = name
        }
        self.names = names.values.sorted()
        spellings = FieldNameSet(self.names)
    }

    /// Whether a field of a client has one of the names, in any spelling, or names another method or path than those that are
    /// decided about. `Authorization` and `Cookie` have only one spelling, are read here, and are always replaced.
    package func rejects(_ head: borrowing RequestHead) -> Bool {
        let bytes = head.bytes.readableBytesUInt8Span
        for field in head.fields where field.name != .authorization && field.name != .cookie {
            if spellings.contains(bytes, field.nameRange) || Self.overrides.contains(bytes, field.nameRange) {
                return true
            }
        }
        return false
    }

    /// The names that complete field lines do not have.
    package func missing(in lines: [UInt8]) -> [String] {
        let bytes = lines.span
        var (present, start): (Set<Int>, Int) = ([], 0)
        while start < bytes.count {
            let end = FieldScan.first(0x0a, in: bytes, from: start, to: bytes.count)
            let colon = FieldScan.first(UInt8(ascii: ":"), in: bytes, from: start, to: end)
            if let position = spellings.index(bytes, ByteRange(start: start, count: colon - start)) {
                present.insert(position)
            }
            start = end + 1
        }
        return names.filter { name in spellings.index(of: name).map { !present.contains($0) } ?? true }
    }
}
