import CloakroomCore

/// How many uses are written at a time.
private let touchBatch = 512

extension SealedSessionStore {
    /// Keeps the record store going and writes uses every second. When its task is cancelled, it writes what is left, and
    /// then lets the store go.
    func run() async {
        // A task of its own: cancelled with this one, the store would be gone before the last uses are written.
        let keeping = Task { await records.run(self, idleTimeout: timeouts.idle) }
        while !Task.isCancelled {
            await writeTouches()
            await removeUncertain()
            // What cuts the pause short is the end, which is no failure.
            try? await Task.sleep(for: .seconds(1))
        }
        // Likewise: what runs in a cancelled task may be cut short.
        await Task {
            await self.writeTouches()
            await self.removeUncertain()
        }.value
        keeping.cancel()
        await keeping.value
    }

    /// Writes uses until there are none left, or the store is not there; then they are written the next time.
    func writeTouches() async {
        while true {
            let batch = touches.batch(limit: touchBatch)
            guard !batch.isEmpty, (try? await records.touch(batch)) != nil else { return }
            touches.written(batch)
        }
    }
}

extension SealedSessionStore {
    /// Takes records out whose insertion was not confirmed. No event tells of them: none told that they were made.
    func removeUncertain(at instant: ContinuousClock.Instant = .now) async {
        for (id, madeAt) in uncertain.due(now: instant) {
            guard let removal = try? await records.remove(id, reason: .replaced, condition: nil, now: madeAt) else {
                return
            }
            if case .removed = removal { uncertain.removed(id) } else { uncertain.notFound(id, now: instant) }
        }
    }
}

extension SealedSessionStore: RecordChangeDelegate {
    func connectionChanged(isUp: Bool) {
        recovery.connectionChanged(isUp: isUp)
        table.connectionChanged(isUp: isUp)
    }

    var allowsNewRefreshes: Bool { recovery.isOver }

    func recordChanged(_ id: SessionID) { table.recordChanged(id) }

    func allRecordsChanged() { table.allRecordsChanged() }

    func expired(idle: Int, absolute: Int) {
        for _ in 0..<idle { events.onEnded(.expiredIdle) }
        for _ in 0..<absolute { events.onEnded(.expiredAbsolute) }
    }
}
