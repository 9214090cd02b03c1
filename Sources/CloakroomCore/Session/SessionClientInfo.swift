/// The client that signed in, for the session list of the user and for logs. No decision depends on it.
public struct SessionClientInfo: Sendable, Equatable {
    /// The peer's address without port; at most 255 bytes are kept.
    public var peer: String
    /// The family of the user agent.
    public var userAgent: UserAgentFamily
    /// The name of the app that the session was created for; `nil` for none.
    public var app: String?

    package init(peer: String = "", userAgent: UserAgentFamily = .other, app: String? = nil) {
        self.peer = peer
        self.userAgent = userAgent
        self.app = app
    }
}

/// The family of a user agent, according to its `User-Agent` field (RFC 9110 §10.1.5). It lets users recognize their
/// own sessions but does not identify an individual client.
public enum UserAgentFamily: UInt8, Sendable, Hashable, CaseIterable {
    /// None of the families below, or no field. The raw values are part of stored records: never reuse one.
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

    /// The name shown to users.
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

    /// Parses the value of a `User-Agent` field. The order matters: most browsers also name others.
    public init(userAgent: String) {
        let summary: [(String, UserAgentFamily)] = [
            ("Edg", .edge), ("OPR/", .opera), ("Firefox/", .firefox), ("FxiOS/", .firefox), ("CriOS/", .chrome),
            ("Chrome/", .chrome), ("CFNetwork/", .cfNetwork), ("Safari/", .safari), ("okhttp/", .okhttp),
            ("curl/", .curl), ("python", .python), ("Python", .python),
        ]
        let text = Array(userAgent.utf8)
        self = summary.first { Self.contains(text, $0.0.utf8) }?.1 ?? .other
    }

    private static func contains(_ text: [UInt8], _ mark: String.UTF8View) -> Bool {
        text.indices.contains { text[$0] == mark.first && text[$0...].starts(with: mark) }
    }
}
