import CloakroomCore

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
        case .unreachable, .closed, .noPrimary: self = .unreachable
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
