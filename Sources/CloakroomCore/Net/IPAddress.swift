/// A CIDR block of IP addresses: `10.0.0.0/8`, `::1`.
///
/// Folder `Net/`: IP addresses, the address of a client behind trusted peers, and the host names of certificates.
public struct CIDRBlock: Sendable, Hashable {
    private let network: [UInt8]
    private let prefix: Int

    /// Parses an address or a range in CIDR notation (RFC 4632 §3.1).
    /// - Returns: `nil` for anything else, and for a range with bits set after its prefix.
    public init?(_ text: String) {
        guard let (bytes, prefix) = Self.parsed(text), Self.masked(bytes, to: prefix) == bytes else { return nil }
        self.network = bytes
        self.prefix = prefix
    }

    /// The range of a text that may have bits set after its prefix: `10.0.0.0/8` for `10.0.0.5/8`.
    /// - Returns: `nil` if it is no range for another reason.
    package static func network(of text: String) -> String? {
        guard let (bytes, prefix) = parsed(text) else { return nil }
        let network = masked(bytes, to: prefix)
        guard bytes.count == 16 else { return network.map { "\($0)" }.joined(separator: ".") + "/\(prefix)" }
        let groups = stride(from: 0, to: (prefix + 7) / 8, by: 2).map { index in
            String(UInt16(network[index]) << 8 | UInt16(network[index + 1]), radix: 16)
        }
        return groups.joined(separator: ":") + (groups.count < 8 ? "::" : "") + "/\(prefix)"
    }

    private static func parsed(_ text: String) -> (bytes: [UInt8], prefix: Int)? {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count <= 2, let first = parts.first, let bytes = IPAddress.bytes(of: String(first)) else {
            return nil
        }
        guard parts.count == 2 else { return (bytes, bytes.count * 8) }
        guard parts[1].utf8.allSatisfy({ (0x30...0x39).contains($0) }), let prefix = UInt8(parts[1]),
            Int(prefix) <= bytes.count * 8
        else { return nil }
        return (bytes, Int(prefix))
    }

    /// Whether the range contains an address, written in the usual way and without brackets. An IPv4 address that is
    /// mapped into IPv6 counts as the IPv4 address.
    public func contains(_ address: String) -> Bool {
        guard var bytes = IPAddress.bytes(of: address) else { return false }
        if network.count == 4, bytes.count == 16, bytes.starts(with: IPAddress.mappedPrefix) {
            bytes.removeFirst(12)
        }
        return bytes.count == network.count && Self.masked(bytes, to: prefix) == network
    }

    /// Whether the range contains an address. An IPv4 address that is mapped into IPv6 is in ranges of IPv4 only.
    public func contains(_ address: AddressBits) -> Bool {
        guard address.isVersion6 == (network.count == 16) else { return false }
        for index in network.indices {
            let kept = min(max(prefix - index * 8, 0), 8)
            guard kept > 0 else { return true }
            let word = index < 8 && address.isVersion6 ? address.high : address.low
            let shift = address.isVersion6 ? 8 * (7 - index % 8) : 8 * (3 - index)
            let byte = UInt8(truncatingIfNeeded: word >> UInt64(shift))
            guard byte & (0xff << (8 - UInt8(kept))) == network[index] else { return false }
        }
        return true
    }

    private static func masked(_ bytes: [UInt8], to prefix: Int) -> [UInt8] {
        bytes.enumerated().map { index, byte in
            let kept = min(max(prefix - index * 8, 0), 8)
            return kept == 0 ? 0 : byte & (0xff << (8 - UInt8(kept)))
        }
    }
}

/// Parses IP addresses.
public enum IPAddress {
    /// The first twelve bytes of an IPv4 address mapped into IPv6 (RFC 4291 §2.5.5.2).
    static let mappedPrefix: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]

    /// The four or sixteen bytes of an address in its usual spelling, without brackets or zone; `nil` for anything
    /// else.
    public static func bytes(of text: String) -> [UInt8]? {
        guard let words = AddressBits.words(text.utf8.span) else { return nil }
        let low = words.low.bigEndianBytes
        return words.isVersion6 ? words.high.bigEndianBytes + low : Array(low.suffix(4))
    }

    /// Whether a text without brackets is an address of this machine itself: 127.0.0.0/8 or ::1 (RFC 1122 §3.2.1.3,
    /// RFC 4291 §2.5.3).
    package static func isLoopback(_ text: String) -> Bool {
        guard let bytes = bytes(of: text) else { return false }
        return bytes.count == 4 ? bytes[0] == 127 : bytes == Array(repeating: 0, count: 15) + [1]
    }
}

/// The key that identifies a client for counting: an IPv4 address, or the /64 of an IPv6 address, which is the smallest
/// block that a client is assigned.
public struct ClientAddressKey: Hashable, Sendable {
    let isVersion6: Bool
    let prefix: UInt64

    /// Parses an address without brackets or zone.
    /// - Returns: `nil` if it is not an IP address.
    public init?(_ address: String) {
        guard let bytes = IPAddress.bytes(of: address) else { return nil }
        // An IPv4 address that is mapped into IPv6 is the same client (RFC 4291 §2.5.5.2).
        let isMapped = bytes.count == 16 && bytes.starts(with: IPAddress.mappedPrefix)
        isVersion6 = bytes.count == 16 && !isMapped
        prefix = (isMapped ? bytes.suffix(4) : bytes.prefix(8)).reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// The client with an address.
    public init(_ address: AddressBits) {
        isVersion6 = address.isVersion6
        prefix = address.isVersion6 ? address.high : address.low
    }

    /// The block as bytes, for hashing; unique for each block.
    public var bytes: [UInt8] {
        [isVersion6 ? 6 : 4] + prefix.bigEndianBytes
    }

    /// The /48 of an IPv6 address as bytes, which a client may have as a whole; `nil` for IPv4.
    var network: [UInt8]? { isVersion6 ? (prefix >> 16).bigEndianBytes : nil }
}

extension HostAndPort {
    /// Whether the address is reachable only from this machine.
    package var isLoopback: Bool { host.lowercased() == "localhost" || IPAddress.isLoopback(host) }
}
