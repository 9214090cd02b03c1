extension SessionStoreError {
    /// Why the store failed, for operators: the label `reason` of `cloakroom_session_store_errors_total`, and the field
    /// `reason` of log lines and of `/status.json`. Responses to clients do not depend on it.
    public enum Reason: String, Sendable, Hashable, CaseIterable {
        /// There is no connection, or it was lost while the operation was in flight.
        case unreachable
        /// The server did not respond within `session.valkey.timeout`.
        case timeout
        /// Too many operations are pending, or the server is busy.
        case overloaded
        /// A command had keys of several slots, which a correct gateway never sends.
        case crossslot
        /// The server accepts no writes: it is a replica, or lacks its replicas or its disk.
        case readonly
        /// The server is loading its data after a start.
        case loading
        /// The server's memory is full, or the limit of sessions is reached.
        case full
        /// The server rejected user or password.
        case noAuth = "no_auth"
        /// The user lacks a permission for a command or a key.
        case noPermission = "no_permission"
        /// The cluster does not serve the slot: no primary, or a migration that takes too long.
        case clusterDown = "cluster_down"
        /// The server is part of a cluster but the configuration is not, or the reverse.
        case wrongTopology = "wrong_topology"
        /// The server lacks a required command or protocol version.
        case unsupported
        /// The server sent what no server may send.
        case protocolError = "protocol_error"
        /// The TLS handshake failed.
        case tls
        /// Any other failure.
        case failed

        /// What an operator can do, without a full stop.
        public var advice: String {
            switch self {
            case .unreachable: "check that the servers run, session.valkey.addresses, and firewalls in between"
            case .timeout: "check the server's load and slow log, and the network; see session.valkey.timeout"
            case .overloaded: "add shards or a faster server; check the server's slow log"
            case .crossslot: "report it as an error of the gateway; check that nothing between rewrites commands"
            case .readonly: "write the primary's address, or use sentinels; check min-replicas-to-write and the disk"
            case .loading: "wait until the server has loaded its data"
            case .full: "raise maxmemory of the server, or add shards; check session.maxSessions"
            case .noAuth: "check session.valkey.user and its password, and that the user exists at every server"
            case .noPermission: "grant the user the documented commands and keys at every server (ACL SETUSER)"
            case .clusterDown: "check CLUSTER INFO and CLUSTER NODES: each slot needs a primary"
            case .wrongTopology: "write session.valkey.topology as the servers run: single, sentinel or cluster"
            case .unsupported: "use Valkey, or Redis 6 or later"
            case .protocolError: "check that session.valkey.addresses are the ports of Valkey servers, and their TLS"
            case .tls: "check the certificate's names, the trusted certificates, and the port"
            case .failed: "see the server's log, and the gateway's log before this line"
            }
        }
    }
}
