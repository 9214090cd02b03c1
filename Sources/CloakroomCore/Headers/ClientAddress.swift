public import CloakroomWire
import NIOCore

/// Whom a request came from, where peers that are believed stand in between.
///
/// What counts attempts by address and what people are told about their sessions goes by this: behind a load balancer
/// everybody would otherwise be one and the same, and be locked out together.
public enum ClientAddress {
    /// Goes back along `X-Forwarded-For` from its end, over the addresses that are trusted, to the first that is not.
    /// Whatever stands before that one was told by a stranger.
    /// - Parameters:
    ///   - peer: The address at the other end of the connection, which is one of the trusted.
    ///   - trusted: Whose word counts.
    /// - Returns: An IP address without port or brackets; `peer` if the field tells none.
    public static func resolve(_ head: borrowing RequestHead, peer: String, trusted: [CIDRBlock]) -> String {
        var address = peer
        let bytes = head.bytes.readableBytesUInt8Span
        var members: [ByteRange] = []
        for field in head.fields where field.name == .xForwardedFor {
            var list = ListTokenIterator(field.valueRange)
            while let member = list.next(bytes) { members.append(member) }
        }
        for member in members.reversed() {
            let text = (member.start..<member.end).map { bytes[$0] }
            guard let next = strippingPort(String(decoding: text, as: UTF8.self)) else { return address }
            address = next
            guard trusted.contains(where: { $0.contains(next) }) else { return address }
        }
        return address
    }

    /// An address without the port and the brackets that some proxies write with it.
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
