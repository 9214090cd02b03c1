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
    /// The gateway closed the connection.
    case closed

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
        case .closed: "closed"
        }
    }
}
