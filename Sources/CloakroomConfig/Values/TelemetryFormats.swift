import CloakroomCore

extension ValueFormat where Value == OTLPConfiguration.Header {
    /// A field for the collector: `name=value`. What is wrong with it is told without repeating the value.
    static let collectorHeader = ValueFormat(
        "`name=value`, the value visible ASCII",
        parse: { text throws(ConfigValueError) in
            guard let equals = text.firstIndex(of: "=") else {
                throw ConfigValueError("has no equals sign", "write name=value such as x-api-key=secret")
            }
            let name = text[..<equals]
            guard !name.isEmpty, name.utf8.allSatisfy(\.isTokenCharacter) else {
                throw ConfigValueError(
                    "what stands before the equals sign is not the name of a field",
                    "write letters, digits and hyphens, without spaces")
            }
            guard !ownFields.contains(name.lowercased()) else {
                throw ConfigValueError("\(name) is the exporter's own to write", "leave it out")
            }
            let value = try ValueFormat<Secret>.fieldValue.parse(String(text[text.index(after: equals)...]))
            return OTLPConfiguration.Header(name: String(name), value: value)
        }, render: { "\($0.name)=\($0.value)" })

    /// Fields that say how a batch is written or that frame the message.
    private static let ownFields: Set<String> = [
        "connection", "content-encoding", "content-length", "content-type", "expect", "host", "keep-alive", "te",
        "trailer", "transfer-encoding", "upgrade",
    ]
}

extension ValueFormat where Value == TracingConfiguration.ResourceAttribute {
    /// An attribute of all spans of the process: `name=value`.
    static let resourceAttribute = ValueFormat(
        "`name=value`",
        parse: { text throws(ConfigValueError) in
            guard let equals = text.firstIndex(of: "=") else {
                throw ConfigValueError(
                    "\(DiagnosticText.quoted(text)) has no equals sign",
                    "write name=value such as deployment.environment.name=production")
            }
            let name = String(text[..<equals])
            let value = String(text[text.index(after: equals)...])
            guard let first = name.utf8.first, first.isLetterOrDigit, name.utf8.count <= 128,
                name.utf8.allSatisfy({ $0.isLetterOrDigit || "._-/".utf8.contains($0) })
            else {
                throw ConfigValueError(
                    "\(DiagnosticText.quoted(name)) is not the name of an attribute",
                    "write at most 128 letters, digits, dots, underscores, hyphens and slashes, such as k8s.pod.name")
            }
            guard name != ResourceAttributeNames.service else {
                throw ConfigValueError("\(name) has a key of its own", "write tracing.serviceName")
            }
            guard value.utf8.count <= 1_024, DiagnosticText.escaped(value) == value else {
                throw ConfigValueError(
                    "the value of \(name) holds control characters or is longer than 1024 bytes",
                    "write short plain text")
            }
            return TracingConfiguration.ResourceAttribute(name: name, value: value)
        }, render: { "\($0.name)=\($0.value)" })
}

extension ValueFormat where Value == String {
    /// What a program is called in traces.
    static let serviceName = ValueFormat(
        "text, at most 255 bytes",
        parse: { text throws(ConfigValueError) in
            guard text.utf8.count <= 255 else {
                throw ConfigValueError("is longer than 255 bytes", "write a short name")
            }
            return try ValueFormat<String>.text.parse(text)
        }, render: { $0 })
}
