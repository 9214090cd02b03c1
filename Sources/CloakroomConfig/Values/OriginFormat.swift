import CloakroomCore

extension ValueFormat where Value == String {
    /// An origin in the serialization of browsers (RFC 6454 §6.2): lower-case scheme, host and a port other than the
    /// default port.
    static let origin = ValueFormat(
        "origin such as `https://app.example.com`",
        parse: { text throws(ConfigValueError) in
            let lower = text.lowercased()
            guard lower != "*" else {
                throw ConfigValueError(
                    "* is not supported: every site could act as the signed-in user", "write the origins, one by one")
            }
            // Text that may contain a password, and any query, is not printed.
            guard !text.contains("@") else {
                throw ConfigValueError("must be an origin without user and password", originExample)
            }
            let shown = DiagnosticText.quoted(text.prefix { !"?#".contains($0) })
            guard !text.contains("*") else {
                throw ConfigValueError(
                    "\(shown) contains a wildcard, which would trust every subdomain",
                    "write the origins, one by one")
            }
            guard lower != "null" else {
                throw ConfigValueError("null is not supported: any page can have this origin", "leave it out")
            }
            for (scheme, usualPort) in [("https", 443), ("http", 80)] where lower.hasPrefix("\(scheme)://") {
                return try origin(scheme, String(lower.dropFirst(scheme.count + 3)), usualPort: usualPort)
            }
            throw ConfigValueError("must be an origin, not \(shown)", originExample)
        }, render: { $0 })

    private static let originExample =
        "write one such as https://app.example.com, or with a port https://localhost:3000"

    private static func origin(
        _ scheme: String, _ authority: String, usualPort: Int
    ) throws(ConfigValueError) -> String {
        if let end = authority.firstIndex(where: { "/?#".contains($0) }) {
            throw ConfigValueError(
                "must be an origin without a path, not even a slash",
                "write \(DiagnosticText.escaped("\(scheme)://\(authority[..<end])"))")
        }
        let hasPort = (authority.lastIndex(of: "]").map { authority[$0...] } ?? authority[...]).contains(":")
        guard let address = HostAndPort(hasPort ? authority : "\(authority):\(usualPort)"), !address.host.isEmpty,
            HostAndPort.isHost(address.host), address.port > 0
        else {
            throw ConfigValueError(
                "\(DiagnosticText.quoted("\(scheme)://\(authority)")) must have a valid host and port", originExample)
        }
        guard address.port == usualPort else { return "\(scheme)://\(address)" }
        return "\(scheme)://" + (address.host.contains(":") ? "[\(address.host)]" : address.host)
    }
}
