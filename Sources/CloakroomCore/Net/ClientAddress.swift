public import CloakroomWire
import NIOCore

/// Determines the client address of a request that trusted proxies forwarded.
///
/// Used for counting attempts by address and for the session list of users: with the address of a load balancer, all
/// clients would be counted as one and be throttled together.
public enum ClientAddress {
    /// The maximum length of an address with brackets and a port in bytes. A search in some longer texts would cost the square of
    /// their length.
    private static let maxLength = 64

    /// Searches `X-Forwarded-For` backwards for the first address that is not trusted. All entries before it were
    /// supplied by an untrusted peer.
    /// - Parameters:
    ///   - peer: The address at the other end of the connection, which is trusted.
    ///   - trusted: The addresses of trusted proxies.
    /// - Returns: An IP address without port or brackets; `peer` if the field contains none.
    public static func resolve(_ head: borrowing RequestHead, peer: String, trusted: [CIDRBlock]) -> String {
        var address = peer
        let bytes = head.bytes.readableBytesUInt8Span
        var members: [ByteRange] = []
        for field in head.fields where field.name == .xForwardedFor {
            var list = ListTokenIterator(field.valueRange)
            while let member = list.next(bytes) { members.append(member) }
        }
        for member in members.reversed() {
            guard member.count <= maxLength,
                let next = strippingPort(String(decoding: head.copy(of: member), as: UTF8.self))
            else { return address }
            address = next
            guard trusted.contains(where: { $0.contains(next) }) else { return address }
        }
        return address
    }

    /// The key of the client that ``resolve(_:peer:trusted:)`` finds, without allocation.
    /// - Returns: `nil` if the field contains no address: the request is the trusted peer's own.
    public static func key(_ head: borrowing RequestHead, trusted: [CIDRBlock]) -> ClientAddressKey? {
        let bytes = head.bytes.readableBytesUInt8Span
        var found: AddressBits?
        for field in head.fields.reversed() where field.name == .xForwardedFor {
            let range = field.valueRange
            var end = range.end
            while end > range.start {
                var start = end
                while start > range.start, bytes[start - 1] != UInt8(ascii: ",") { start -= 1 }
                let member = FieldScan.trimmed(bytes, start..<end)
                end = max(start - 1, range.start)
                if member.isEmpty { continue }
                guard member.count <= maxLength, let next = addressBits(bytes.extracting(member)) else {
                    return found.map { ClientAddressKey($0) }
                }
                found = next
                guard trusted.contains(where: { $0.contains(next) }) else { return ClientAddressKey(next) }
            }
        }
        return found.map { ClientAddressKey($0) }
    }

    /// Parses an address with or without port and brackets.
    private static func addressBits(_ text: Span<UInt8>) -> AddressBits? {
        if let address = AddressBits(text) { return address }
        let isBracketed = text[0] == UInt8(ascii: "[")
        let end = isBracketed ? UInt8(ascii: "]") : UInt8(ascii: ":")
        for index in text.indices where text[index] == end {
            return AddressBits(text.extracting((isBracketed ? 1 : 0)..<index))
        }
        return nil
    }

    /// Removes the port and the brackets that some proxies write with an address.
    private static func strippingPort(_ text: String) -> String? {
        if IPAddress.bytes(of: text) != nil { return text }
        if text.hasPrefix("["), let end = text.firstIndex(of: "]") {
            let inner = String(text[text.index(after: text.startIndex)..<end])
            return IPAddress.bytes(of: inner) == nil ? nil : inner
        }
        guard let colon = text.firstIndex(of: ":") else { return nil }
        let host = String(text[..<colon])
        return IPAddress.bytes(of: host) == nil ? nil : host
    }
}
