/// One header field as it came in: the name as it was spelled, the value without white space around it.
public struct RecordedHeader: Sendable, Hashable, Codable, CustomStringConvertible, CustomReflectable {
    /// The name as the sender spelled it.
    public let name: String
    /// The value.
    public let value: String

    /// A field with this name and value.
    public init(name: String, value: String) {
        self.name = name
        self.value = value
    }

    /// The field; for names that carry credentials `<redacted>` stands for the value.
    public var description: String {
        let folded = name.lowercased().replacing("_", with: "-")
        let isSecret = ["authorization", "proxy-authorization", "cookie", "x-api-token"].contains(folded)
        return "\(name): \(isSecret ? "<redacted>" : value)"
    }

    /// A mirror without children, as the value may be a secret.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// One request as the mock saw it, whatever it answered.
public struct RecordedRequest: Sendable, Hashable, Codable {
    /// The method, upper case as sent.
    public let method: String
    /// The path as sent, before the first `?`, nothing decoded.
    public let path: String
    /// What came after the first `?`, nothing decoded; nothing without a `?`.
    public let query: String?
    /// Every field in the order received, repeated ones repeated. Only `Host` always comes first and spelled so,
    /// as the HTTP library below keeps it apart; a second `Host` stands in its place.
    public let headers: [RecordedHeader]

    /// A request with these parts.
    public init(method: String, path: String, query: String?, headers: [RecordedHeader]) {
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
    }

    /// The values of all fields of that name, whatever the case, in the order received.
    public func values(of name: String) -> [String] {
        let wanted = name.lowercased()
        return headers.filter { $0.name.lowercased() == wanted }.map(\.value)
    }
}
