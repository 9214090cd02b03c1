import HTTPTypes

/// The credentials after the scheme in the single `Authorization` field of a request (RFC 9110 §11.4).
enum AuthorizationCredentials {
    /// `nil` if there is no such field, more than one, or one of another scheme.
    ///
    /// Two fields are rejected rather than joined, to detect a proxy that adds a field instead of replacing it.
    static func read(from fields: HTTPFields, scheme: String) -> Substring? {
        var values = fields[values: .authorization].makeIterator()
        guard let value = values.next(), values.next() == nil else { return nil }
        guard let space = value.firstIndex(of: " "), value[..<space].lowercased() == scheme else { return nil }
        let credentials = value[space...].drop { $0 == " " }
        return credentials.isEmpty ? nil : credentials
    }
}
