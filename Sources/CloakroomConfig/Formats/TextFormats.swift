import CloakroomCore

extension ValueFormat where Value == String {
    /// Any non-empty text.
    static let text = ValueFormat("text") { text throws(ConfigValueError) in
        try require(!text.isEmpty, "must not be empty", "write a value")
        try require(text.escaped == text, "must be text without control characters", "write plain text on one line")
        return text
    }

    /// Text that meets a condition.
    /// - Parameters:
    ///   - demand: What it must be: `a token`.
    ///   - remedy: What to write instead.
    static func text(
        _ expectation: String, mustBe demand: String, _ remedy: String, _ isValid: @escaping @Sendable (String) -> Bool
    ) -> Self {
        ValueFormat(expectation) { text throws(ConfigValueError) in
            try require(isValid(text), "must be \(demand), not \(text.quoted)", remedy)
            return text
        }
    }

    /// The name of a route: letters, digits and `._-`, at most 64.
    static let name = text(
        "name: letters, digits, dots, hyphens and underscores, at most 64", mustBe: "a name",
        "write at most 64 letters, digits, dots, hyphens and underscores, a letter or digit first"
    ) {
        $0.utf8.first?.isLetterOrDigit == true && $0.utf8.count <= 64 && $0.consists(ofLettersDigitsOr: "._-")
    }

    static let method = ValueFormat("method, upper case") { text throws(ConfigValueError) in
        try require(
            !text.isEmpty && text.utf8.allSatisfy(\.isTokenCharacter), "must be a method, not \(text.quoted)",
            "write one such as GET")
        try require(
            text != "*", "must be a method, not *", "list them, such as [GET, POST, PUT, PATCH, DELETE, OPTIONS]")
        try require(text == text.uppercased(), "must be upper case, not \(text.quoted)", "write \(text.uppercased())")
        try require(text != "CONNECT" && text != "TRACE", "\(text) is not supported", "leave it out")
        return text
    }

    /// The name of a field or a cookie (RFC 9110 §5.6.2).
    static let token = text("token", mustBe: "a token", "write letters, digits and hyphens, without spaces") {
        !$0.isEmpty && $0.utf8.allSatisfy(\.isTokenCharacter)
    }

    /// A request field that is stripped unless a route lists it.
    static let spoofableField = ValueFormat("name of a request field that is removed otherwise") {
        text throws(ConfigValueError) in
        let name = try ValueFormat<String>.token.parse(text)
        try require(
            name.lowercased() != "x-client-cert-subject", "\(name) is not supported: the gateway sets it",
            "leave it out")
        try require(
            SpoofableFields.contains(name), "must be a field that a route can pass, not \(name)",
            "leave it out, or write one such as X-HTTP-Method-Override")
        return name
    }

    /// The path of an upstream call, without a query.
    static let path = ValueFormat("path without a query") { text throws(ConfigValueError) in
        for segment in try ValueFormat<PathPattern>.pattern.parse(text).segments {
            if case .literal = segment { continue }
            throw ConfigValueError(
                "must be a path without parameters and wildcards, not \(text.quoted)",
                "write a plain path such as /auth")
        }
        return text
    }

    /// A path in a JSON document: member names joined by dots.
    static let members = ValueFormat("member names joined by dots") { text throws(ConfigValueError) in
        let names = text.split(separator: ".", omittingEmptySubsequences: false)
        let isPath = names.allSatisfy { !$0.isEmpty && $0.first != " " && $0.last != " " } && text.escaped == text
        // A JSONPath or a JSON Pointer, an item of a list, and a lifetime in place of its name, would never be found.
        let hasItem = text.contains(/\[[0-9*]/)
        guard isPath, !text.hasPrefix("$."), !text.hasPrefix("/"), !hasItem, Int(text) == nil else {
            try require(
                Int(text) == nil, "must be the name of a member, not \(text.quoted)",
                "write the name that the response has")
            let bare = text.drop { "$./".contains($0) }.replacing("/", with: ".")
            let isOther = bare != text && !bare.isEmpty && !hasItem && text.escaped == text
            throw ConfigValueError(
                "must be a path of member names, not \(text.quoted)",
                isOther ? "write \(bare)" : "write one such as data.accessToken")
        }
        return text
    }
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
        self.init(error.description.escaped, "")
    }
}
