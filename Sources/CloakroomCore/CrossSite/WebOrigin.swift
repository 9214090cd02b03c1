import CloakroomWire

/// A web origin: a scheme, a host and a port (RFC 6454 §4). Hosts compare case-insensitively, and an omitted port is
/// the scheme's default.
public struct WebOrigin: Sendable, Hashable, CustomStringConvertible {
    /// Whether the scheme is `https` and not `http`; no other scheme is supported.
    public let isSecure: Bool
    /// A name or an address, in lower case; an IPv6 address with its brackets.
    public let host: String
    /// 0...99,999: all numbers of up to five digits.
    public let port: Int
    /// ``host`` as bytes.
    let hostBytes: [UInt8]

    /// Parses an origin as browsers write it (RFC 6454 §6.2): `https://host` or `https://host:port`, nothing after it.
    /// - Returns: `nil` for anything else, including `null`.
    public init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard let parts = OriginView(bytes.span, ByteRange(start: 0, count: bytes.count)) else { return nil }
        isSecure = parts.isSecure
        hostBytes = parts.host.lowerCased(bytes.span)
        host = String(decoding: hostBytes, as: UTF8.self)
        port = parts.port
    }

    /// The origin as browsers write it, without the scheme's default port.
    public var description: String {
        let start = (isSecure ? "https://" : "http://") + host
        return port == OriginView.port(isSecure: isSecure) ? start : "\(start):\(port)"
    }

    func matches(_ parts: OriginView, _ bytes: Span<UInt8>) -> Bool {
        parts.isSecure == isSecure && parts.port == port && ASCII.equals(bytes, parts.host, hostBytes)
    }
}

/// An origin whose host is a range of a message.
struct OriginView {
    var isSecure: Bool
    var host: ByteRange
    var port: Int

    /// Parses the value of `Origin`.
    /// - Returns: `nil` if it is not the origin of a page that was served over HTTP.
    init?(_ bytes: Span<UInt8>, _ range: ByteRange) {
        let isSecure = ASCII.hasPrefix(bytes, range, "https://")
        guard isSecure || ASCII.hasPrefix(bytes, range, "http://") else { return nil }
        let scheme = isSecure ? 8 : 7
        self.init(
            isSecure: isSecure, authority: ByteRange(start: range.start + scheme, count: range.count - scheme), bytes)
    }

    /// Creates the origin that a request was sent to.
    /// - Returns: `nil` if the authority is not a host with or without a port.
    init?(isSecure: Bool, authority: ByteRange, _ bytes: Span<UInt8>) {
        guard Authority.isValid(bytes.extracting(authority.start..<authority.end)) else { return nil }
        // The colon before the digits at the end; an IPv6 address ends with its bracket.
        var colon = authority.end
        while colon > authority.start, isDigit(bytes[colon - 1]) { colon -= 1 }
        let hasPort = colon > authority.start && bytes[colon - 1] == UInt8(ascii: ":")
        var port = 0
        if hasPort, colon < authority.end {
            for index in colon..<authority.end { port = port * 10 + Int(bytes[index] - UInt8(ascii: "0")) }
        } else {
            port = Self.port(isSecure: isSecure)
        }
        self.isSecure = isSecure
        self.port = port
        let hostEnd = hasPort ? colon - 1 : authority.end
        host = ByteRange(start: authority.start, count: hostEnd - authority.start)
    }

    static func port(isSecure: Bool) -> Int { isSecure ? 443 : 80 }

    static func isSame(_ left: OriginView, _ right: OriginView, _ bytes: Span<UInt8>) -> Bool {
        left.isSecure == right.isSecure && left.port == right.port && ASCII.equals(bytes, left.host, right.host)
    }
}

private func isDigit(_ byte: UInt8) -> Bool {
    byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
}

extension ByteRange {
    func lowerCased(_ bytes: Span<UInt8>) -> [UInt8] {
        (start..<end).map { ASCII.lower(bytes[$0]) }
    }
}
