import NIOCore

/// Commands that were sent and have no reply yet, the oldest first: a server replies in the order of the commands.
struct PendingCommands {
    struct Entry {
        /// The receiver of the reply; `nil` for a heartbeat.
        let batch: PipelinedReplies?
        let index: Int
        let deadline: NIODeadline
        /// The size of the command in bytes.
        let size: Int
    }

    /// The maximum number of pending commands. More are rejected: a server that slow will not catch up.
    static let maximumCount = 100_000
    /// The maximum size of all pending commands in bytes.
    static let maximumSize = 64 * 1024 * 1024

    private var entries = CircularBuffer<Entry>()
    private var size = 0

    var isEmpty: Bool { entries.isEmpty }

    /// The time limit for the reply to the oldest command.
    var deadline: NIODeadline? { entries.first?.deadline }

    /// Whether more commands may be sent.
    func hasRoom(for count: Int, size: Int) -> Bool {
        entries.count + count <= Self.maximumCount && self.size + size <= Self.maximumSize
    }

    mutating func append(_ entry: Entry) {
        entries.append(entry)
        size += entry.size
    }

    mutating func popFirst() -> Entry? {
        guard let entry = entries.popFirst() else { return nil }
        size -= entry.size
        return entry
    }
}
