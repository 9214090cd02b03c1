import CloakroomWire

/// A table of host names. Each is exact, or begins with `*.` for exactly one label (RFC 9525 §6.3).
///
/// An exact name precedes a wildcard; of equal names the first counts. Names are compared in the form of
/// ``folded(_:)``: names in other alphabets as A-labels (RFC 5890 §2.3.2.1), addresses as browsers write them.
package struct HostNames: Sendable {
    private var values: [String: Int] = [:]

    /// - Parameter names: The names of each value, folded.
    package init(_ names: [[String]]) {
        for (value, names) in names.enumerated() {
            for name in names where values[name] == nil { values[name] = value }
        }
    }

    /// The value of a host, or of a name with a wildcard in the table; `nil` for none.
    /// - Parameter host: Folded.
    package func value(of host: String) -> Int? {
        guard let dot = host.firstIndex(of: "."), !host.hasPrefix("*") else { return values[host] }
        return values[host] ?? (dot == host.startIndex ? nil : values["*" + host[dot...]])
    }

    /// Whether a name matches all hosts that another one matches.
    package static func covers(_ name: String, _ other: String) -> Bool {
        name == other || HostNames([[name]]).value(of: other) != nil
    }

    /// A host as it is compared: letters in lower case, without a port and the final dot of an absolute name
    /// (RFC 1034 §3.1).
    /// - Returns: `nil` if the bytes are not a valid ``Authority``.
    package static func folded(_ authority: Span<UInt8>) -> String? {
        let range = ByteRange(start: 0, count: authority.count)
        guard var host = OriginView(isSecure: true, authority: range, authority)?.host else { return nil }
        if host.count > 1, authority[host.end - 1] == UInt8(ascii: ".") { host.count -= 1 }
        return String(decoding: host.lowerCased(authority), as: UTF8.self)
    }

    /// The folded form of a text.
    package static func folded(_ text: String) -> String? { folded(Array(text.utf8).span) }

    /// Whether a folded host is this machine to browsers: `localhost` and names below it (RFC 6761 §6.3), 127.0.0.0/8 and
    /// `[::1]`. No page of another site can have one of them, whatever its name resolves to.
    package static func isLocal(_ host: String) -> Bool {
        if host.hasPrefix("["), host.hasSuffix("]") { return IPAddress.isLoopback(String(host.dropFirst().dropLast())) }
        return host == "localhost" || host.hasSuffix(".localhost") && !host.hasPrefix(".")
            || IPAddress.isLoopback(host)
    }
}
