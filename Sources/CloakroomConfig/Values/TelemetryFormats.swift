import CloakroomCore

extension ValueFormat where Value == OTLPConfiguration.Header {
    /// A header field for the collector: `name=value`. Error messages do not contain the value.
    static let collectorHeader = ValueFormat(
        "`name=value`, the value visible ASCII",
        parse: { text throws(ConfigValueError) in
            guard let equals = text.firstIndex(of: "=") else {
                throw ConfigValueError("must be name=value", "write name=value such as x-api-key=secret")
            }
            let name = text[..<equals]
            guard !name.isEmpty, name.utf8.allSatisfy(\.isTokenCharacter) else {
                throw ConfigValueError(
                    "the part before the equals sign must be a field name",
                    "write letters, digits and hyphens, without spaces")
            }
            guard !ownFields.contains(name.lowercased()) else {
                throw ConfigValueError("\(name) is not supported: the exporter sets it", "leave it out")
            }
            let value = try ValueFormat<Secret>.fieldValue.parse(String(text[text.index(after: equals)...]))
            return OTLPConfiguration.Header(name: String(name), value: value)
        }, render: { "\($0.name)=\($0.value)" })

    /// Fields that describe the encoding of a batch or frame the message.
    private static let ownFields: Set<String> = [
        "connection", "content-encoding", "content-length", "content-type", "expect", "host", "keep-alive", "te",
        "trailer", "transfer-encoding", "upgrade",
    ]
}

extension ValueFormat where Value == TracingConfiguration.ResourceAttribute {
    /// A resource attribute of the process: `name=value`.
    static let resourceAttribute = ValueFormat(
        "`name=value`",
        parse: { text throws(ConfigValueError) in
            guard let equals = text.firstIndex(of: "=") else {
                throw ConfigValueError(
                    "must be name=value, not \(DiagnosticText.quoted(text))",
                    "write name=value such as deployment.environment.name=production")
            }
            let name = String(text[..<equals])
            let value = String(text[text.index(after: equals)...])
            guard let first = name.utf8.first, first.isLetterOrDigit, name.utf8.count <= 128,
                name.utf8.allSatisfy({ $0.isLetterOrDigit || "._-/".utf8.contains($0) })
            else {
                throw ConfigValueError(
                    "must be the name of an attribute, not \(DiagnosticText.quoted(name))",
                    "write at most 128 letters, digits, dots, underscores, hyphens and slashes, such as k8s.pod.name")
            }
            guard name != ResourceAttributeNames.service else {
                throw ConfigValueError("\(name) conflicts with tracing.serviceName", "write tracing.serviceName")
            }
            guard value.utf8.count <= 1_024, DiagnosticText.escaped(value) == value else {
                throw ConfigValueError(
                    "the value of \(name) must be text of at most 1024 bytes without control characters",
                    "write short plain text")
            }
            return TracingConfiguration.ResourceAttribute(name: name, value: value)
        }, render: { "\($0.name)=\($0.value)" })
}

extension ValueFormat where Value == String {
    /// The name of the service in traces.
    static let serviceName = ValueFormat(
        "text, at most 255 bytes",
        parse: { text throws(ConfigValueError) in
            guard text.utf8.count <= 255 else {
                throw ConfigValueError("must be at most 255 bytes long", "write a short name")
            }
            return try ValueFormat<String>.text.parse(text)
        }, render: { $0 })
}
