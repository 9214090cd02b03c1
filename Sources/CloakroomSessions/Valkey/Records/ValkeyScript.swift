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
        let digest = Insecure.SHA1.hash(data: Array(text.utf8))
        name = digest.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// The `EVALSHA` command.
    func evalsha(_ keys: [String], _ arguments: [ValkeyCommand.Part]) -> ValkeyCommand {
        command("EVALSHA", name, keys, arguments)
    }

    /// The `EVAL` command, which also makes the script known to the server.
    func eval(_ keys: [String], _ arguments: [ValkeyCommand.Part]) -> ValkeyCommand {
        command("EVAL", text, keys, arguments)
    }

    private func command(
        _ command: String, _ script: String, _ keys: [String], _ arguments: [ValkeyCommand.Part]
    ) -> ValkeyCommand {
        var parts: [ValkeyCommand.Part] = [.text(script), .integer(Int64(keys.count))]
        parts += keys.map { .text($0) }
        parts += arguments
        return ValkeyCommand(command, parts)
    }
}
