import CloakroomCore

/// The sign-in throttle. The keys of one address are in one slot, and that of the account from all addresses in another:
/// one script for each slot. An attempt that its address delays is never counted for the account, not even for a moment:
/// otherwise one address could delay the account for all others.
extension ValkeyRecordStore {
    func throttleStates(_ names: [ThrottleKey], now: SessionTime) async throws(SessionStoreError) -> [ThrottleState?] {
        var states: [ThrottleState?] = []
        // One command each: they may be in different slots.
        for reply in await link.send(names.map { ValkeyCommand("GET", key: keys.throttle($0)) }) {
            states.append(try Self.value(reply).text.flatMap(ThrottleState.init(stored:)))
        }
        return states
    }

    func countAttempt(
        _ counters: [ThrottleCounter], now: SessionTime
    ) async throws(SessionStoreError) -> ThrottleResult {
        let groups = Self.groups(counters.map(\.key))
        let calls = groups.map { group in
            ScriptCall(
                keys: group.map { keys.throttle(counters[$0].key) },
                arguments: [.integer(now.milliseconds)] + group.map { .text(counters[$0].rule.stored) })
        }
        var counts: [Int: ThrottleCount] = [:]
        var waits = Array(repeating: Duration.zero, count: counters.count)
        var failure: SessionStoreError?
        // In the order of the keys: that of the address first.
        for (group, call) in zip(groups, calls) where failure == nil && waits.allSatisfy({ $0 == .zero }) {
            do throws(SessionStoreError) {
                guard let reply = await run(ThrottleScripts.count, [call]).first else {
                    throw SessionStoreError(.unavailable, reason: .protocolError)
                }
                switch try ThrottleScripts.result(Self.value(reply), group.map { counters[$0] }, now: now) {
                case .counted(let counted):
                    for (index, count) in zip(group, counted) { counts[index] = count }
                case .delayed(let delays):
                    for (index, delay) in zip(group, delays) { waits[index] = delay }
                }
            } catch {
                failure = error
            }
        }
        let counted = counters.indices.compactMap { counts[$0] }
        if failure == nil, counted.count == counters.count { return .counted(counted) }
        // If that fails, the counts are too high, which costs no more than a delay.
        if !counted.isEmpty { try? await removeAttempt(counted, now: now) }
        if let failure { throw failure }
        return .delayed(waits)
    }

    func removeAttempt(_ counts: [ThrottleCount], now: SessionTime) async throws(SessionStoreError) {
        let calls = Self.groups(counts.map(\.counter.key)).map { group in
            ScriptCall(
                keys: group.map { keys.throttle(counts[$0].counter.key) },
                arguments: [.integer(now.milliseconds)] + group.flatMap { counts[$0].stored })
        }
        for reply in await run(ThrottleScripts.remove, calls) { _ = try Self.value(reply) }
    }

    /// The indexes of the keys of each group.
    private static func groups(_ keys: [ThrottleKey]) -> [[Int]] {
        var groups: [[Int]] = []
        for index in keys.indices {
            if let place = groups.firstIndex(where: { keys[$0[0]].group == keys[index].group }) {
                groups[place].append(index)
            } else {
                groups.append([index])
            }
        }
        return groups
    }
}

extension ThrottleScripts {
    /// The result that a reply to ``count`` contains.
    fileprivate static func result(
        _ reply: RESPValue, _ counters: [ThrottleCounter], now: SessionTime
    ) throws(SessionStoreError) -> ThrottleResult {
        let values = (reply.elements ?? []).dropFirst().map { $0.text ?? "" }
        let waits = values.compactMap { Int64($0) }
        switch reply.elements?.first {
        case .integer(1)? where values.count == counters.count:
            let states = values.map(ThrottleState.init(stored:))
            return .counted(zip(counters, states).map { ThrottleCount($0, over: $1, now: now) })
        case .integer(0)? where waits.count == counters.count && waits.contains(where: { $0 > 0 }):
            return .delayed(waits.map { .milliseconds($0) })
        default: throw SessionStoreError(.unavailable, reason: .protocolError)
        }
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
            count: count, since: SessionTime(milliseconds: since), notBefore: SessionTime(milliseconds: notBefore))
    }
}

extension ThrottleRule {
    /// The limit, the window, the kind of delay with its first, its longest wait and its memory, and the maximum delay;
    /// times in milliseconds.
    fileprivate var stored: String {
        let (kind, first, longest, memory): (String, Duration, Duration, Duration) =
            switch delay {
            case .window: ("w", .zero, .zero, .zero)
            case .constant(let wait): ("c", wait, .zero, .zero)
            case .doubling(let first, let longest, let memory): ("d", first, longest, memory)
            }
        let waits = "\(first.wholeMilliseconds) \(longest.wholeMilliseconds) \(memory.wholeMilliseconds)"
        return "\(limit) \(window.wholeMilliseconds) \(kind) \(waits) \(maxDelay.wholeMilliseconds)"
    }
}

extension ThrottleCount {
    /// The arguments for ``ThrottleScripts/remove``.
    fileprivate var stored: [ValkeyCommand.Part] {
        forgetsAll
            ? [.text(counter.rule.stored), "", ""]
            : [.text(counter.rule.stored), .text(after.stored), .text(before?.stored ?? "")]
    }
}
