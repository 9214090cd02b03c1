import HTTPTypes

/// What follows the scheme in the one `Authorization` field of a request (RFC 9110 §11.4).
enum AuthorizationCredentials {
    /// Nothing when there is no such field, more than one, or one of another scheme.
    ///
    /// Two fields are refused and not joined: a proxy that adds one instead of setting it must not go unnoticed.
    static func read(from fields: HTTPFields, scheme: String) -> Substring? {
        var values = fields[values: .authorization].makeIterator()
        guard let value = values.next(), values.next() == nil else { return nil }
        guard let space = value.firstIndex(of: " "), value[..<space].lowercased() == scheme else { return nil }
        let credentials = value[space...].drop { $0 == " " }
        return credentials.isEmpty ? nil : credentials
    }
}
