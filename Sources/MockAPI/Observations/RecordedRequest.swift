/// A header field as received: the original spelling of the name, the value without surrounding white space.
public struct RecordedHeader: Sendable, Hashable, Codable, CustomStringConvertible, CustomReflectable {
    /// The name in its original spelling.
    public let name: String
    /// The value.
    public let value: String

    /// Creates a field.
    public init(name: String, value: String) {
        self.name = name
        self.value = value
    }

    /// The field; values of names that carry credentials are printed as `<redacted>`.
    public var description: String {
        let folded = name.lowercased().replacing("_", with: "-")
        let isSecret = ["authorization", "proxy-authorization", "cookie", "x-api-token"].contains(folded)
        return "\(name): \(isSecret ? "<redacted>" : value)"
    }

    /// A mirror without children, because the value may be a secret.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// A request as received, regardless of its response.
public struct RecordedRequest: Sendable, Hashable, Codable {
    /// The method, upper case as sent.
    public let method: String
    /// The path as sent, before the first `?`, nothing decoded.
    public let path: String
    /// The part after the first `?`, not decoded; `nil` without a `?`.
    public let query: String?
    /// All fields in the order received, including repeated ones. `Host` always comes first in this spelling, because
    /// the HTTP library stores it separately; a second `Host` replaces it.
    public let headers: [RecordedHeader]

    /// Creates a request.
    public init(method: String, path: String, query: String?, headers: [RecordedHeader]) {
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
    }

    /// The values of all fields with this name, case-insensitive, in the order received.
    public func values(of name: String) -> [String] {
        let wanted = name.lowercased()
        return headers.filter { $0.name.lowercased() == wanted }.map(\.value)
    }
}
