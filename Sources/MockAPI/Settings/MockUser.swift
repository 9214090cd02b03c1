public import FoundationEssentials

/// A user of the mock.
public struct MockUser: Sendable, Redacted {
    /// The e-mail address for sign-in, case-insensitive.
    public var email: String
    /// The password, any text; compared byte by byte in UTF-8.
    public var password: String
    /// The name in `GET /user`.
    public var name: String
    /// Whether `GET /user` calls the user new.
    public var isNewUser: Bool
    /// The creation time of the account, in whole seconds.
    public var createdAt: Date

    /// Creates an account; `createdAt` defaults to 15 January 2025, 09:30 UTC.
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
