public import CloakroomCore

/// The token client of each source of sessions. The tokens of a session are passed to the client of its source and to no
/// other. A session of a source without a client belongs to an identity that was removed or has another issuer.
public struct TokenClients: Sendable, Unprintable {
    private let clients: [SessionSource: any TokenClient]
    /// The source of sessions that users sign in to with credentials; `nil` if there is none.
    public let signInSource: SessionSource?

    /// Creates the clients of a configuration.
    /// - Parameters:
    ///   - signIn: The upstream that signs users in with credentials.
    ///   - others: The clients of providers.
    public init(
        signIn: (source: SessionSource, client: any TokenClient)? = nil, others: [SessionSource: any TokenClient] = [:]
    ) {
        var clients = others
        if let signIn { clients[signIn.source] = signIn.client }
        self.clients = clients
        signInSource = signIn?.source
    }

    /// The client of a source; `nil` if the source is not configured.
    public subscript(source: SessionSource) -> (any TokenClient)? { clients[source] }
}
