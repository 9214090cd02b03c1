import CloakroomCore

extension ValkeyRecordStore {
    func throttleStates(_ names: [ThrottleKey], now: Timestamp) async throws(SessionStoreError) -> [ThrottleState?] {
        var states: [ThrottleState?] = []
        // One command each: they are in different slots.
        for reply in await link.send(names.map { ValkeyCommand("GET", .text(keys.throttle($0))) }) {
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
