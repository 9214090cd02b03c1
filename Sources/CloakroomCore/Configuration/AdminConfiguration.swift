/// The admin listener.
public struct AdminConfiguration: Sendable, Equatable {
    /// What requires the token.
    public enum TokenScope: String, Sendable, Hashable, CaseIterable {
        /// Only what changes state: ending sessions.
        case actions
        /// Everything but `/live` and `/ready`, which orchestrators request without credentials.
        case everything
    }

    /// The address to listen on, loopback by default.
    public var address: HostAndPort
    /// The token that operators send (`Authorization: Bearer`); `nil` disables ending sessions.
    public var token: Secret?
    /// What requires the token. With ``TokenScope/everything`` and no token, only `/live` and `/ready` are served.
    public var tokenScope: TokenScope
    /// Host names that a request may be sent to, in lower case, besides IP addresses, `localhost` and the name in
    /// ``address``.
    public var allowedHosts: [String]
    /// The certificates of the listener; `nil` serves clear text. With optional client certificates, a client without one
    /// can only request `/live` and `/ready`.
    public var tls: ListenerTLSConfiguration?

    /// Creates the configuration of the admin listener.
    public init(
        address: HostAndPort = HostAndPort(host: "127.0.0.1", port: 9464), token: Secret? = nil,
        tokenScope: TokenScope = .actions, allowedHosts: [String] = [], tls: ListenerTLSConfiguration? = nil
    ) {
        self.address = address
        self.token = token
        self.tokenScope = tokenScope
        self.allowedHosts = allowedHosts
        self.tls = tls
    }
}
