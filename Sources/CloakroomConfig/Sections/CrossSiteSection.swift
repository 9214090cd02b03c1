import CloakroomCore

extension CrossSiteConfiguration: ConfigSection {
    /// `csrf` and `cors`.
    static let keys: [Key<Self>] = [
        Key { $1.trustedOrigins = $0.sectionWithDefaults("csrf").list("trustedOrigins", as: .origin) ?? [] },
        Key { $1.requiredField = $0.sectionWithDefaults("csrf").optional("requireHeader", as: .requiredField) },
        Key { $1.corsOrigins = $0.sectionWithDefaults("cors").list("origins", as: .origin) ?? [] },
    ]
}

extension ValueFormat where Value == NamedValue<String> {
    /// Fields that any site can set without a preflight, or that browsers set themselves (Fetch standard,
    /// CORS-safelisted and forbidden request headers). Requiring one of them gives no CSRF protection.
    private static let ineffectiveFields: Set<String> = [
        "accept", "accept-charset", "accept-encoding", "accept-language", "authorization", "connection",
        "content-language", "content-length", "content-type", "cookie", "date", "dnt", "expect", "host", "keep-alive",
        "origin", "range", "referer", "te", "trailer", "transfer-encoding", "upgrade", "user-agent", "via",
    ]

    fileprivate static let requiredField = ValueFormat(
        "`name=value`, the value visible ASCII without blanks", render: { "\($0.name)=\($0.value)" }
    ) { text throws(ConfigValueError) in
        let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        try require(parts.count == 2, "must be name=value, not \(text.quoted)", "write one such as X-CSRF=1")
        let name = try ValueFormat<String>.token.parse(parts[0])
        let lower = name.lowercased()
        try require(
            !ineffectiveFields.contains(lower) && !lower.hasPrefix("sec-") && !lower.hasPrefix("proxy-"),
            "\(name) can be set by cross-site requests and gives no CSRF protection",
            "write a custom field such as X-CSRF=1")
        try require(
            !parts[1].isEmpty && parts[1].utf8.allSatisfy({ (0x21...0x7e).contains($0) }),
            "must have a value of visible ASCII, not \(parts[1].quoted)", "write a word such as 1")
        return Value(name: name, value: parts[1])
    }
}
