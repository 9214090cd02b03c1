import NIOCore

/// Commands that were sent and not answered, the oldest first: a server answers in the order in which it was asked.
struct PendingCommands {
    /// A command that waits.
    struct Entry {
        /// Who waits; `nil` for a sign of life.
        let batch: PipelinedReplies?
        let index: Int
        let deadline: NIODeadline
        /// Of the command, in bytes.
        let size: Int
    }

    /// What may wait at a time. More is refused: a server that slow will not catch up.
    static let maximumCount = 100_000
    /// The same in bytes.
    static let maximumSize = 64 * 1024 * 1024

    private var entries = CircularBuffer<Entry>()
    private var size = 0

    var isEmpty: Bool { entries.isEmpty }

    /// When the oldest one should have been answered.
    var deadline: NIODeadline? { entries.first?.deadline }

    /// Whether more commands may wait.
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
