import CloakroomCore

extension CrossSiteConfiguration: ConfigSection {
    /// `csrf` and `cors`.
    static let keys: [Key<Self>] = [
        Key { $1.trustedOrigins = $0.sectionWithDefaults("csrf").list("trustedOrigins", as: .origin) ?? [] },
        Key { $1.requiredField = RequiredField(from: $0.sectionWithDefaults("csrf").section("requireHeader")) },
        Key { $1.corsOrigins = $0.sectionWithDefaults("cors").list("origins", as: .origin) ?? [] },
    ]
}

extension CrossSiteConfiguration.RequiredField {
    fileprivate init?(from scope: ConfigScope) {
        let name = scope.required("name", as: Self.nameFormat)
        let value = scope.required("value", as: Self.valueFormat)
        guard let name, let value else { return nil }
        self.init(name: name, value: value)
    }

    /// Fields that any site can set without a preflight, or that browsers set themselves (Fetch standard,
    /// CORS-safelisted and forbidden request headers). Requiring one of them gives no CSRF protection.
    private static let ineffectiveFields: Set<String> = [
        "accept", "accept-charset", "accept-encoding", "accept-language", "authorization", "connection",
        "content-language", "content-length", "content-type", "cookie", "date", "dnt", "expect", "host", "keep-alive",
        "origin", "range", "referer", "te", "trailer", "transfer-encoding", "upgrade", "user-agent", "via",
    ]

    private static let nameFormat = ValueFormat(
        "name of a field",
        parse: { text throws(ConfigValueError) in
            let name = try ValueFormat<String>.token.parse(text)
            let lower = name.lowercased()
            guard !ineffectiveFields.contains(lower), !lower.hasPrefix("sec-"), !lower.hasPrefix("proxy-") else {
                throw ConfigValueError(
                    "\(name) can be set by cross-site requests and gives no CSRF protection",
                    "write a custom field such as X-CSRF")
            }
            return name
        }, render: { $0 })

    private static let valueFormat = ValueFormat(
        "visible ASCII without blanks",
        parse: { text throws(ConfigValueError) in
            guard !text.isEmpty, text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
                throw ConfigValueError(
                    "must be visible ASCII, not \(DiagnosticText.quoted(text))", "write a word such as 1")
            }
            return text
        }, render: { $0 })
}
