import CloakroomCore
import CloakroomWire

extension ValueFormat where Value == HostAndPort {
    /// An address to listen on: `0.0.0.0:8443`, `[::1]:9464`, `localhost:0`.
    static let listening = ValueFormat("host and port") { text throws(ConfigValueError) in
        guard let address = HostAndPort(text), HostAndPort.isHost(address.host) else {
            throw ConfigValueError(
                "must be host:port, not \(DiagnosticText.quoted(text))",
                "write an address such as 0.0.0.0:8443 or [::1]:8443")
        }
        return address
    }
}

extension HostAndPort {
    /// Whether a text is an IP address or a possible host name.
    static func isHost(_ host: String) -> Bool {
        if host.contains(":") { return IPAddress.bytes(of: host) != nil }
        // The maximum length of a host name (RFC 1035 §2.3.4); metrics contain it.
        guard host.utf8.count <= 253 else { return false }
        return host.utf8.allSatisfy { byte in
            byte.isLetterOrDigit || byte == UInt8(ascii: "-") || byte == UInt8(ascii: ".") || byte == UInt8(ascii: "_")
        }
    }
}

extension ValueFormat where Value == (text: String, range: CIDRBlock) {
    /// An address or a range in CIDR notation.
    static let addressRange = ValueFormat(
        "address or range in CIDR notation",
        parse: { text throws(ConfigValueError) in
            guard let range = CIDRBlock(text) else {
                throw ConfigValueError(
                    "must be an address or range, not \(DiagnosticText.quoted(text))",
                    "write one such as 10.0.0.0/8, with no bits set after the prefix")
            }
            return (text, range)
        }, render: { $0.text })
}

extension UInt8 {
    /// Whether the byte is an ASCII letter or digit.
    var isLetterOrDigit: Bool {
        switch self {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: false
        }
    }

    /// Whether the byte is allowed in a token (RFC 9110 §5.6.2).
    var isTokenCharacter: Bool {
        Byte.isToken(self)
    }
}
