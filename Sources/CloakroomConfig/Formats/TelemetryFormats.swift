import CloakroomCore

extension ValueFormat where Value == NamedValue<Secret> {
    /// A header field for the collector: `name=value`. Error messages do not contain the value.
    static let collectorHeader = ValueFormat(
        "`name=value`, the value visible ASCII", render: { "\($0.name)=\($0.value)" }
    ) { text throws(ConfigValueError) in
        guard let equals = text.firstIndex(of: "=") else {
            throw ConfigValueError("must be name=value", "write name=value such as x-api-key=secret")
        }
        let name = text[..<equals]
        try require(
            !name.isEmpty && name.utf8.allSatisfy(\.isTokenCharacter),
            "the part before the equals sign must be a field name", "write letters, digits and hyphens, without spaces")
        try require(
            !ownFields.contains(name.lowercased()), "\(name) is not supported: the exporter sets it", "leave it out")
        let value = try ValueFormat<Secret>.fieldValue.parse(String(text[text.index(after: equals)...]))
        return NamedValue<Secret>(name: String(name), value: value)
    }

    /// Fields that describe the encoding of a batch or frame the message.
    private static let ownFields: Set<String> = [
        "connection", "content-encoding", "content-length", "content-type", "expect", "host", "keep-alive", "te",
        "trailer", "transfer-encoding", "upgrade",
    ]
}

extension ValueFormat where Value == NamedValue<String> {
    /// A resource attribute of the process: `name=value`.
    static let resourceAttribute = ValueFormat("`name=value`", render: { "\($0.name)=\($0.value)" }) {
        text throws(ConfigValueError) in
        guard let equals = text.firstIndex(of: "=") else {
            throw ConfigValueError(
                "must be name=value, not \(text.quoted)",
                "write name=value such as deployment.environment.name=production")
        }
        let name = String(text[..<equals])
        let value = String(text[text.index(after: equals)...])
        try require(
            name.utf8.first?.isLetterOrDigit == true && name.utf8.count <= 128
                && name.consists(ofLettersDigitsOr: "._-/"), "must be the name of an attribute, not \(name.quoted)",
            "write at most 128 letters, digits, dots, underscores, hyphens and slashes, such as k8s.pod.name")
        try require(
            name != ResourceAttributeNames.service, "\(name) conflicts with tracing.serviceName",
            "write tracing.serviceName")
        try require(
            value.utf8.count <= 1_024 && value.escaped == value,
            "the value of \(name) must be text of at most 1024 bytes without control characters",
            "write short plain text")
        return NamedValue<String>(name: name, value: value)
    }
}

extension ValueFormat where Value == String {
    /// The name of the service in traces.
    static let serviceName = ValueFormat("text, at most 255 bytes") { text throws(ConfigValueError) in
        try require(text.utf8.count <= 255, "must be at most 255 bytes long", "write a short name")
        return try ValueFormat<String>.text.parse(text)
    }
}

/// The URL of a collector: `http` or `https`, a host, an optional port, and a path. Error messages omit parts that may
/// contain a secret: the whole URL if it has a user or a query, otherwise everything after the host.
struct OTLPEndpointURL {
    /// The whole URL, scheme in lower case.
    let text: String
    /// The path after host and port: empty, or beginning with a slash.
    let path: String

    private static let example = "write one such as http://collector:4318/v1/traces"

    init(_ text: String) throws(ConfigValueError) {
        try require(!text.contains("@"), "must be a URL without user and password", "put them into headers")
        // A query may contain a key.
        try require(
            !text.contains("?") && !text.contains("#"), "must be a URL without query and fragment", Self.example)
        guard let end = text.firstRange(of: "://") else {
            throw ConfigValueError("must be a URL", Self.example)
        }
        let scheme = text[..<end.lowerBound].lowercased()
        try require(scheme == "http" || scheme == "https", "must be an http or https URL", Self.example)
        let rest = text[end.upperBound...]
        let slash = rest.firstIndex(of: "/") ?? rest.endIndex
        let authority = rest[..<slash]
        guard HostAndPort(connecting: authority, usualPort: 80) != nil else {
            throw ConfigValueError("\("\(scheme)://\(authority)".quoted) must have a valid host and port", Self.example)
        }
        try require(
            rest[slash...].utf8.allSatisfy({ (0x21...0x7e).contains($0) && !"\"<>\\^`{|}".utf8.contains($0) }),
            "must be a URL with valid characters in its path", Self.example)
        self.path = String(rest[slash...])
        self.text = "\(scheme)://\(rest)"
    }
}

extension ValueFormat where Value == String {
    /// The endpoint for traces: a complete URL with its path.
    static let tracesEndpoint = ValueFormat("URL with `http` or `https`, a host and a path") {
        text throws(ConfigValueError) in
        let url = try OTLPEndpointURL(text)
        try require(
            !url.path.isEmpty, "must be a URL with a path, not \(text.quoted)", "write \(url.text.escaped)/v1/traces")
        return url.text
    }
}

/// Comma-separated `name=value` pairs with percent-encoded values: the notation of OpenTelemetry variables for headers
/// and resource attributes (W3C Baggage without properties).
enum KeyValueList {
    /// Parses the pairs in order. Empty items are ignored.
    /// - Parameter areNamesEncoded: Whether names are percent-encoded too, as those of resource attributes may be.
    /// - Throws: ``ConfigValueError`` if an item is not a pair or cannot be decoded. The message does not repeat the text, which
    ///   may contain a secret.
    static func parse(_ text: String, areNamesEncoded: Bool) throws(ConfigValueError) -> [(name: String, value: String)]
    {
        var pairs: [(name: String, value: String)] = []
        for (index, item) in text.split(separator: ",", omittingEmptySubsequences: false).enumerated() {
            guard !item.allSatisfy(\.isWhitespace) else { continue }
            guard let equals = item.firstIndex(of: "=") else {
                throw ConfigValueError("item \(index + 1) must be name=value", "write name=value, name=value")
            }
            let name = trimmed(item[..<equals])
            guard let value = decoded(trimmed(item[item.index(after: equals)...])),
                let plainName = areNamesEncoded ? decoded(name) : name
            else {
                throw ConfigValueError(
                    "item \(index + 1) must be percent-encoded",
                    "write %25 for a percent sign, %2C for a comma and %20 for a blank, all in UTF-8")
            }
            pairs.append((plainName, value))
        }
        return pairs
    }

    /// The text without leading and trailing spaces and tabs.
    static func trimmed(_ text: Substring) -> String {
        let start = text.trimmingPrefix(while: \.isWhitespace)
        let count = start.reversed().prefix(while: \.isWhitespace).count
        return String(start.dropLast(count))
    }

    /// Decodes percent-encoding; `nil` if a `%` is not followed by two hexadecimal digits or the result is not UTF-8.
    private static func decoded(_ text: String) -> String? {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            let digits = rest.prefix(2)
            guard digits.count == 2, let hex = String(validating: digits, as: UTF8.self), hex.allSatisfy(\.isHexDigit),
                let value = UInt8(hex, radix: 16)
            else { return nil }
            bytes.append(value)
            rest = rest.dropFirst(2)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
