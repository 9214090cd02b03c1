import CloakroomCore

extension ValueFormat where Value == String {
    /// Any non-empty text.
    static let text = ValueFormat(
        "text",
        parse: { text throws(ConfigValueError) in
            guard !text.isEmpty else { throw ConfigValueError("must not be empty", "write a value") }
            guard DiagnosticText.escaped(text) == text else {
                throw ConfigValueError("must be text without control characters", "write plain text on one line")
            }
            return text
        }, render: { $0 })

    /// The name of a route: letters, digits and `._-`, at most 64.
    static let name = ValueFormat(
        "name: letters, digits, dots, hyphens and underscores, at most 64",
        parse: { text throws(ConfigValueError) in
            guard let first = text.utf8.first, first.isLetterOrDigit, text.utf8.count <= 64,
                text.utf8.allSatisfy({ $0.isLetterOrDigit || "._-".utf8.contains($0) })
            else {
                throw ConfigValueError(
                    "must be a name, not \(DiagnosticText.quoted(text))",
                    "write at most 64 letters, digits, dots, hyphens and underscores, a letter or digit first")
            }
            return text
        }, render: { $0 })

    /// A method, upper case.
    static let method = ValueFormat(
        "method, upper case",
        parse: { text throws(ConfigValueError) in
            guard !text.isEmpty, text.utf8.allSatisfy(\.isTokenCharacter) else {
                throw ConfigValueError("must be a method, not \(DiagnosticText.quoted(text))", "write one such as GET")
            }
            guard text != "*" else {
                throw ConfigValueError(
                    "must be a method, not *", "list them, such as [GET, POST, PUT, PATCH, DELETE, OPTIONS]")
            }
            guard text == text.uppercased() else {
                throw ConfigValueError(
                    "must be upper case, not \(DiagnosticText.quoted(text))", "write \(text.uppercased())")
            }
            guard text != "CONNECT", text != "TRACE" else {
                throw ConfigValueError("\(text) is not supported", "leave it out")
            }
            return text
        }, render: { $0 })

    /// The name of a field or a cookie (RFC 9110 §5.6.2).
    static let token = ValueFormat(
        "token",
        parse: { text throws(ConfigValueError) in
            guard !text.isEmpty, text.utf8.allSatisfy(\.isTokenCharacter) else {
                throw ConfigValueError(
                    "must be a token, not \(DiagnosticText.quoted(text))",
                    "write letters, digits and hyphens, without spaces")
            }
            return text
        }, render: { $0 })

    /// A request field that is stripped unless a route lists it.
    static let spoofableField = ValueFormat(
        "name of a request field that is removed otherwise",
        parse: { text throws(ConfigValueError) in
            let name = try ValueFormat<String>.token.parse(text)
            guard name.lowercased() != "x-client-cert-subject" else {
                throw ConfigValueError("\(name) is not supported: the gateway sets it", "leave it out")
            }
            guard SpoofableFields.contains(name) else {
                throw ConfigValueError(
                    "must be a field that a route can pass, not \(name)",
                    "leave it out, or write one such as X-HTTP-Method-Override")
            }
            return name
        }, render: { $0 })

    /// The path of an upstream call, without a query.
    static let path = ValueFormat(
        "path without a query",
        parse: { text throws(ConfigValueError) in
            for segment in try ValueFormat<PathPattern>.pattern.parse(text).segments {
                if case .literal = segment { continue }
                throw ConfigValueError(
                    "must be a path without parameters and wildcards, not \(DiagnosticText.quoted(text))",
                    "write a plain path such as /auth")
            }
            return text
        }, render: { $0 })

    /// A path in a JSON document: member names joined by dots.
    static let members = ValueFormat(
        "member names joined by dots",
        parse: { text throws(ConfigValueError) in
            let names = text.split(separator: ".", omittingEmptySubsequences: false)
            guard names.allSatisfy({ !$0.isEmpty }), DiagnosticText.escaped(text) == text else {
                throw ConfigValueError(
                    "must be a path of member names, not \(DiagnosticText.quoted(text))",
                    "write one such as data.accessToken")
            }
            return text
        }, render: { $0 })
}

extension ValueFormat where Value == PathPattern {
    /// The paths that a route serves.
    static let pattern = ValueFormat("path pattern") { text throws(ConfigValueError) in
        do throws(PathPatternError) {
            return try PathPattern(text)
        } catch {
            throw ConfigValueError(pattern: error)
        }
    }
}

extension ConfigValueError {
    /// The message of the pattern error, which includes its suggestion.
    init(pattern error: PathPatternError) {
        self.init(DiagnosticText.escaped(error.description), "")
    }
}
