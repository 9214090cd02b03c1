/// The key that identifies a client for counting: an IPv4 address, or the /64 of an IPv6 address, which is the smallest
/// block that a client is assigned.
public struct ClientAddressKey: Hashable, Sendable {
    private let isVersion6: Bool
    private let prefix: UInt64

    /// Parses an address without brackets or zone.
    /// - Returns: `nil` if it is not an IP address.
    public init?(_ address: String) {
        guard let bytes = IPAddress.bytes(of: address) else { return nil }
        // An IPv4 address that is mapped into IPv6 is the same client (RFC 4291 §2.5.5.2).
        let isMapped = bytes.count == 16 && bytes.starts(with: IPAddress.mappedPrefix)
        isVersion6 = bytes.count == 16 && !isMapped
        prefix = (isMapped ? bytes.suffix(4) : bytes.prefix(8)).reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// The block as bytes, for hashing; unique for each block.
    public var bytes: [UInt8] {
        [isVersion6 ? 6 : 4] + prefix.bigEndianBytes
    }
}
