/// Why there is no answer to a command.
enum ValkeyCommandError: Error, Sendable, Equatable {
    /// It was not sent: there is no link.
    case notConnected
    /// It was not sent: too many are waiting for their answers.
    case overloaded
    /// It was sent, and whether it was done is not known.
    case disconnected
    /// It was not done, and why.
    case rejected(RESPError)
}

/// Why a link ended, or why there was none. The raw value is the kind, as logs name it.
enum ValkeyDisconnectReason: Error, Sendable, Equatable {
    /// The server hung up, or could not be reached.
    case unreachable
    /// The server did not answer in time.
    case timedOut
    /// What the server sent cannot be understood.
    case protocolError
    /// TLS failed.
    case tls(String)
    /// The server wants another user, another password, or none of the two has the permission.
    case unauthorized(code: String, command: String)
    /// The server is one that writes may not go to: a replica, or one that is loading its data.
    case notPrimary(code: String)
    /// The server does not speak RESP3, as from version 6 on.
    case unsupportedServer(code: String)
    /// No sentinel knows the primary.
    case noPrimary
    /// The gateway has no more use for it.
    case closed

    /// As logs name it.
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
        case .closed: "closed"
        }
    }
}
