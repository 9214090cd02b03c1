public import Foundation

/// A signed-in user and the session.
public struct SignedIn<User: Decodable>: Decodable {
    /// The document of the user, as the API or the identity provider has it.
    public let user: User
    /// The times of the session.
    public let session: CurrentSession
}

extension SignedIn: Sendable where User: Sendable {}
extension SignedIn: Equatable where User: Equatable {}

/// The times of the current session.
public struct CurrentSession: Decodable, Equatable, Sendable {
    /// When the user signed in.
    public let createdAt: Date
    /// The latest end of the session.
    public let expiresAt: Date
    /// The session ends if it is not used for this long.
    public let idleTimeout: Duration

    private enum CodingKeys: String, CodingKey {
        case createdAt, expiresAt
        case idleTimeout = "idleTimeoutSeconds"
    }

    /// Decodes the `session` member of the gateway's document.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        createdAt = try container.decode(Date.self, forKey: .createdAt)
        expiresAt = try container.decode(Date.self, forKey: .expiresAt)
        idleTimeout = .seconds(try container.decode(Int64.self, forKey: .idleTimeout))
    }
}

/// One of the sessions of the user, for a list of places where the user is signed in.
public struct SessionSummary: Decodable, Equatable, Sendable, Identifiable {
    /// The id for ``GatewayClient/endSession(id:)``. It is no secret: it does not sign in.
    public let id: String
    /// When the user signed in.
    public let createdAt: Date
    /// The time of the last recorded use, at most a minute before the last use.
    public let lastUsedAt: Date
    /// The latest end of the session.
    public let expiresAt: Date
    /// The address from which the user signed in.
    public let address: String
    /// The family of the browser or program that signed in; empty if unknown.
    public let userAgent: String
    /// Whether this is the session of the request.
    public let isCurrent: Bool

    private enum CodingKeys: String, CodingKey {
        case id, createdAt, lastUsedAt, expiresAt, address, userAgent
        case isCurrent = "current"
    }
}
