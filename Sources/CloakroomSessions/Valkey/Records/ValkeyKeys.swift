import CloakroomCore
import NIOCore

/// The names of the keys. The part in braces determines the slot in a cluster, so all keys of one session share a slot.
struct ValkeyKeys: Sendable {
    private let prefix: String

    init(prefix: String) {
        self.prefix = prefix
    }

    func session(_ id: SessionID) -> String { "\(prefix):{\(id)}:session" }
    func lease(_ id: SessionID) -> String { "\(prefix):{\(id)}:lease" }
    func ended(_ id: SessionID) -> String { "\(prefix):{\(id)}:ended" }

    /// The index of an account's sessions, which is in another slot than the sessions.
    func sessions(of account: UInt64) -> String { "\(prefix):{a\(SessionID(account))}:sessions" }

    func throttle(_ key: ThrottleKey) -> String {
        "\(prefix):{t\(key.scope.rawValue)\(SessionID(key.hash))}:throttle"
    }

    /// Parses the name of a record's key.
    /// - Returns: `nil` for all other keys.
    func session(named key: ByteBuffer) -> SessionID? {
        let text = String(buffer: key)
        let (head, tail) = ("\(prefix):{", "}:session")
        guard text.hasPrefix(head), text.hasSuffix(tail) else { return nil }
        return SessionID(text.dropFirst(head.count).dropLast(tail.count))
    }
}
