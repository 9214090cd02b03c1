import CloakroomCore

/// The number of uses per write.
private let touchBatch = 512

extension SealedSessionStore {
    /// Runs the record store and writes uses every second. When its task is cancelled, it writes the remaining uses,
    /// and then stops the store.
    func run() async {
        // A task of its own: if it were cancelled with this one, the store would stop before the last uses are written.
        let keeping = Task { await records.run(self, idleTimeout: timeouts.idle) }
        while !Task.isCancelled {
            await writeTouches()
            await removeUncertain()
            // Only cancellation ends the sleep early, which is not a failure.
            try? await Task.sleep(for: .seconds(1))
        }
        // A task of its own, for the same reason: operations in a cancelled task may end early.
        await Task {
            await self.writeTouches()
            await self.removeUncertain()
        }.value
        keeping.cancel()
        await keeping.value
    }

    /// Writes all pending uses. If the store is unavailable, they are written the next time.
    func writeTouches() async {
        while true {
            let batch = touches.batch(limit: touchBatch)
            guard !batch.isEmpty, (try? await records.touch(batch)) != nil else { return }
            touches.written(batch)
        }
    }
}

extension SealedSessionStore {
    /// Removes records whose insertion was not confirmed. No end event is reported, because no creation was.
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
