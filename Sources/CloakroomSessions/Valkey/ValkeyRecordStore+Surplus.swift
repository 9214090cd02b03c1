import CloakroomCore

/// The oldest sessions of an account that has too many.
///
/// The index of an account has an id until the absolute end of its session. So the ids of sessions that ended by the idle
/// timeout remain, and the number of ids alone would end sessions without need. Reading all records would cost the more
/// the more sessions there are. Therefore a sign-in reads the times of at most 32 of them: the oldest ones, and a sample
/// that begins elsewhere each time. Ids without a record are removed from the index.
extension ValkeyRecordStore {
    func surplus(
        of account: UInt64, by rule: SurplusRule, now: SessionTime
    ) async throws(SessionStoreError) -> RecordSurplus {
        let index = keys.sessions(of: account)
        let limit = max(0, rule.limit)
        let reply = try await run(
            SessionScripts.surplus, [index],
            [.integer(Int64(limit)), .integer(Int64.random(in: 0..<1_000_000))])
        let (total, ids) = try ListedSample.parse(reply, limit: limit)
        guard total > 0 else { return .none }
        // One command each: they are in different slots.
        let replies = await link.send(ids.map { ValkeyCommand("HMGET", key: keys.session($0), "a", "c", "e", "u") })
        var records: [SurplusRule.Candidate] = []
        var missing: [SessionID] = []
        for (id, reply) in zip(ids, replies) {
            if case .failure(.rejected(let error)) = reply, error.code == "WRONGTYPE" { continue }
            guard let values = try Self.value(reply).elements else { continue }
            if let record = RecordEncoding.candidate(values, id: id) {
                records.append(record)
            } else if values.allSatisfy({ $0 == .null }) {
                missing.append(id)
            }
        }
        if !missing.isEmpty {
            // A failure is harmless: the next sign-in finds them again.
            _ = try? await run(
                SessionScripts.forget, [index], [.text("\(rule.new)")] + missing.map { .text("\($0)") })
        }
        return rule.surplus(
            in: SurplusRule.Sample(total: total, ids: ids, records: records), now: now)
    }
}

/// The reply to ``SessionScripts/surplus``. Its numbers enter the estimate of ``SurplusRule``, so that any other reply is
/// an error.
enum ListedSample {
    /// The maximum number of members of a sorted set, which is more than a listing permits: ids of sessions that have
    /// ended stay in an index, and its oldest sessions can still be ended.
    static let maximumTotal = Int64(UInt32.max)
    /// The maximum number of ids in the reply.
    static let maximumCount = 2 * SurplusRule.maximum

    /// Parses a reply.
    /// - Parameter limit: The limit that the script had.
    /// - Returns: The number of ids in the index, 0 if there are no more than the limit, and those that are to be checked.
    /// - Throws: ``SessionStoreError`` with the reason `protocolError` for what the script never returns.
    static func parse(
        _ reply: RESPValue, limit: Int
    ) throws(SessionStoreError) -> (total: Int, ids: [SessionID]) {
        guard let elements = reply.elements else { throw SessionStoreError(.unavailable, reason: .protocolError) }
        guard let first = elements.first else { return (0, []) }
        guard case .integer(let total) = first, total > limit, total <= maximumTotal,
            elements.count - 1 <= min(Int(total), maximumCount)
        else { throw SessionStoreError(.unavailable, reason: .protocolError) }
        // Members of other software are none.
        let ids = elements.dropFirst().compactMap { $0.text.flatMap { SessionID($0) } }
        guard Set(ids).count == ids.count else { throw SessionStoreError(.unavailable, reason: .protocolError) }
        return (Int(total), ids)
    }
}
