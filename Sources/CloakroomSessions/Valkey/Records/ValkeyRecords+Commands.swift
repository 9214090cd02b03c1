import CloakroomCore

/// Keys and arguments for a script.
struct ScriptCall: Sendable {
    let keys: [String]
    let arguments: [ValkeyCommand.Part]
}

extension ValkeyRecordStore {
    func ask(_ command: ValkeyCommand) async throws(SessionStoreError) -> RESPValue {
        try Self.value(await link.send([command]).first)
    }

    /// Runs a script.
    /// - Parameter full: Whether an out-of-memory error of the server is reported as `full`.
    func run(
        _ script: ValkeyScript, _ keys: [String], _ arguments: [ValkeyCommand.Part], full: Bool = false
    ) async throws(SessionStoreError) -> RESPValue {
        try Self.value(await run(script, [ScriptCall(keys: keys, arguments: arguments)]).first, full: full)
    }

    /// Runs a script several times.
    /// - Returns: The replies, in order.
    func run(_ script: ValkeyScript, _ calls: [ScriptCall]) async -> [Result<RESPValue, ValkeyCommandError>] {
        var replies = await link.send(calls.map { script.evalsha($0.keys, $0.arguments) })
        let unknown = replies.indices.filter { index in
            if case .failure(.rejected(let error)) = replies[index] { error.code == "NOSCRIPT" } else { false }
        }
        // The script is unknown after a restart, or on another primary. Those calls were not run.
        let again = await link.send(unknown.map { script.eval(calls[$0].keys, calls[$0].arguments) })
        for (index, reply) in zip(unknown, again) { replies[index] = reply }
        return replies
    }

    /// The reply to a command.
    /// - Throws: ``SessionStoreError`` of kind `unavailable` for every failure except a full server.
    static func value(
        _ reply: Result<RESPValue, ValkeyCommandError>?, full: Bool = false
    ) throws(SessionStoreError) -> RESPValue {
        switch reply {
        case .success(let value): return value
        case .failure(.rejected(let error)) where full && error.code == "OOM": throw SessionStoreError(.full)
        case .failure, nil: throw SessionStoreError(.unavailable)
        }
    }
}
