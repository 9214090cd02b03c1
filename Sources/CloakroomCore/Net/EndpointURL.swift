import CloakroomWire

/// The URL of a server that the gateway or a browser sends secrets to: `https`, or `http` on this machine.
///
/// Only one spelling is valid, so that two parsers cannot read two hosts from it: a lower-case scheme, no user, no
/// fragment, no backslash, visible ASCII, at most ``maxLength`` bytes.
public struct EndpointURL: Sendable, Hashable, CustomStringConvertible {
    /// The maximum length in bytes.
    public static let maxLength = 2_048

    /// The URL, unchanged.
    public let text: String
    /// The scheme, host and port.
    public let origin: WebOrigin
    /// Whether the URL has a query.
    public let hasQuery: Bool
    /// The path and the query, unchanged; empty if the URL ends after the authority.
    public let target: String

    /// Parses a URL.
    /// - Returns: `nil` for another scheme, for `http` to another machine, and for a URL of another form.
    public init?(_ text: String) { self.init(text, permitting: nil) }

    /// Parses a URL.
    /// - Parameter plaintext: An origin that may be `http` of another machine.
    package init?(_ text: String, permitting plaintext: WebOrigin?) {
        guard text.utf8.count <= Self.maxLength, text.utf8.allSatisfy(Self.isAllowed),
            let scheme = ["https://", "http://"].first(where: text.hasPrefix)
        else { return nil }
        let afterScheme = text.dropFirst(scheme.count)
        let authority = afterScheme.prefix { $0 != "/" && $0 != "?" }
        guard let origin = WebOrigin(scheme + authority), origin.port > 0, origin.port <= 65_535,
            origin.isSecure || Self.isLoopback(origin.host) || origin == plaintext
        else { return nil }
        self.text = text
        self.origin = origin
        target = String(afterScheme.dropFirst(authority.count))
        hasQuery = target.contains("?")
    }

    /// The URL.
    public var description: String { text }

    /// Visible ASCII without `#`, which begins a fragment, `\`, which browsers read as `/`, and quotation marks and
    /// angle brackets, which are not allowed in a URL (RFC 3986 §2).
    private static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "#"), UInt8(ascii: "\\"), UInt8(ascii: "\""), UInt8(ascii: "<"), UInt8(ascii: ">"): false
        default: (0x21...0x7e).contains(byte)
        }
    }

    /// Whether a host is this machine: `localhost`, 127.0.0.0/8 or `[::1]`.
    private static func isLoopback(_ host: String) -> Bool {
        let isBracketed = host.hasPrefix("[") && host.hasSuffix("]")
        return host == "localhost" || IPAddress.isLoopback(isBracketed ? String(host.dropFirst().dropLast()) : host)
    }
}
