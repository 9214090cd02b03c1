import CloakroomCore

/// The error of a cluster's server that does not have a slot: another server has it (`MOVED`), or may have this key
/// while the slot is being moved (`ASK`). The command was not executed.
struct ClusterRedirection: Sendable, Equatable {
    enum Kind: String, Sendable {
        case moved = "MOVED"
        /// Only this command, after `ASKING`.
        case ask = "ASK"
    }

    let kind: Kind
    let slot: Int
    /// The host of the other server; `nil` is the host of the server that sent the error.
    let host: String?
    /// 1...65535.
    let port: Int

    /// Parses the line of an error: the code, the slot, and `host:port`. The port follows the last colon, because an
    /// IPv6 address contains colons.
    /// - Returns: `nil` for other errors and for invalid redirections.
    init?(line: String) {
        let words = line.split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 3, let kind = Kind(rawValue: String(words[0])),
            let slot = UInt16(words[1]), HashSlot.all.contains(Int(slot)),
            let colon = words[2].lastIndex(of: ":"),
            let port = UInt16(words[2][words[2].index(after: colon)...]), port > 0
        else { return nil }
        let host = words[2][..<colon]
        if host.isEmpty || host == "?" {
            self.host = nil
        } else {
            guard let host = ClusterNode.host(String(host)) else { return nil }
            self.host = host
        }
        self.kind = kind
        self.slot = Int(slot)
        self.port = Int(port)
    }

    /// The address of the other server.
    /// - Parameter asked: The server that sent the error.
    func address(from asked: HostAndPort) -> HostAndPort {
        HostAndPort(host: host ?? asked.host, port: port)
    }
}
