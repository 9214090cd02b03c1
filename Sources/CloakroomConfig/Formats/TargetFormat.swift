import CloakroomCore
import CloakroomWire

extension ValueFormat where Value == UpstreamTargetConfiguration {
    /// The address of an upstream: `http://host:port`, `https://host:port` or `unix:/path`. The protocol is a key of
    /// its own.
    static let target = ValueFormat("`http://host:port`, `https://host:port` or `unix:/path`") {
        text throws(ConfigValueError) in
        let lower = text.lowercased()
        // Parts that may contain a secret are not printed: user, password, query, path.
        try require(
            lower.hasPrefix("unix:") || !text.contains("@"), "must be a target without user and password", example)
        if lower.hasPrefix("unix:") { return try unixSocket(text) }
        try require(
            !text.contains(where: { "?#".contains($0) }), "must be a target without query and fragment", example)
        for scheme in ["h2:", "h2c:", "http+unix:", "https+unix:"] where lower.hasPrefix(scheme) {
            throw ConfigValueError(
                "\(scheme.dropLast()) is not supported as the scheme of a target",
                scheme.hasPrefix("h2") ? "write http:// or https://, and protocol: h2c or http2" : example)
        }
        if lower.hasPrefix("http://") { return try tcp(.http, text, usualPort: 80) }
        if lower.hasPrefix("https://") { return try tcp(.https, text, usualPort: 443) }
        // The path begins after the host, if there is a host.
        let host = text.firstIndex(of: "/").map { text[..<$0] } ?? text[...]
        let isHost = !text.contains(":/") && HostAndPort(connecting: host, usualPort: 80) != nil
        throw ConfigValueError(
            "must be an address of an upstream, not \(host.quoted)",
            isHost ? "write http://\(host) or https://\(host)" : example)
    }

    private static let example = "write http://host:port, https://host:port or unix:/path"

    private static func tcp(
        _ scheme: URIScheme, _ text: String, usualPort: Int
    ) throws(ConfigValueError) -> UpstreamTargetConfiguration {
        let example = "\(scheme.name)://host:port"
        var authority = text.dropFirst("\(scheme.name)://".count)
        if authority.hasSuffix("/") { authority = authority.dropLast() }
        try require(
            !authority.contains("/"), "must be a target without a path",
            "write \(example); the path is taken from the request, and addPrefix of a route adds to it")
        guard let address = HostAndPort(connecting: authority, usualPort: usualPort) else {
            throw ConfigValueError("\(text.quoted) must have a valid host and port", "write \(example)")
        }
        return UpstreamTargetConfiguration(address, scheme: scheme)
    }

    /// The maximum length of a socket path, without the terminating zero.
    private static let maxSocketPathLength = 107

    private static func unixSocket(_ text: String) throws(ConfigValueError) -> UpstreamTargetConfiguration {
        let path = String(text.dropFirst("unix:".count))
        try require(
            path.hasPrefix("/") && !path.hasPrefix("//") && path.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7f }),
            "must be an absolute socket path", "write one such as unix:/run/api.sock")
        try require(
            path.utf8.count <= maxSocketPathLength, "the socket path must be at most \(maxSocketPathLength) bytes long",
            "choose a shorter path")
        return UpstreamTargetConfiguration(unixSocket: path)
    }
}

extension ValueFormat where Value == String {
    /// A host name as in certificates: not an IP address, without a port.
    static let hostName = text(
        "host name", mustBe: "a host name", "write the name in the certificate, such as api.example.com"
    ) {
        (1...253).contains($0.utf8.count) && HostAndPort.isHost($0) && IPAddress.bytes(of: $0) == nil
    }

    /// The `Domain` of a cookie. Browsers reject one without a dot, and addresses (RFC 6265bis §5.7).
    static let cookieDomain = ValueFormat("domain of at least two labels, such as `example.com`") {
        text throws(ConfigValueError) in
        let labels = text.lowercased().split(separator: ".", omittingEmptySubsequences: false)
        let areLabels = labels.allSatisfy { label in
            (1...63).contains(label.utf8.count) && label.first != "-" && label.last != "-"
                && label.utf8.allSatisfy { $0.isLetterOrDigit || $0 == UInt8(ascii: "-") }
        }
        // A host whose last label is a number is an IPv4 address in browsers.
        try require(
            text.utf8.count <= 253 && labels.count > 1 && areLabels && labels.last?.first?.isLetter == true,
            "must be a domain of at least two labels, not \(text.quoted)",
            "write one such as example.com: ASCII labels, without a port or a dot at either end")
        return labels.joined(separator: ".")
    }
}
