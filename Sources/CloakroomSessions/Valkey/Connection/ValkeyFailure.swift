/// Why there is no answer to a command.
enum ValkeyFailure: Error, Sendable, Equatable {
    /// It was not sent: there is no link.
    case notConnected
    /// It was not sent: too many are waiting for their answers.
    case overloaded
    /// It was sent, and whether it was done is not known.
    case lost
    /// It was not done, and why.
    case refused(RESPError)
}

/// Why a link ended, or why there was none. The raw value is the kind, as logs name it.
enum ValkeyLoss: Error, Sendable, Equatable {
    /// The server hung up, or could not be reached.
    case unreachable
    /// The server did not answer in time.
    case timedOut
    /// What the server sent cannot be understood.
    case protocolBroken
    /// TLS failed.
    case tls(String)
    /// The server wants another user, another password, or none of the two has the permission.
    case unauthorized(code: String, command: String)
    /// The server is one that writes may not go to: a replica, or one that is loading its data.
    case unfit(code: String)
    /// The server does not speak RESP3, as from version 6 on.
    case tooOld(code: String)
    /// No sentinel knows the primary.
    case noPrimary
    /// The gateway has no more use for it.
    case closed

    /// As logs name it.
    var kind: String {
        switch self {
        case .unreachable: "unreachable"
        case .timedOut: "timeout"
        case .protocolBroken: "protocol_error"
        case .tls: "tls"
        case .unauthorized(let code, _): code.lowercased()
        case .unfit(let code): code.lowercased()
        case .tooOld: "too_old"
        case .noPrimary: "no_primary"
        case .closed: "closed"
        }
    }
}
