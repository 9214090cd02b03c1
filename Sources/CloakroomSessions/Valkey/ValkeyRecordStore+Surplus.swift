import CloakroomCore

/// The oldest sessions of an account that has too many.
///
/// The index of an account has an id until the absolute end of its session. So the ids of sessions that ended by the idle
/// timeout remain, and the number of ids alone would end sessions without need. Reading all records would cost the more
/// the more sessions there are. Therefore a sign-in reads the times of at most 32 of them: the oldest ones, and a sample
/// that begins elsewhere each time. Ids without a record are removed from the index.
extension ValkeyRecordStore {
    func surplus(
        of account: UInt64, by rule: SurplusRule, now: Timestamp
    ) async throws(SessionStoreError) -> RecordSurplus {
        let index = keys.sessions(of: account)
        let sample = try await run(
            SessionScripts.surplus, [index],
            [.integer(Int64(max(0, rule.limit))), .integer(Int64.random(in: 0..<1_000_000))])
        guard let elements = sample.elements, case .integer(let total)? = elements.first else { return .none }
        let ids = elements.dropFirst().compactMap { $0.text.flatMap { SessionID($0) } }
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
            in: SurplusRule.Sample(total: Int(clamping: total), ids: ids, records: records), now: now)
    }
}
