import CloakroomCore

/// The address of a collector: `http` or `https`, a host, maybe a port, and a path. What is wrong with one is told without
/// repeating what may hold a secret: all of it where there is a user or a query, and else what follows the host.
struct OTLPEndpointURL {
    /// The whole address, scheme in lower case.
    let text: String
    /// What follows host and port: empty, or it begins with a slash.
    let path: String

    private static let example = "write one such as http://collector:4318/v1/traces"

    init(_ text: String) throws(ConfigValueError) {
        guard !text.contains("@") else {
            throw ConfigValueError("the address of a collector takes no user and no password", "put them into headers")
        }
        // In a query there may be a key.
        guard !text.contains("?"), !text.contains("#") else {
            throw ConfigValueError("the address of a collector takes no query and no fragment", Self.example)
        }
        guard let end = text.firstRange(of: "://") else {
            throw ConfigValueError("is not a URL", Self.example)
        }
        let scheme = text[..<end.lowerBound].lowercased()
        guard scheme == "http" || scheme == "https" else {
            throw ConfigValueError("is not reached by http or https", Self.example)
        }
        let rest = text[end.upperBound...]
        let slash = rest.firstIndex(of: "/") ?? rest.endIndex
        let authority = rest[..<slash]
        let hasPort = (authority.lastIndex(of: "]").map { authority[$0...] } ?? authority).contains(":")
        guard let address = HostAndPort(hasPort ? String(authority) : "\(authority):80"), !address.host.isEmpty,
            HostAndPort.isHost(address.host), address.port > 0
        else {
            throw ConfigValueError(
                "\(DiagnosticText.quoted("\(scheme)://\(authority)")) has no valid host and port", Self.example)
        }
        guard rest[slash...].utf8.allSatisfy({ (0x21...0x7e).contains($0) && !"\"<>\\^`{|}".utf8.contains($0) }) else {
            throw ConfigValueError("has a path with characters that no URL has", Self.example)
        }
        self.path = String(rest[slash...])
        self.text = "\(scheme)://\(rest)"
    }
}

extension ValueFormat where Value == String {
    /// Where traces are sent: a whole URL with its path.
    static let tracesEndpoint = ValueFormat(
        "URL with `http` or `https`, a host and a path",
        parse: { text throws(ConfigValueError) in
            let url = try OTLPEndpointURL(text)
            guard !url.path.isEmpty else {
                throw ConfigValueError(
                    "\(DiagnosticText.quoted(text)) has no path", "write \(DiagnosticText.escaped(url.text))/v1/traces")
            }
            return url.text
        }, render: { $0 })
}
