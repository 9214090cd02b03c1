import CloakroomCore

/// Cutoffs, which have the slot of their index.
extension ValkeyRecordStore {
    var partitionCount: Int { HashSlot.count }
    func partition(of id: SessionID) -> Int { Int(HashSlot.slot(of: keys.session(id))) }
    func partition(ofIndex index: RecordIndex) -> Int { Int(HashSlot.slot(of: keys.cutoff(index))) }

    func cutoffs(_ indexes: [RecordIndex], now: Timestamp) async throws(SessionStoreError) -> [SessionCutoff?] {
        var cutoffs: [SessionCutoff?] = []
        // One command each: they are in different slots.
        for reply in await link.send(indexes.map { ValkeyCommand("GET", key: keys.cutoff($0)) }) {
            let value = try Self.value(reply)
            if value == .null {
                cutoffs.append(nil)
            } else if let cutoff = value.text.flatMap(SessionCutoff.init(stored:)) {
                cutoffs.append(cutoff)
            } else {
                // It ends some sessions, and it is unknown which ones.
                throw SessionStoreError(.unavailable)
            }
        }
        return cutoffs
    }

    func setCutoff(
        _ index: RecordIndex, keeping kept: KeptSession?, before: Timestamp?, lifetime: Duration, now: Timestamp
    ) async throws(SessionStoreError) {
        let attempt = attempt(in: partition(ofIndex: index))
        let key = keys.cutoff(index)
        let call = ScriptCall(
            keys: [key, keys.sessions(in: index)],
            arguments: [
                .text(kept.map { "\($0.id)" } ?? "-"), .text(before.map { String($0.milliseconds) } ?? ""),
                .integer(Self.time(lifetime)), .integer(kept?.birth ?? 0),
            ])
        let sentAt = ContinuousClock.now
        let reply = await run(SessionScripts.cutoff, [call], isDurable: true).first
        if case .failure(.disconnected) = reply {
            // The server may have it, and a failover may lose it then.
            if let before {
                journal.cutoffSet(JournaledCutoff(key: key, createdBefore: before, lifetime: lifetime))
            } else {
                journal.cutoffRequested(CutoffRequest(key: key, kept: kept?.id, lifetime: lifetime), sentAt: sentAt)
            }
        }
        guard let stored = try Self.value(reply).text, SessionCutoff(stored: stored) != nil,
            let cutoff = JournaledCutoff(key: key, stored: stored, lifetime: lifetime)
        else { throw SessionStoreError(.unavailable) }
        journal.cutoffSet(cutoff)
        if before == nil { journal.cutoffConfirmed(key, sentAt: sentAt) }
        try check(attempt)
    }

    /// A write that is journaled after its reply.
    struct WriteAttempt {
        let slot: Int
        let repetitions: UInt32
    }

    func attempt(in slot: Int) -> WriteAttempt {
        WriteAttempt(slot: slot, repetitions: journal.repetitions(of: slot))
    }

    /// Fails if the writes of the slot were repeated since a write was sent: it may be lost, so its result is unknown.
    func check(_ attempt: WriteAttempt) throws(SessionStoreError) {
        guard journal.repetitions(of: attempt.slot) == attempt.repetitions else {
            throw SessionStoreError(.unavailable, reason: .unreachable)
        }
    }
}

extension SessionCutoff {
    /// Fails for anything but a cutoff. Other fields that a later release adds at the end are ignored.
    init?(stored: String) {
        let fields = stored.split(separator: " ", omittingEmptySubsequences: false)
        guard fields.count >= 3, let time = Int64(fields[0]), time >= 0 else { return nil }
        self.init(time: time)
        if fields[1] != "-" {
            guard let id = SessionID(fields[1]) else { return nil }
            kept = id
        }
        if fields[2] != "-" {
            guard let milliseconds = Int64(fields[2]) else { return nil }
            createdBefore = Timestamp(milliseconds: milliseconds)
        }
        for field in fields[3...] where field.hasPrefix("r") {
            let parts = field.dropFirst().split(separator: ":", omittingEmptySubsequences: false)
            guard parts.count == 2, let time = Int64(parts[0]), time >= 0 else { return nil }
            let id = SessionID(parts[1])
            guard id != nil || parts[1] == "-" else { return nil }
            request = Request(time: time, kept: id)
        }
    }
}

extension ValkeyRecordStore {
    func throttleStates(_ names: [ThrottleKey], now: Timestamp) async throws(SessionStoreError) -> [ThrottleState?] {
        var states: [ThrottleState?] = []
        // One command each: they are in different slots.
        for reply in await link.send(names.map { ValkeyCommand("GET", key: keys.throttle($0)) }) {
            states.append(try Self.value(reply).text.flatMap(ThrottleState.init(stored:)))
        }
        return states
    }

    func replaceThrottleState(
        _ key: ThrottleKey, _ old: ThrottleState?, with new: ThrottleState?, lifetime: Duration, now: Timestamp
    ) async throws(SessionStoreError) -> Bool {
        let response = try await run(
            SessionScripts.throttle, [keys.throttle(key)],
            [.text(old?.stored ?? ""), .text(new?.stored ?? ""), .integer(Self.time(lifetime))])
        return response == .integer(1)
    }
}

extension ValkeyRecordStore {
    func setMark(
        _ key: MarkKey, to time: Timestamp, lifetime: Duration, now: Timestamp
    ) async throws(SessionStoreError) -> Bool {
        let attempt = attempt(in: Int(HashSlot.slot(of: keys.mark(key))))
        let response = try await run(
            SessionScripts.mark, [keys.mark(key)], [.integer(time.milliseconds), .integer(Self.time(lifetime))],
            isDurable: true)
        guard response == .integer(1) else { return false }
        journal.marked(key, at: time, lifetime: lifetime)
        try check(attempt)
        return true
    }

    func latestMark(_ names: [MarkKey], now: Timestamp) async throws(SessionStoreError) -> Timestamp? {
        var latest: Timestamp?
        // One command each: they are in different slots.
        for reply in await link.send(names.map { ValkeyCommand("GET", key: keys.mark($0)) }) {
            let value = try Self.value(reply)
            guard value != .null else { continue }
            let time = Timestamp(milliseconds: value.text.flatMap { Int64($0) } ?? 0)
            latest = max(latest ?? time, time)
        }
        return latest
    }
}

extension ThrottleState {
    /// Three numbers. Each state has exactly one encoding, so the server can compare two of them as text.
    fileprivate var stored: String { "\(count) \(since.milliseconds) \(notBefore.milliseconds)" }

    /// Fails for an invalid state, which counts as none.
    fileprivate init?(stored: String) {
        let numbers = stored.split(separator: " ", omittingEmptySubsequences: false)
        guard numbers.count == 3, let count = UInt32(numbers[0]), let since = Int64(numbers[1]),
            let notBefore = Int64(numbers[2])
        else { return nil }
        self.init(
            count: count, since: Timestamp(milliseconds: since), notBefore: Timestamp(milliseconds: notBefore))
    }
}
