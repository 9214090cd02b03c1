import CloakroomCore

/// Cutoffs, which have the slot of their index.
extension ValkeyRecordStore {
    var partitionCount: Int { HashSlot.count }
    func partition(of id: SessionID) -> Int { Int(HashSlot.slot(of: keys.session(id))) }
    func partition(ofIndex index: RecordIndex) -> Int { Int(HashSlot.slot(of: keys.cutoff(index))) }

    func cutoffs(_ indexes: [RecordIndex], now: SessionTime) async throws(SessionStoreError) -> [SessionCutoff?] {
        let names = indexes.map(keys.cutoff)
        let repetitions = names.map { journal.repetition(of: Int(HashSlot.slot(of: $0))) }
        var cutoffs: [SessionCutoff?] = []
        // One command each: they are in different slots.
        let replies = await link.send(names.map { ValkeyCommand("GET", key: $0) })
        for ((name, repetition), reply) in zip(zip(names, repetitions), replies) {
            let value = try Self.value(reply)
            var cutoff: SessionCutoff?
            if value != .null {
                // It ends some sessions, and it is unknown which ones.
                guard let stored = value.text.flatMap(SessionCutoff.init(stored:)) else {
                    throw SessionStoreError(.unavailable)
                }
                cutoff = stored
            }
            let own = journal.cutoff(name, since: repetition)
            // Its time is unknown until the server has it.
            if own.isRequested { throw SessionStoreError(.unavailable) }
            cutoffs.append(own.set.map { $0.completing(value.text) } ?? cutoff)
        }
        return cutoffs
    }

    func setCutoff(
        _ index: RecordIndex, keeping kept: KeptSession?, before: SessionTime?, lifetime: Duration, now: SessionTime
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
        let replacement: UInt32
    }

    func attempt(in slot: Int) -> WriteAttempt {
        WriteAttempt(slot: slot, replacement: journal.replacement(of: slot))
    }

    /// Fails if the slot has another server since a write was sent: it may be lost, so its result is unknown.
    func check(_ attempt: WriteAttempt) throws(SessionStoreError) {
        guard journal.replacement(of: attempt.slot) == attempt.replacement else {
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
            createdBefore = SessionTime(milliseconds: milliseconds)
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
    func setMark(
        _ key: MarkKey, to time: WallTime, lifetime: Duration, now: SessionTime
    ) async throws(SessionStoreError) -> Bool {
        if let kept = journal.mark(key), kept >= time { return false }
        let attempt = attempt(in: Int(HashSlot.slot(of: keys.mark(key))))
        // Any client may begin a login, so its mark is no reason to exceed the memory of a full server.
        let isRequired = key.scope != .usedLogin
        let response = try await run(
            SessionScripts.mark, [keys.mark(key)],
            [.integer(time.milliseconds), .integer(Self.time(lifetime)), .integer(isRequired ? 1 : 0)],
            isDurable: true)
        guard response == .integer(1) else { return false }
        journal.marked(key, at: time, lifetime: lifetime)
        try check(attempt)
        return true
    }

    func latestMark(_ names: [MarkKey], now: SessionTime) async throws(SessionStoreError) -> WallTime? {
        var latest: WallTime?
        let marks = names.map(keys.mark)
        let repetitions = marks.map { journal.repetition(of: Int(HashSlot.slot(of: $0))) }
        // One command each: they are in different slots.
        for (number, reply) in await link.send(marks.map { ValkeyCommand("GET", key: $0) }).enumerated() {
            let value = try Self.value(reply)
            if value != .null {
                let time = WallTime(milliseconds: value.text.flatMap { Int64($0) } ?? 0)
                latest = max(latest ?? time, time)
            }
            if let own = journal.mark(names[number], since: repetitions[number]) { latest = max(latest ?? own, own) }
        }
        return latest
    }
}
