public import FoundationEssentials

/// Somebody who can sign in to the mock.
public struct MockUser: Sendable, Redacted {
    /// What the user signs in with; compared without regard to case.
    public var email: String
    /// The password, any text; compared byte by byte in UTF-8.
    public var password: String
    /// The name that `GET /user` shows.
    public var name: String
    /// Whether `GET /user` calls the user new.
    public var isNewUser: Bool
    /// When the account was made, whole seconds.
    public var createdAt: Date

    /// An account; `createdAt` is 15 January 2025, 09:30 UTC unless something else is said.
    public init(
        email: String,
        password: String,
        name: String,
        isNewUser: Bool = false,
        createdAt: Date = Date(timeIntervalSince1970: 1_736_933_400)
    ) {
        self.email = email
        self.password = password
        self.name = name
        self.isNewUser = isNewUser
        self.createdAt = createdAt
    }
}
