import CloakroomCore
import CloakroomWire
import Crypto

/// A script that the server runs atomically, identified by SHA-1 of its text as `EVALSHA` requires.
///
/// All keys of a script are in one slot of a cluster. A call sends the hash, and the text only if the server does not
/// know the hash: then the script was not run, so the second call is no repetition.
struct ValkeyScript: Sendable {
    let text: String
    let name: String

    init(_ text: String) {
        self.text = text
        name = Byte.hexString(Insecure.SHA1.hash(data: Array(text.utf8)))
    }

    /// The `EVALSHA` command.
    func evalsha(_ keys: [String], _ arguments: [ValkeyCommand.Part]) -> ValkeyCommand {
        command("EVALSHA", name, keys, arguments)
    }

    /// The `EVAL` command, which also makes the script known to the server.
    func eval(_ keys: [String], _ arguments: [ValkeyCommand.Part]) -> ValkeyCommand {
        command("EVAL", text, keys, arguments)
    }

    /// Runs calls, and once more those that the server has not run because it does not know their scripts: after a
    /// restart, or on another primary, since scripts are not replicated.
    /// - Returns: The replies, in order.
    static func run(
        _ calls: [(script: ValkeyScript, keys: [String], arguments: [ValkeyCommand.Part])],
        _ send: ([ValkeyCommand]) async -> [Result<RESPValue, ValkeyCommandError>]
    ) async -> [Result<RESPValue, ValkeyCommandError>] {
        var replies = await send(calls.map { $0.script.evalsha($0.keys, $0.arguments) })
        let unknown = replies.indices.filter { index in
            if case .failure(.rejected(let error)) = replies[index] { error.code == "NOSCRIPT" } else { false }
        }
        guard !unknown.isEmpty else { return replies }
        let again = await send(unknown.map { calls[$0].script.eval(calls[$0].keys, calls[$0].arguments) })
        for (index, reply) in zip(unknown, again) { replies[index] = reply }
        return replies
    }

    private func command(
        _ command: String, _ script: String, _ keys: [String], _ arguments: [ValkeyCommand.Part]
    ) -> ValkeyCommand {
        var parts: [ValkeyCommand.Part] = [.text(script), .integer(Int64(keys.count))]
        parts += keys.map { .text($0) }
        parts += arguments
        return ValkeyCommand(command, slot: keys.first.map(HashSlot.slot(of:)), parts)
    }
}

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
    /// - Parameters:
    ///   - full: Whether an out-of-memory error of the server is reported as `full`.
    ///   - isDurable: Whether replicas of the server have to confirm the write.
    func run(
        _ script: ValkeyScript, _ keys: [String], _ arguments: [ValkeyCommand.Part], full: Bool = false,
        isDurable: Bool = false
    ) async throws(SessionStoreError) -> RESPValue {
        let call = ScriptCall(keys: keys, arguments: arguments)
        return try Self.value(await run(script, [call], isDurable: isDurable).first, full: full)
    }

    /// Runs a script several times.
    /// - Returns: The replies, in order.
    func run(
        _ script: ValkeyScript, _ calls: [ScriptCall], isDurable: Bool = false
    ) async -> [Result<RESPValue, ValkeyCommandError>] {
        await ValkeyScript.run(calls.map { (script, $0.keys, $0.arguments) }) {
            await link.send($0, isDurable: isDurable)
        }
    }

    /// The reply to a command.
    /// - Throws: ``SessionStoreError`` of kind `unavailable` for every failure except a full server.
    static func value(
        _ reply: Result<RESPValue, ValkeyCommandError>?, full: Bool = false
    ) throws(SessionStoreError) -> RESPValue {
        switch reply {
        case .success(let value): return value
        case .failure(.rejected(let error)) where full && error.code == "OOM": throw SessionStoreError(.full)
        case .failure(let error): throw SessionStoreError(.unavailable, reason: SessionStoreError.Reason(error))
        case nil: throw SessionStoreError(.unavailable, reason: .protocolError)
        }
    }
}
