import CloakroomCore

/// What a journaled write is about.
enum JournalKey: Hashable, Sendable {
    case session(SessionID)
    case lease(SessionID)
    case cutoff(String)
    case cutoffRequest(String)
    case mark(MarkKey)
}

/// A write that the server has executed, or may have executed.
enum JournaledWrite: Sendable {
    case end(SessionID, SessionEndReason)
    case record(JournaledRecord)
    case lease(SessionID, fence: UInt64, Duration)
    case cutoff(JournaledCutoff)
    case cutoffRequest(CutoffRequest)
    case mark(MarkKey, WallTime, lifetime: Duration)
}

/// A record as it was written.
struct JournaledRecord: Sendable {
    let id: SessionID
    let key: [UInt8]
    let version: UInt64
    /// The fence of the lease under which it was saved; 0 for none.
    let fence: UInt64
    let lastUsedAt: SessionTime
    /// How long the server keeps the record.
    let lifetime: Duration
    /// Fields and values in turn, except the time of use and the fence.
    let fields: [ValkeyCommand.Part]
    /// Fields that only the insertion has written.
    private(set) var insertedFields: [ValkeyCommand.Part] = []
    /// The keys of the indexes that list the session, and how long; empty unless it was inserted by this process.
    private(set) var indexes: [String]
    private(set) var indexLifetime: Duration

    init(
        _ record: SessionRecord, fence: UInt64? = nil, lifetime: Duration, fields: [ValkeyCommand.Part],
        indexes: [String] = [], indexLifetime: Duration = .zero
    ) {
        id = record.key.id
        key = record.key.bytes
        version = record.version
        self.fence = fence ?? 0
        lastUsedAt = record.lastUsedAt
        self.lifetime = lifetime
        self.fields = fields
        self.indexes = indexes
        self.indexLifetime = indexLifetime
    }

    /// The approximate size in memory, in bytes.
    var size: Int {
        (fields + insertedFields).reduce(256 + indexes.reduce(0) { $0 + $1.utf8.count }) { sum, part in
            switch part {
            case .text(let text): sum + 16 + text.utf8.count
            case .bytes(let bytes): sum + 48 + bytes.count
            case .integer: sum + 16
            }
        }
    }

    /// Takes over from an older version what this one does not contain.
    mutating func keepFields(of older: JournaledRecord) {
        var names: Set<String> = []
        for index in stride(from: 0, to: fields.count, by: 2) {
            if case .text(let name) = fields[index] { names.insert(name) }
        }
        let others = older.fields + older.insertedFields
        for index in stride(from: 0, to: others.count - 1, by: 2) {
            guard case .text(let name) = others[index], names.insert(name).inserted else { continue }
            insertedFields += others[index...(index + 1)]
        }
        if indexes.isEmpty { (indexes, indexLifetime) = (older.indexes, older.indexLifetime) }
    }
}

/// A cutoff as it was written: the time before which all sessions of an index have ended.
struct JournaledCutoff: Sendable, Equatable {
    let key: String
    /// Microseconds by the server's clock; 0 for none.
    private(set) var time: Int64
    /// The id of the session that is kept; `-` for none.
    private(set) var kept: String
    /// When the kept session was entered into the index, in microseconds; `nil` if it is not known.
    private(set) var keptBirth: Int64?
    /// Sessions created before this have ended, in milliseconds; `nil` for none.
    private(set) var createdBefore: Int64?
    /// How long the server keeps it.
    private(set) var lifetime: Duration

    /// Parses the value in the server: microseconds, the id or `-`, milliseconds or `-`, and the birth of the kept session
    /// if it is known.
    init?(key: String, stored: String, lifetime: Duration) {
        let fields = stored.split(separator: " ", omittingEmptySubsequences: false)
        guard fields.count >= 3, let time = Int64(fields[0]) else { return nil }
        self.key = key
        self.time = time
        kept = String(fields[1])
        keptBirth = fields.count > 3 ? Int64(fields[3]) : nil
        createdBefore = Int64(fields[2])
        self.lifetime = lifetime
    }

    /// A cutoff that ends the sessions that were created before a time.
    init(key: String, createdBefore: SessionTime, lifetime: Duration) {
        self.key = key
        time = 0
        kept = "-"
        self.createdBefore = createdBefore.milliseconds
        self.lifetime = lifetime
    }

    /// Takes over what is later in another one: replies to concurrent writes may be processed in any order. A session is
    /// not kept if the earlier one has ended it.
    mutating func merge(_ other: JournaledCutoff) {
        let earlier = other.time > time ? self : other
        if other.time > time { (time, kept, keptBirth) = (other.time, other.kept, other.keptBirth) }
        if earlier.time > 0, earlier.time < time, kept != earlier.kept, let birth = keptBirth, birth <= earlier.time {
            (kept, keptBirth) = ("-", nil)
        }
        if let before = other.createdBefore, before > createdBefore ?? .min { createdBefore = before }
        lifetime = max(lifetime, other.lifetime)
    }

    /// The cutoff of an index that has this one and the one that is stored.
    func completing(_ stored: String?) -> SessionCutoff {
        var merged = self
        if let stored, let other = JournaledCutoff(key: key, stored: stored, lifetime: lifetime) { merged.merge(other) }
        return SessionCutoff(
            time: merged.time, kept: SessionID(merged.kept),
            createdBefore: merged.createdBefore.map { SessionTime(milliseconds: $0) },
            request: stored.flatMap(SessionCutoff.init(stored:))?.request)
    }
}

/// The end of all sessions of an index so far, of which it is unknown whether and when the server has set it.
struct CutoffRequest: Sendable, Equatable {
    let key: String
    let kept: SessionID?
    let lifetime: Duration
}
