import CloakroomCore

/// An index of records: the sessions of an account or of a session at a provider.
enum RecordIndex: Sendable, Hashable {
    /// The records whose account or typed name has this hash.
    case account(UInt64)
    /// The records whose session at the provider has this hash.
    case providerSession(UInt64)
}

/// When a record was entered into its indexes, in microseconds since the epoch.
///
/// Each time is by the clock of the server that has the index, and is compared only with the cutoff of the same index,
/// which has the time of the same clock. So the clocks of the servers need not agree with each other or with those of the
/// gateways.
struct RecordBirth: Sendable, Equatable {
    var account: Int64?
    /// `nil` if the typed name is the account.
    var name: Int64?
    var provider: Int64?

    /// The time in one of the record's indexes.
    /// - Returns: `nil` if a release without cutoffs has written the record.
    func time(in index: RecordIndex, of record: SessionRecord) -> Int64? {
        switch index {
        // If it was entered into this index later, the time in its first one counts.
        case .account(let hash): hash == record.account ? account : name ?? account
        case .providerSession: provider ?? account
        }
    }
}

/// A gateway that loads a session and saves it later writes the times again: if the store loses the record, this gateway
/// may be the one that inserts it.
extension RecordBirth {
    /// Each time after a byte, which is 1 if there is one: a byte without a time is 0. Empty if there are none.
    var bytes: [UInt8] {
        guard self != RecordBirth() else { return [] }
        return [account, name, provider].flatMap { time -> [UInt8] in
            time.map { [1] + UInt64(bitPattern: $0).bigEndianBytes } ?? [0]
        }
    }

    /// The times in what ``bytes`` returned; none in any other bytes.
    init(bytes: [UInt8]) {
        var rest = bytes[...]
        func next() -> Int64? {
            guard rest.popFirst() == 1, rest.count >= 8 else { return nil }
            defer { rest = rest.dropFirst(8) }
            return Int64(bitPattern: rest.prefix(8).reduce(0) { $0 << 8 | UInt64($1) })
        }
        self.init(account: next(), name: next(), provider: next())
    }
}

/// The end of all sessions of an index that began before a time, whether the index still lists them or not.
///
/// Ending the sessions that an index lists is not enough: a server that fails over may lose an entry, and the session
/// would survive. Each load therefore compares a record with the cutoffs of its indexes.
struct SessionCutoff: Sendable, Equatable {
    /// Records that were entered into the index at this time or earlier have ended: ``RecordBirth``. 0 for none.
    var time: Int64 = 0
    /// The session that ``time`` does not end.
    var kept: SessionID?
    /// Sessions with an earlier ``SessionRecord/createdAt`` have ended; by the clock of the gateways.
    var createdBefore: SessionTime?
    /// A later cutoff that was set again without knowing whether it had been set.
    var request: Request?

    /// Applies only while it is later than ``SessionCutoff/time``: a later cutoff decides which session is kept.
    struct Request: Sendable, Equatable {
        var time: Int64
        var kept: SessionID?
    }

    /// Whether it ends a session.
    /// - Parameter index: The index of the record that has this cutoff.
    func ends(_ record: SessionRecord, in index: RecordIndex) -> Bool {
        if let createdBefore, record.createdAt < createdBefore { return true }
        let birth = record.birthTime(in: index)
        if let request, time < request.time, birth <= request.time, record.key.id != request.kept { return true }
        return birth <= time && record.key.id != kept
    }
}

/// A session that a cutoff does not end, unless an earlier cutoff has ended it.
struct KeptSession: Sendable, Equatable {
    var id: SessionID
    /// ``SessionRecord/birthTime(in:)`` for the index of the cutoff; 0 if it is not known.
    var birth: Int64 = 0
}

extension SessionRecord {
    /// When the record was entered into an index, in microseconds. The time of its creation counts for a record that a
    /// release without cutoffs has written.
    func birthTime(in index: RecordIndex) -> Int64 {
        let (created, isTooLate) = createdAt.milliseconds.multipliedReportingOverflow(by: 1_000)
        return birth.time(in: index, of: self) ?? (isTooLate ? .max : created)
    }

    var indexes: [RecordIndex] {
        var indexes = indexHashes.map(RecordIndex.account)
        if let provider { indexes.append(.providerSession(provider)) }
        return indexes
    }
}

extension SessionRecord: Equatable {
    /// Whether two records have the same contents. Their ``birth`` is not compared: stores with cutoffs set it.
    static func == (left: SessionRecord, right: SessionRecord) -> Bool {
        left.key == right.key && left.account == right.account && left.name == right.name
            && left.provider == right.provider && left.createdAt == right.createdAt
            && left.expiresAt == right.expiresAt && left.lastUsedAt == right.lastUsedAt
            && left.version == right.version && left.contents == right.contents && left.client == right.client
    }
}
