/// Protection against requests that other sites make browsers send.
public struct CrossSiteConfiguration: Sendable, Equatable {
    /// Other origins from which unsafe requests with a cookie are accepted: `https://host` or `https://host:port`, as
    /// browsers write them (RFC 6454 §6.2).
    public var trustedOrigins: [String]
    /// A static field that every request with a session cookie must contain; `nil` for none. Other sites cannot set it
    /// without a preflight (the Fetch standard, CORS-preflight).
    public var requiredField: RequiredField?
    /// Origins whose pages may read responses, cookies included; empty disables CORS. Trusted for unsafe requests too.
    public var corsOrigins: [String]
    /// How long a browser may cache a preflight response, 0 to 24 hours.
    public var corsMaxAge: Duration

    /// A field and its value.
    public struct RequiredField: Sendable, Equatable {
        /// The name: a token (RFC 9110 §5.6.2).
        public var name: String
        /// The value: visible ASCII.
        public var value: String

        /// Creates a field.
        public init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    /// Creates a configuration.
    public init(
        trustedOrigins: [String] = [], requiredField: RequiredField? = nil, corsOrigins: [String] = [],
        corsMaxAge: Duration = .seconds(600)
    ) {
        self.trustedOrigins = trustedOrigins
        self.requiredField = requiredField
        self.corsOrigins = corsOrigins
        self.corsMaxAge = corsMaxAge
    }
}
