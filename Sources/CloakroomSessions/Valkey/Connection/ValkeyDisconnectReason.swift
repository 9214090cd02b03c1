import CloakroomCore

/// Why a command has no reply.
enum ValkeyCommandError: Error, Sendable, Equatable {
    /// The command was not sent: there is no connection.
    case notConnected
    /// The command was not sent: too many commands are pending.
    case overloaded
    /// The command was sent, and its result is unknown.
    case disconnected
    /// The server rejected the command, with its error.
    case rejected(RESPError)
}

/// Why a connection ended, or could not be established. The raw value is the kind in logs.
enum ValkeyDisconnectReason: Error, Sendable, Equatable {
    /// The server closed the connection, or could not be reached.
    case unreachable
    /// The server did not respond in time.
    case timedOut
    /// The server sent invalid data.
    case protocolError
    case tls(String)
    /// The user or the password is wrong, or the user lacks a permission.
    case unauthorized(code: String, command: String)
    /// The server does not accept writes: a replica, or one that is loading its data.
    case notPrimary(code: String)
    /// The server does not support RESP3, which requires version 6.
    case unsupportedServer(code: String)
    /// No sentinel knows the primary.
    case noPrimary
    /// The sentinels name another primary than the one in use, or contradict each other about it.
    case replaced
    /// The sentinels name different primaries, and fewer than half of them the same one.
    case sentinelsDisagree
    /// The server is not of the configured kind.
    case wrongTopology(ValkeyTopologyMismatch)
    /// The gateway closed the connection.
    case closed

    /// The cause and its remedy, for a reader who does not know the code; `nil` if ``kind`` is all that is known.
    var advice: String? {
        switch self {
        case .wrongTopology(let mismatch): mismatch.description
        case .unsupportedServer: "Valkey, or Redis 6 or later, is required"
        case .tls: "check the certificate's names, the trusted certificates, and the port"
        case .notPrimary(code: "READONLY"):
            "the server is a replica: configure the primary's address, the sentinels, or a cluster"
        case .noPrimary: "no sentinel knows the primary: check session.valkey.sentinelPrimary"
        case .replaced: "the sentinels name another primary, which is used as soon as they agree"
        case .sentinelsDisagree:
            "compare what SENTINEL GET-MASTER-ADDR-BY-NAME returns at each sentinel: a sentinel may be separated from the"
                + " others, or names may be announced by some of them only (announce-hostnames)"
        case .protocolError: SessionStoreError.Reason.protocolError.advice
        default: nil
        }
    }

    /// The name in logs.
    var kind: String {
        switch self {
        case .unreachable: "unreachable"
        case .timedOut: "timeout"
        case .protocolError: "protocol_error"
        case .tls: "tls"
        case .unauthorized(let code, _): code.lowercased()
        case .notPrimary(let code): code.lowercased()
        case .unsupportedServer: "too_old"
        case .noPrimary: "no_primary"
        case .replaced: "replaced"
        case .sentinelsDisagree: "sentinels_disagree"
        case .wrongTopology: "wrong_topology"
        case .closed: "closed"
        }
    }
}

/// How the server and `session.valkey.topology` disagree.
enum ValkeyTopologyMismatch: Error, Sendable, Equatable, CustomStringConvertible {
    /// A cluster, where a single server is configured.
    case clusterForSingle
    /// A cluster's server, where the sentinels report it as a primary.
    case clusterForSentinel
    /// A single server, where a cluster is configured.
    case singleForCluster
    /// A sentinel, where no name of a primary is configured.
    case sentinelForServer
    /// A server, where sentinels are configured.
    case serverForSentinel
    /// A cluster without slots: it is not yet created.
    case clusterWithoutSlots
    /// A cluster with more primaries than ``ClusterTopology/maximumLinks``.
    case tooManyPrimaries(Int)
    /// A cluster that prefers host names, with a primary that announces neither a name nor an address.
    case serverWithoutHostname

    /// The cause and its remedy.
    var description: String {
        switch self {
        case .clusterForSingle:
            "the server belongs to a cluster: set session.valkey.topology to cluster, or to auto"
        case .clusterForSentinel:
            "the server belongs to a cluster: set session.valkey.topology to cluster, list servers of the cluster in"
                + " session.valkey.addresses, and remove session.valkey.sentinelPrimary"
        case .singleForCluster:
            "the server does not belong to a cluster: set session.valkey.topology to single, or to auto"
        case .sentinelForServer:
            "the server is a sentinel: set session.valkey.sentinelPrimary to the name of the primary, or list the server"
                + " itself in session.valkey.addresses"
        case .serverForSentinel:
            "the server is not a sentinel: list sentinels in session.valkey.addresses, or remove"
                + " session.valkey.sentinelPrimary"
        case .clusterWithoutSlots:
            "the cluster has no slots: create it with redis-cli --cluster create, or check that the server has joined it"
        case .tooManyPrimaries(let count):
            "the cluster has \(count) primaries: at most \(ClusterTopology.maximumLinks) are supported"
        case .serverWithoutHostname:
            "a primary of the cluster announces no host name: set cluster-announce-hostname at each server, or"
                + " cluster-preferred-endpoint-type to ip"
        }
    }
}

extension SessionStoreError.Reason {
    /// The reason of a command without a result. The code of an error reply decides, never its text.
    init(_ error: ValkeyCommandError) {
        switch error {
        case .notConnected, .disconnected: self = .unreachable
        case .overloaded: self = .overloaded
        case .rejected(let error): self.init(code: error.code)
        }
    }

    /// The reason of a lost or failed connection.
    init(_ loss: ValkeyDisconnectReason) {
        switch loss {
        case .unreachable, .closed, .noPrimary, .replaced, .sentinelsDisagree: self = .unreachable
        case .timedOut: self = .timeout
        case .protocolError: self = .protocolError
        case .tls: self = .tls
        case .unauthorized(let code, _): self = code == "NOPERM" ? .noPermission : .noAuth
        case .notPrimary(let code): self.init(code: code)
        case .unsupportedServer: self = .unsupported
        case .wrongTopology: self = .wrongTopology
        }
    }

    /// The reason of an error reply, by its first word.
    init(code: String) {
        switch code {
        case "READONLY", "NOREPLICAS", "MASTERDOWN", "MISCONF": self = .readonly
        case "LOADING": self = .loading
        case "OOM": self = .full
        case "NOAUTH", "WRONGPASS": self = .noAuth
        case "NOPERM": self = .noPermission
        case "CROSSSLOT": self = .crossslot
        // Redirections are followed, so one that is left means that the servers do not agree for long.
        case "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK": self = .clusterDown
        case "BUSY": self = .overloaded
        case "NOPROTO": self = .unsupported
        default: self = .failed
        }
    }
}
