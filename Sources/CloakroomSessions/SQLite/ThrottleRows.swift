import CloakroomCore
import GRDB

/// The rows of the sign-in throttle.
extension Database {
    func throttleState(_ key: ThrottleKey, now: Timestamp) throws -> ThrottleState? {
        let row = try row(
            "SELECT count, since, not_before FROM throttle WHERE scope = ? AND hash = ? AND keep_until > ?",
            [Int64(key.scope.rawValue), Int64(bitPattern: key.hash), now.milliseconds])
        // A row with invalid values counts as no state; the next attempt overwrites it.
        guard let row, let count = row.integer(0).flatMap(UInt32.init(exactly:)), let since = row.time(1),
            let notBefore = row.time(2)
        else { return nil }
        return ThrottleState(count: count, since: since, notBefore: notBefore)
    }

    func setThrottleState(_ key: ThrottleKey, _ state: ThrottleState?, keepUntil: Timestamp) throws {
        let scope = Int64(key.scope.rawValue)
        let hash = Int64(bitPattern: key.hash)
        if let state {
            try run(
                "INSERT OR REPLACE INTO throttle VALUES (?, ?, ?, ?, ?, ?)",
                [
                    scope, hash, Int64(state.count), state.since.milliseconds, state.notBefore.milliseconds,
                    keepUntil.milliseconds,
                ])
        } else {
            try run("DELETE FROM throttle WHERE scope = ? AND hash = ?", [scope, hash])
        }
    }
}
