import CloakroomCore

/// Ends the sessions of an index by a time; see ``SessionCutoff``.
extension SealedSessionStore {
    /// How long a cutoff is kept after the absolute timeout: records stay that much longer in the store at most, and a
    /// gateway whose absolute timeout is longer by up to a day may share it.
    private static var margin: Duration { .seconds(86_400) }

    /// Whether a cutoff has ended the session of a record.
    /// - Throws: If the cutoffs cannot be read: then it is unknown whether the session has ended.
    func isCutOff(_ record: SessionRecord, now: SessionTime) async throws(SessionStoreError) -> Bool {
        try await !cutOff([record], now: now).isEmpty
    }

    /// Whether a cutoff has ended the session of a record that was saved; it is then removed. The record itself is read
    /// only if there is a cutoff at all, because what was saved may have no ``SessionRecord/birth``.
    func isCutOff(saved record: SessionRecord, now: SessionTime) async throws(SessionStoreError) -> Bool {
        guard try await !knownCutoffs([record], now: now).isEmpty else { return false }
        let lookup = try await readRecord(record.key.id, now: now)
        guard case .record(let stored) = lookup else {
            if lookup == .unreadable { throw SessionStoreError(.unavailable, reason: .protocolError) }
            try await checkEnd(of: record.key.id, now: now)
            return true
        }
        guard try await isCutOff(stored, now: now) else { return false }
        _ = try? await remove(record.key.id, reason: .revoked, now: now)
        return true
    }

    /// The ids of the records whose sessions have ended by a cutoff.
    func cutOff(_ found: [SessionRecord], now: SessionTime) async throws(SessionStoreError) -> Set<SessionID> {
        let cutoffs = try await knownCutoffs(found, now: now)
        guard !cutoffs.isEmpty else { return [] }
        let ended = found.filter { record in
            record.indexes.contains { cutoffs[$0]?.ends(record, in: $0) ?? false }
        }
        return Set(ended.map(\.key.id))
    }

    /// The cutoffs of all indexes of records, of which nearly all have none.
    private func knownCutoffs(
        _ found: [SessionRecord], now: SessionTime
    ) async throws(SessionStoreError) -> [RecordIndex: SessionCutoff] {
        // The words before the cutoffs are read: a change in between makes what is noted here invalid.
        var asked: [RecordIndex: UInt32] = [:]
        for index in found.lazy.flatMap(\.indexes) where asked[index] == nil {
            let word = table.trust.word(records.partition(ofIndex: index))
            if !withoutCutoff.isAbsent(index, word: word) { asked[index] = word }
        }
        guard !asked.isEmpty else { return [:] }
        let indexes = Array(asked.keys)
        var cutoffs: [RecordIndex: SessionCutoff] = [:]
        let found = try await meter.measure(.cutoffRead, await records.cutoffs(indexes, now: now))
        for (index, cutoff) in zip(indexes, found) {
            cutoffs[index] = cutoff
            if cutoff == nil, let word = asked[index] { withoutCutoff.noteAbsent(index, word: word) }
        }
        return cutoffs
    }

    /// Ends all sessions of indexes, then lists and ends those that the indexes have: the list is for reporting them and
    /// for freeing space, and may have lost some.
    ///
    /// If a cutoff cannot be set, it is set again after that.
    /// - Parameters:
    ///   - indexes: Of one account or session at a provider, under the hashes of all secrets: a session that is resealed
    ///     meanwhile is in any of them.
    ///   - before: If not `nil`, only sessions that were created before this are ended.
    func endAll(
        _ indexes: [RecordIndex], keeping kept: SessionID? = nil, before: SessionTime? = nil, now: SessionTime,
        _ endListed: () async throws(SessionStoreError) -> [EndedSession]
    ) async throws(SessionStoreError) -> [EndedSession] {
        do throws(SessionStoreError) {
            try await setCutoffs(indexes, keeping: kept, before: before, now: now)
        } catch {
            let ended = try await endListed()
            do throws(SessionStoreError) {
                try await setCutoffs(indexes, keeping: kept, before: before, now: now)
            } catch {
                throw error.afterEnding(ended)
            }
            return ended
        }
        return try await endListed()
    }

    private func setCutoffs(
        _ indexes: [RecordIndex], keeping kept: SessionID?, before: SessionTime?, now: SessionTime
    ) async throws(SessionStoreError) {
        let lifetime = longest.absolute + Records.tombstoneLifetime + Self.margin
        // An earlier cutoff may have ended the kept session. If its record cannot be read, it counts as older.
        var record: SessionRecord?
        if let kept, case .record(let found)? = try? await readRecord(kept, now: now) { record = found }
        for index in indexes {
            // What was read before is forgotten, and what is read while the result is unknown: an own change is not
            // reported.
            let partition = records.partition(ofIndex: index)
            table.cutoffChanged(in: partition)
            defer { table.cutoffChanged(in: partition) }
            let kept = kept.map { KeptSession(id: $0, birth: record?.birthTime(in: index) ?? 0) }
            try await meter.measure(
                .cutoffWrite,
                await records.setCutoff(index, keeping: kept, before: before, lifetime: lifetime, now: now))
        }
    }
}
