import CloakroomCore

extension ValueFormat where Value == UpstreamTargetConfiguration {
    /// Where an upstream is reached: `http://host:port`, `https://host:port` or `unix:/path`. HTTP/1.1 is spoken to all.
    static let target = ValueFormat("`http://host:port`, `https://host:port` or `unix:/path`") {
        text throws(ConfigValueError) in
        let lower = text.lowercased()
        // What may hold a secret is not repeated: a user and a password, a query, a path.
        guard lower.hasPrefix("unix:") || !text.contains("@") else {
            throw ConfigValueError("a target takes no user and no password", example)
        }
        if lower.hasPrefix("unix:") { return try unixSocket(text) }
        guard !text.contains(where: { "?#".contains($0) }) else {
            throw ConfigValueError("a target takes no query and no fragment", example)
        }
        for scheme in ["h2:", "h2c:", "http+unix:", "https+unix:"] where lower.hasPrefix(scheme) {
            throw ConfigValueError("\(scheme.dropLast()) targets are not supported yet", example)
        }
        if lower.hasPrefix("http://") { return try tcp(.http, text, usualPort: 80) }
        if lower.hasPrefix("https://") { return try tcp(.https, text, usualPort: 443) }
        // A path begins behind the host, unless there is no host at all.
        let host = text.firstIndex(of: "/").map { text[..<$0] } ?? text[...]
        throw ConfigValueError("\(DiagnosticText.quoted(host)) is not an address of an upstream", example)
    }

    private static let example = "write http://host:port, https://host:port or unix:/path"

    private static func tcp(
        _ scheme: UpstreamTargetConfiguration.Scheme, _ text: String, usualPort: Int
    ) throws(ConfigValueError) -> UpstreamTargetConfiguration {
        let example = "\(scheme.rawValue)://host:port"
        var authority = text.dropFirst("\(scheme.rawValue)://".count)
        if authority.hasSuffix("/") { authority = authority.dropLast() }
        guard !authority.contains("/") else {
            throw ConfigValueError("a target takes no path", "write \(example); the request brings the path")
        }
        let hasPort = (authority.lastIndex(of: "]").map { authority[$0...] } ?? authority).contains(":")
        guard let address = HostAndPort(hasPort ? String(authority) : "\(authority):\(usualPort)"),
            HostAndPort.isHost(address.host), address.port > 0
        else { throw ConfigValueError("\(DiagnosticText.quoted(text)) has no valid host and port", "write \(example)") }
        return UpstreamTargetConfiguration(address, scheme: scheme)
    }

    /// What the system has room for in the address of a socket, without the zero at its end.
    private static let longestSocketPath = 107

    private static func unixSocket(_ text: String) throws(ConfigValueError) -> UpstreamTargetConfiguration {
        let path = String(text.dropFirst("unix:".count))
        guard path.hasPrefix("/"), !path.hasPrefix("//"), path.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7f }) else {
            throw ConfigValueError("the socket has no absolute path", "write one such as unix:/run/api.sock")
        }
        guard path.utf8.count <= longestSocketPath else {
            throw ConfigValueError(
                "the path of the socket is longer than \(longestSocketPath) bytes", "put the socket somewhere shorter")
        }
        return UpstreamTargetConfiguration(unixSocket: path)
    }
}

extension ValueFormat where Value == String {
    /// A host name as certificates carry it: no address, no port.
    static let hostName = ValueFormat("host name") { text throws(ConfigValueError) in
        guard (1...253).contains(text.utf8.count), HostAndPort.isHost(text), IPAddress.bytes(of: text) == nil else {
            throw ConfigValueError(
                "\(DiagnosticText.quoted(text)) is not a host name",
                "write the name in the certificate, such as api.example.com")
        }
        return text
    }
}
