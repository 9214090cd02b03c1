import CloakroomCore

extension ValueFormat where Value == String {
    /// An origin as browsers write it (RFC 6454 §6.2): scheme, host and a port that is not the scheme's own, lower case.
    static let origin = ValueFormat(
        "origin such as `https://app.example.com`",
        parse: { text throws(ConfigValueError) in
            let lower = text.lowercased()
            guard lower != "*" else {
                throw ConfigValueError(
                    "* would let every site act in the name of whoever is signed in", "write the origins, one by one")
            }
            // Whatever looks like an address with a password in it is not repeated, and no query is.
            guard !text.contains("@") else {
                throw ConfigValueError("an origin takes no user and no password", originExample)
            }
            let shown = DiagnosticText.quoted(text.prefix { !"?#".contains($0) })
            guard !text.contains("*") else {
                throw ConfigValueError(
                    "\(shown) holds a wildcard: whoever gets a name under it would be trusted too",
                    "write the origins, one by one")
            }
            guard lower != "null" else {
                throw ConfigValueError("null is what any page can call itself", "leave it out")
            }
            for (scheme, usualPort) in [("https", 443), ("http", 80)] where lower.hasPrefix("\(scheme)://") {
                return try origin(scheme, String(lower.dropFirst(scheme.count + 3)), usualPort: usualPort)
            }
            throw ConfigValueError("\(shown) is not an origin", originExample)
        }, render: { $0 })

    private static let originExample =
        "write one such as https://app.example.com, or with a port https://localhost:3000"

    private static func origin(
        _ scheme: String, _ authority: String, usualPort: Int
    ) throws(ConfigValueError) -> String {
        if let end = authority.firstIndex(where: { "/?#".contains($0) }) {
            throw ConfigValueError(
                "an origin has no path, not even a slash",
                "write \(DiagnosticText.escaped("\(scheme)://\(authority[..<end])"))")
        }
        let hasPort = (authority.lastIndex(of: "]").map { authority[$0...] } ?? authority[...]).contains(":")
        guard let address = HostAndPort(hasPort ? authority : "\(authority):\(usualPort)"), !address.host.isEmpty,
            HostAndPort.isHost(address.host), address.port > 0
        else {
            throw ConfigValueError(
                "\(DiagnosticText.quoted("\(scheme)://\(authority)")) has no valid host and port", originExample)
        }
        guard address.port == usualPort else { return "\(scheme)://\(address)" }
        return "\(scheme)://" + (address.host.contains(":") ? "[\(address.host)]" : address.host)
    }
}
