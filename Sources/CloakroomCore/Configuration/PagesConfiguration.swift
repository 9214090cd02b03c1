/// The pages that the gateway shows to users: to sign in and, if enabled, to report problems.
public struct PagesConfiguration: Sendable, Equatable {
    /// The defaults of all keys.
    public static let defaults = Self()

    /// Whether users who navigate get pages in place of problem documents.
    public var errors = false
    /// The name of the site: at most 64 characters; `nil` for none.
    public var name: String?
    /// The image above the name; `nil` for none.
    public var logo: Logo?
    /// Rules that follow those of the gateway; `nil` for none.
    public var style: Style?

    /// An image of at most 32 KiB.
    public struct Logo: Sendable, Equatable {
        /// The file that it was read from.
        public var file: String
        /// The image as a `data:` URL (RFC 2397).
        public var url: String

        package init(file: String, url: String) {
            self.file = file
            self.url = url
        }
    }

    /// A style sheet of at most 64 KiB.
    public struct Style: Sendable, Equatable {
        /// The file that it was read from.
        public var file: String
        /// The rules, in the form in which browsers hash them: without carriage returns, NUL and `</style`.
        public var text: String
        /// The SHA-256 of the rules in base64.
        public var digest: String

        package init(file: String, text: String, digest: String) {
            self.file = file
            self.text = text
            self.digest = digest
        }
    }
}
