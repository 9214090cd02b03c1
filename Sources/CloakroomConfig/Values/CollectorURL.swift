import CloakroomCore

/// The URL of a collector: `http` or `https`, a host, an optional port, and a path. Error messages omit parts that may
/// contain a secret: the whole URL if it has a user or a query, otherwise everything after the host.
struct OTLPEndpointURL {
    /// The whole URL, scheme in lower case.
    let text: String
    /// The path after host and port: empty, or beginning with a slash.
    let path: String

    private static let example = "write one such as http://collector:4318/v1/traces"

    init(_ text: String) throws(ConfigValueError) {
        guard !text.contains("@") else {
            throw ConfigValueError("must be a URL without user and password", "put them into headers")
        }
        // A query may contain a key.
        guard !text.contains("?"), !text.contains("#") else {
            throw ConfigValueError("must be a URL without query and fragment", Self.example)
        }
        guard let end = text.firstRange(of: "://") else {
            throw ConfigValueError("must be a URL", Self.example)
        }
        let scheme = text[..<end.lowerBound].lowercased()
        guard scheme == "http" || scheme == "https" else {
            throw ConfigValueError("must be an http or https URL", Self.example)
        }
        let rest = text[end.upperBound...]
        let slash = rest.firstIndex(of: "/") ?? rest.endIndex
        let authority = rest[..<slash]
        let hasPort = (authority.lastIndex(of: "]").map { authority[$0...] } ?? authority).contains(":")
        guard let address = HostAndPort(hasPort ? String(authority) : "\(authority):80"), !address.host.isEmpty,
            HostAndPort.isHost(address.host), address.port > 0
        else {
            throw ConfigValueError(
                "\(DiagnosticText.quoted("\(scheme)://\(authority)")) must have a valid host and port", Self.example)
        }
        guard rest[slash...].utf8.allSatisfy({ (0x21...0x7e).contains($0) && !"\"<>\\^`{|}".utf8.contains($0) }) else {
            throw ConfigValueError("must be a URL with valid characters in its path", Self.example)
        }
        self.path = String(rest[slash...])
        self.text = "\(scheme)://\(rest)"
    }
}

extension ValueFormat where Value == String {
    /// The endpoint for traces: a complete URL with its path.
    static let tracesEndpoint = ValueFormat(
        "URL with `http` or `https`, a host and a path",
        parse: { text throws(ConfigValueError) in
            let url = try OTLPEndpointURL(text)
            guard !url.path.isEmpty else {
                throw ConfigValueError(
                    "must be a URL with a path, not \(DiagnosticText.quoted(text))",
                    "write \(DiagnosticText.escaped(url.text))/v1/traces")
            }
            return url.text
        }, render: { $0 })
}
