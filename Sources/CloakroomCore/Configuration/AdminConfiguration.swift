/// The admin listener.
public struct AdminConfiguration: Sendable, Equatable {
    /// What requires the token.
    public enum TokenScope: String, Sendable, Hashable, CaseIterable {
        /// Only what changes state: ending sessions.
        case actions
        /// Everything but `/live` and `/ready`, which orchestrators request without credentials.
        case everything
    }

    /// The defaults of all keys.
    public static let defaults = Self()

    /// The address to listen on, loopback by default.
    public var address = HostAndPort(host: "127.0.0.1", port: 9464)
    /// The token that operators send (`Authorization: Bearer`); `nil` disables ending sessions.
    public var token: Secret?
    /// What requires the token. With ``TokenScope/everything`` and no token, only `/live` and `/ready` are served.
    public var tokenScope: TokenScope = .actions
    /// Host names that a request may be sent to, in lower case, besides IP addresses, `localhost` and the name in
    /// ``address``.
    public var allowedHosts: [String] = []
    /// The certificates of the listener; `nil` serves clear text. With optional client certificates, a client without one
    /// can only request `/live` and `/ready`.
    public var tls: ListenerTLSConfiguration?
}
