/// Where a session was signed in from, for the list that its user sees. Nothing is ever decided by it.
public struct SessionClientInfo: Sendable, Equatable {
    /// The peer's address without port; at most 255 bytes are kept.
    public var peer: String
    /// What kind of user agent it was.
    public var userAgent: UserAgentFamily

    /// Makes a client.
    public init(peer: String = "", userAgent: UserAgentFamily = .other) {
        self.peer = peer
        self.userAgent = userAgent
    }
}

/// The kind of a user agent, as well as its `User-Agent` field (RFC 9110 §10.1.5) tells it: enough for a person to know
/// their own again, and nothing that would tell two people apart.
public enum UserAgentFamily: UInt8, Sendable, Hashable, CaseIterable {
    /// None of those below, or no field. The raw values stand in stored records: never reuse one.
    case other = 0
    case firefox = 1
    case chrome = 2
    case safari = 3
    case edge = 4
    case opera = 5
    case curl = 6
    case okhttp = 7
    case cfNetwork = 8
    case python = 9

    /// What a user reads.
    public var name: String {
        switch self {
        case .other: "Other"
        case .firefox: "Firefox"
        case .chrome: "Chrome"
        case .safari: "Safari"
        case .edge: "Edge"
        case .opera: "Opera"
        case .curl: "curl"
        case .okhttp: "Android app"
        case .cfNetwork: "Apple app"
        case .python: "Python"
        }
    }

    /// Reads the value of a `User-Agent` field. The order counts: most browsers name others too.
    public init(userAgent: String) {
        let summary: [(String, UserAgentFamily)] = [
            ("Edg", .edge), ("OPR/", .opera), ("Firefox/", .firefox), ("FxiOS/", .firefox), ("CriOS/", .chrome),
            ("Chrome/", .chrome), ("CFNetwork/", .cfNetwork), ("Safari/", .safari), ("okhttp/", .okhttp),
            ("curl/", .curl), ("python", .python), ("Python", .python),
        ]
        let text = userAgent.utf8
        self = summary.first { Self.contains(text, $0.0.utf8) }?.1 ?? .other
    }

    private static func contains(_ text: String.UTF8View, _ mark: String.UTF8View) -> Bool {
        var rest = text[...]
        while rest.count >= mark.count {
            if rest.starts(with: mark) { return true }
            rest = rest.dropFirst()
        }
        return false
    }
}
